"""One replica, examined: the volume first, then the names that are there, then the probes."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from itertools import islice

from prune.control.place import find_place
from prune.doctor.probes import PROBES, Finding, Ground
from prune.evidence import set_by_somebody
from prune.model import Kind
from prune.settings.roots import is_url
from prune.settings.schema import ReplicaSettings
from prune.settings.units import format_size
from prune.stores.local import LocalRoot
from prune.stores.mounts import mount_of

_LOOKED_AT = 2000  # names whose times are looked at


def examine(replica: ReplicaSettings, *, stand_beside: bool) -> list[Finding]:
    """Every finding about one replica. Writes a probe directory where the control folder stands or would stand, and
    takes it away again; ``stand_beside`` says that this is not in the root. Never raises for what the volume does.
    """
    if is_url(replica.root):
        from prune.doctor import in_store

        return in_store.examine(replica)
    try:
        root = LocalRoot(replica.root)
    except OSError as error:
        means = "a required replica that cannot be reached blocks every delete of its run"
        return [Finding("reach", "bad", f"{replica.root}: {error.strerror}", means)]
    with root:
        kind = _mount(root, replica)
        return [*kind, *_room(root, replica), *_names(root), *_probed(root, replica, stand_beside)]


def _mount(root: LocalRoot, replica: ReplicaSettings) -> Iterator[Finding]:
    mount = mount_of(root.real)
    if mount is None:
        yield Finding("mount", "attention", "the system does not tell", "it is treated as shared with other hosts")
        return
    found = f"{mount.file_system} mounted at {mount.point}"
    if replica.mountpoint and mount.point != root.real:
        means = "it is declared a mount point and is none now: every delete of its run is blocked"
        yield Finding("mount", "bad", found, means)
    else:
        yield Finding("mount", "ok", found, "the volume is told apart by an id of its own, not by its path")


def _room(root: LocalRoot, replica: ReplicaSettings) -> Iterator[Finding]:
    try:
        space = root.space()
    except OSError as error:
        yield Finding(
            "free-space", "bad", error.strerror or "unreadable", "unknown room blocks every delete of its run"
        )
        return
    if space.total_bytes <= 0:
        state = "ok" if replica.free_space == "none" else "bad"
        means = 'unknown room blocks deletes, unless this replica says free_space = "none"'
        yield Finding("free-space", "ok" if state == "ok" else "bad", "a total of zero", means)
    else:
        found = f"{format_size(space.free_bytes)} of {format_size(space.total_bytes)}"
        yield Finding("free-space", "ok", found, "water marks and forecasts can be trusted")
    if space.free_inodes is None:
        yield Finding("inodes", "ok", "not counted", "this file system does not run out of them")
    else:
        scarce = bool(space.total_inodes) and space.free_inodes * 100 < (space.total_inodes or 0)
        means = "a save may fail although bytes are free" if scarce else "there is room for more files"
        yield Finding("inodes", "attention" if scarce else "ok", f"{space.free_inodes} free", means)


def _names(root: LocalRoot) -> Iterator[Finding]:
    """The times of what is there: a file system may keep those it is given now and have lost older ones."""
    unknown = seen = 0
    try:
        for entry in islice(root.scan(), _LOOKED_AT):
            if entry.kind in (Kind.FILE, Kind.DIR):
                seen += 1
                unknown += not set_by_somebody(root.stat(entry.path).mtime_ns)
    except OSError as error:
        yield Finding("names", "bad", error.strerror or "unreadable", "a listing that fails blocks every delete here")
        return
    if unknown:
        means = 'those are never deleted, unless guards.unknown_mtime = "observe"'
        yield Finding("names", "attention", f"{unknown} of {seen} have no believable time", means)
    else:
        yield Finding("names", "ok", f"{seen} looked at, all with a believable time", "their ages can be told")


def _probed(root: LocalRoot, replica: ReplicaSettings, stand_beside: bool) -> Iterator[Finding]:
    place = find_place(root.real, stand_beside=stand_beside, override=replica.control)
    if place.trouble is not None:
        yield Finding("control", "bad", place.trouble, "without its control folder nothing is deleted here")
        return
    yield Finding("control", "ok", place.path, "trash, pins and records stand here" + _yet(place.exists))
    holder = place.path if place.exists else os.path.dirname(place.path)
    mount = mount_of(root.real)
    try:
        with _ground(holder, mount.file_system if mount else None) as ground:
            yield Finding("write", "ok", "permitted", "steps can be withdrawn and purged")
            for probe in PROBES:
                yield _asked(probe.__name__.replace("_", "-"), probe, ground)
    except OSError as error:
        means = "plan, status and verify work; apply is blocked here"
        yield Finding("write", "bad", f"{holder}: {error.strerror}", means)


def _asked(name: str, probe, ground: Ground) -> Finding:  # type: ignore[no-untyped-def]
    try:
        finding: Finding = probe(ground)
    except OSError as error:
        return Finding(name, "bad", error.strerror or str(error), "this call fails here, and pruning needs it")
    return finding


@contextlib.contextmanager
def _ground(holder: str, file_system: str | None) -> Iterator[Ground]:
    """A probe directory, removed whatever happens."""
    with LocalRoot(holder) as outer:
        name = f".prune-probe-{''.join(secrets.choice('abcdefghij') for _ in range(8))}"
        outer.mkdir(name, 0o700)
        try:
            with LocalRoot(os.path.join(holder, name)) as folder:
                yield Ground(folder, file_system)
        finally:
            outer.remove(name)


def _yet(exists: bool) -> str:
    return "" if exists else " once something is deleted"
