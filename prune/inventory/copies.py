"""From claims to copies: what the top entries alone tell, then what measuring tells."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from prune.inventory.site import OpenReplica
from prune.layouts.base import Claim, Layout, Part
from prune.model import Copy, Health, Identity, Kind, Temporary
from prune.stores.base import FileStat
from prune.stores.local import LocalRoot
from prune.stores.measure import Measure
from prune.stores.open_files import OpenFiles
from prune.stores.pace import measure_copy


def listed_copy(replica: OpenReplica, layout: Layout, step: int, claims: Sequence[Claim]) -> Copy | None:
    """A copy as its top entries show it. Plain files are thereby measured, directories are not yet."""
    assert replica.root is not None
    kinds = {claim.path: claim for claim in claims}
    paths = tuple(layout.withdraw_order(kinds))
    tops: list[FileStat] = []
    path, sidecars = "", 0
    try:
        for path in paths:
            with suppress(FileNotFoundError):  # went away since it was listed
                tops.append(replica.root.stat(path))
                sidecars += tops[-1].size if kinds[path].part is Part.SIDECAR else 0
        thinned = replica.thinned(step)
    except OSError as error:
        return unreadable(step, replica.name, paths, f"{path}: {error.strerror}")
    if not tops:
        return None
    total = Measure()
    for top in tops:
        total.count(top)
    link = next((_not_plain(kinds[path]) for path in paths if _not_plain(kinds[path])), None)
    link = link or _mounted_in(replica, paths)
    measured = all(top.kind is not Kind.DIR for top in tops)
    listed = replace(total.identity(tops[0]), files=total.files if measured else -1)
    return Copy(
        step=step,
        replica=replica.name,
        paths=paths,
        identity=listed,
        listed=listed,
        load_path=layout.load_path(paths),
        mtime_ns=total.mtime_ns,
        oldest_mtime_ns=total.oldest_mtime_ns,
        measured=measured,
        size=total.size - sidecars if measured else None,
        sidecars=sidecars,
        bytes=total.freed if measured else None,
        files=total.files if measured else None,
        link=link,
        weights_only=bool(thinned),
        thinned=thinned,
    )


def unreadable(step: int, replica: str, paths: tuple[str, ...], detail: str) -> Copy:
    """A copy that could not be looked at: its health is unknown, its age too."""
    nothing = Identity(0, 0, 0, 0, 0, -1)
    return Copy(step, replica, paths, nothing, None, None, measured=True, health=Health.UNKNOWN, detail=detail)


def with_measure(copy: Copy, measure: Measure, first: FileStat) -> Copy:
    """The copy with what was found on looking at everything in it."""
    link = copy.link
    return replace(
        copy,
        identity=measure.identity(first),
        mtime_ns=measure.mtime_ns,
        oldest_mtime_ns=measure.oldest_mtime_ns,
        measured=True,
        size=max(0, measure.size - copy.sidecars),
        bytes=measure.freed,
        files=measure.files,
        link=link,
    )


def without_what_is_withdrawn(replica: OpenReplica, copy: Copy) -> Copy:
    """A measured copy without the parts that thinning took out of it. In an object store those stand there until they
    are purged: they are no part of it, though its identity has them. What cannot be told stays counted."""
    if not copy.thinned or not replica.in_store or not copy.measured:
        return copy
    assert replica.root is not None
    out = Measure()
    try:
        for part in copy.thinned:
            if replica.root.exists(part):
                out.merge(replica.root.measure(part))
    except OSError:
        return copy
    return replace(
        copy,
        size=max(0, (copy.size or 0) - out.size),
        bytes=max(0, (copy.bytes or 0) - out.freed),
        files=max(0, (copy.files or 0) - out.files),
    )


def link_out(root: LocalRoot, links: Sequence[str]) -> str | None:
    """The first symlink that leads out of the root, as the sentence for the guard."""
    for path in links:
        try:
            target = root.readlink(path)
        except OSError:
            return f"{path} is a symlink that cannot be read"
        there = os.path.normpath(os.path.join(root.real, os.path.dirname(path), target))
        if os.path.isabs(target) or not (there + os.sep).startswith(root.real + os.sep):
            return f"{path} leads out of the root, to {target}"
    return None


def temporary(replica: OpenReplica, claim: Claim, open_files: OpenFiles) -> Temporary | None:
    """A temporary with its size and newest time; None when it went away. Unreadable: its age is unknown."""
    assert replica.root is not None
    busy = open_files.holder(os.path.join(replica.root.real, claim.path))
    try:
        measure, first = measure_copy(replica.root, [claim.path])
    except FileNotFoundError:
        return None
    except OSError:
        return Temporary(replica.name, claim.path, claim.step, 0, None, Identity(0, 0, 0, 0, 0, -1), busy)
    mtime = measure.mtime_ns if (measure.oldest_mtime_ns or 0) > 0 else measure.oldest_mtime_ns
    return Temporary(replica.name, claim.path, claim.step, measure.freed, mtime, measure.identity(first), busy)


def _mounted_in(replica: OpenReplica, paths: Sequence[str]) -> str | None:
    """What is mounted there is no part of the step, and would go into the trash with it."""
    for point in replica.mounted:
        if any(point == path or point.startswith(path + "/") for path in paths):
            return f"something is mounted at {point}"
    return None


def _not_plain(claim: Claim) -> str | None:
    if claim.part is Part.PAYLOAD and claim.kind is Kind.LINK:
        return f"{claim.path} is a symlink"
    if claim.kind is Kind.OTHER:
        return f"{claim.path} is no plain file or directory"
    return None
