"""One small question to a file system each, asked in an empty directory of our own."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from prune.control.lock import SHARED
from prune.model import SECOND
from prune.settings.units import format_duration
from prune.stores.local import LocalRoot

State = Literal["ok", "attention", "bad"]
_PAST_NS = 1_500_000_000 * SECOND
_SKEW_NS = 60 * SECOND


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, and what it means for pruning."""

    check: str
    state: State
    found: str
    means: str


@dataclass(frozen=True, slots=True)
class Ground:
    """The empty directory that is probed, and what is known of the volume."""

    folder: LocalRoot
    file_system: str | None


def times(ground: Ground) -> Finding:
    """Are times kept: the one set, and a sensible one for a new file."""
    _touch(ground, "times")
    os.utime("times", ns=(_PAST_NS, _PAST_NS), dir_fd=ground.folder.fd, follow_symlinks=False)
    kept = ground.folder.stat("times").mtime_ns
    if abs(kept - _PAST_NS) <= 2 * SECOND:
        return Finding("mtime", "ok", "kept as set", "the age of a checkpoint can be told")
    means = "no age can be trusted here: what looks too young or unknown is never deleted"
    return Finding("mtime", "bad", f"set {_PAST_NS // SECOND}, came back {kept // SECOND}", means)


def clock(ground: Ground) -> Finding:
    """The volume's own clock beside ours."""
    before = time.time_ns()
    _touch(ground, "clock")
    after = time.time_ns()
    stamp = ground.folder.stat("clock").mtime_ns
    skew = stamp - after if stamp > after else min(0, stamp - before)
    said = format_duration(abs(skew)) if abs(skew) >= SECOND else "less than 1s"
    if abs(skew) <= _SKEW_NS:
        return Finding("clock", "ok", f"{said} apart", "ages are the same by its clock and by ours")
    ahead = "ahead" if skew > 0 else "behind"
    means = "apply takes the smaller of the two ages; mend the clocks, for plan only knows ours"
    return Finding("clock", "attention", f"{said} {ahead} of ours", means)


def rename(ground: Ground) -> Finding:
    """Withdrawing is one rename, of a file and of a directory with something in it."""
    _touch(ground, "old")
    ground.folder.rename("old", "new")
    ground.folder.mkdir("full")
    _touch(ground, "full/file")
    ground.folder.rename("full", "moved")
    if ground.folder.exists("new") and ground.folder.exists("moved/file"):
        return Finding("rename", "ok", "files and directories", "a step disappears whole or not at all")
    return Finding("rename", "bad", "a renamed name is not there", "nothing can be withdrawn safely")


def no_replace(ground: Ground) -> Finding:
    """Putting back must never replace what came meanwhile."""
    _touch(ground, "one")
    _touch(ground, "two")
    try:
        ground.folder.rename_new("one", "two")
    except FileExistsError:
        return Finding("no-replace", "ok", "refused to replace", "what is put back never replaces what came meanwhile")
    except OSError as error:
        return Finding(
            "no-replace", "attention", _said(error), "a step that must be put back stays in the trash instead"
        )
    return Finding("no-replace", "bad", "replaced a file", "do not let two programs write here at once")


def exchange(ground: Ground) -> Finding:
    """Swapping two names at once, for directories that are published over older ones."""
    _touch(ground, "left")
    _touch(ground, "right")
    try:
        ground.folder.exchange("left", "right")
    except OSError as error:
        return Finding(
            "exchange", "attention", _said(error), "a directory is replaced in two renames, the old one first"
        )
    return Finding("exchange", "ok", "two names swap at once", "a directory is replaced in one instant")


def fsync(ground: Ground) -> Finding:
    """A record that is synced survives a power cut."""
    start = time.monotonic()
    with ground.folder.create("synced") as file:
        file.write(b"x" * 4096)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.fsync(ground.folder.fd)
    except OSError as error:
        means = "after a power cut a name may be back that was withdrawn, or gone that was published"
        return Finding("fsync", "attention", f"of a directory: {_said(error)}", means)
    milliseconds = (time.monotonic() - start) * 1000
    return Finding("fsync", "ok", f"{milliseconds:.0f} ms", "what is recorded survives a power cut")


def lock(ground: Ground) -> Finding:
    """Two passes must not delete at once."""
    _touch(ground, "lock")
    with _opened(ground, "lock") as first, _opened(ground, "lock") as second:
        try:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return Finding("lock", "bad", _said(error), "two passes cannot be kept apart: apply is blocked")
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return _held(ground)
        return Finding("lock", "bad", "a second lock was granted", "two passes cannot be kept apart")


def hard_links(ground: Ground) -> Finding:
    """The fallback for putting back, and how honestly freed space can be told."""
    _touch(ground, "linked")
    try:
        os.link("linked", "again", src_dir_fd=ground.folder.fd, dst_dir_fd=ground.folder.fd)
    except OSError as error:
        return Finding("hard-links", "ok", _said(error), "no file here shares its bytes with another by a link")
    links = ground.folder.stat("linked").links
    if links == 2:
        return Finding("hard-links", "ok", "counted", "bytes that another name still holds are not promised as freed")
    return Finding("hard-links", "attention", f"2 names, {links} counted", "less may be freed than a plan promises")


PROBES: tuple[Callable[[Ground], Finding], ...] = (
    times, clock, rename, no_replace, exchange, fsync, lock, hard_links,
)  # fmt: skip


def _held(ground: Ground) -> Finding:
    kind = ground.file_system
    if kind is None or kind in SHARED or kind.startswith("fuse"):
        means = "other hosts may not see it, so a lease with an expiry is kept beside it"
        return Finding("lock", "ok", f"held, on a shared file system ({kind or 'unknown'})", means)
    return Finding("lock", "ok", "held", "one pass at a time, and a dead one leaves no lock behind")


@contextlib.contextmanager
def _opened(ground: Ground, name: str):  # type: ignore[no-untyped-def]
    fd = os.open(name, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=ground.folder.fd)
    try:
        yield fd
    finally:
        os.close(fd)


def _touch(ground: Ground, name: str) -> None:
    with ground.folder.create(name) as file:
        file.write(b"probe")


def _said(error: OSError) -> str:
    return error.strerror or errno.errorcode.get(error.errno or 0, "refused")
