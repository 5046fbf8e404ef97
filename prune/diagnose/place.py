"""The file a log speaks of, as it stands now, and the run it belongs to."""

from __future__ import annotations

import os
import stat as modes
import time
from collections.abc import Sequence
from dataclasses import dataclass

from prune.integrity import structure
from prune.layouts.base import Claim, Members
from prune.layouts.detect import detect
from prune.layouts.listing import read_root
from prune.model import Health, Kind, Verdict
from prune.settings.schema import ReplicaSettings, RunSettings
from prune.stores.base import FileStat
from prune.stores.local import LocalRoot

_ASCENT = 5  # folders above a file that may be its run's root
_SPARSE = 1 << 20  # smaller files may have their bytes in the inode


@dataclass(frozen=True, slots=True)
class Look:
    """What is at a path. ``health`` is None where there is nothing to judge: the path is not there."""

    path: str  # absolute
    exists: bool
    health: Health | None = None
    detail: str | None = None
    size: int = 0
    allocated: int = 0
    age_ns: int | None = None
    holder: str | None = None  # another process that has it open, or writes it

    @property
    def hollow(self) -> bool:
        """Whether most of its blocks were never written."""
        return self.size > _SPARSE and self.allocated < self.size // 2


@dataclass(frozen=True, slots=True)
class Home:
    """The run a path belongs to: its root, the step whose copy holds the path, and that copy's own path.

    Both are None for a path in the root that belongs to no step there.
    """

    root: str
    step: int | None = None
    path: str | None = None


def resolve(named: Sequence[str], beside: Sequence[str]) -> tuple[str | None, bool]:
    """The first named path that is there, tried below each of the directories ``beside``; else the first named.

    Returns it as an absolute path, with whether it is there.
    """
    for path in named:
        for base in beside:
            whole = os.path.normpath(os.path.join(base, os.path.expanduser(path)))
            if os.path.lexists(whole):
                return whole, True
    if not named:
        return None, False
    return os.path.normpath(os.path.join(beside[0], os.path.expanduser(named[0]))), False


def look_at(path: str) -> Look:
    """Examines a file or directory by its structure, reading little. Raises nothing."""
    try:
        status = os.stat(path)
        with LocalRoot(os.path.dirname(os.path.realpath(path)) or "/") as above:
            members = _members(above, os.path.basename(os.path.realpath(path)))
            verdict = structure.examine(members, above)
    except FileNotFoundError:
        return Look(path, os.path.lexists(path), None, "a link that leads nowhere" if os.path.islink(path) else None)
    except OSError as error:
        return Look(path, True, Health.UNKNOWN, f"cannot be read: {error.strerror}")
    files = list(members.files.values())
    verdict = _emptiness(members, verdict, is_directory=modes.S_ISDIR(status.st_mode))
    return Look(
        path,
        True,
        verdict.health,
        verdict.detail,
        sum(file.size for file in files),
        sum(file.allocated for file in files),
        time.time_ns() - max((file.mtime_ns for file in files), default=status.st_mtime_ns),
        _holder(path),
    )


def home_of(path: str) -> Home | None:
    """The run a path belongs to: of the folders above it, the one that holds the most steps, its own among them.

    Where its own is in none of them, the nearest that holds any.
    """
    real = os.path.realpath(path)
    best: tuple[bool, int, Home] | None = None
    above = os.path.dirname(real)
    for _ in range(_ASCENT):
        if above == os.path.dirname(above):
            break
        found = _run_in(above, os.path.relpath(real, above))
        if found is not None and (best is None or (found[0], found[1] if found[0] else 0) > best[:2]):
            best = found
        above = os.path.dirname(above)
    return best[2] if best else None


def run_at(root: str) -> RunSettings:
    """A run described by its primary root alone."""
    return RunSettings(os.path.basename(root), (ReplicaSettings("primary", root, "primary"),))


def _run_in(root: str, relative: str) -> tuple[bool, int, Home] | None:
    """Whether a directory is the root of a run whose step holds the path, how many steps it holds, and both; None
    where it holds no steps."""
    try:
        with LocalRoot(root) as reader:
            found = detect(reader)
            if found.layout is None:
                return None
            view = read_root(found.layout, reader, found.base, now_ns=time.time_ns(), fresh_ns=0).view
    except OSError:
        return None
    for claim in view.claims:
        if claim.step is not None and _holds(claim, relative):
            return True, len(view.steps), Home(root, claim.step, os.path.join(root, claim.path))
    return (False, len(view.steps), Home(root)) if view.steps else None


def _holds(claim: Claim, relative: str) -> bool:
    return relative == claim.path or relative.startswith(claim.path + "/")


def _members(above: LocalRoot, name: str) -> Members:
    files: dict[str, FileStat] = {}
    dirs: dict[str, FileStat] = {}
    for entry, status in above.walk(name):
        (dirs if status.kind is Kind.DIR else files)[entry.path] = status
    return Members(0, (name,), files, dirs)


def _emptiness(members: Members, verdict: Verdict, *, is_directory: bool) -> Verdict:
    """Emptiness that the formats do not know of: a file of no known format, a directory with nothing in it."""
    if not members.files:
        return Verdict(Health.BROKEN, "there is no file in it")
    if not is_directory and verdict.health.restorable and not any(file.size for file in members.files.values()):
        return Verdict(Health.BROKEN, "0 bytes: nothing was written to it")
    return verdict


def _holder(path: str) -> str | None:
    from prune.publish.writer import is_alive, writer_of
    from prune.stores.open_files import look

    writer = writer_of(path)
    if writer is not None and is_alive(writer):
        return str(writer)
    real = os.path.realpath(path)
    return look([os.path.dirname(real)]).holder(real)
