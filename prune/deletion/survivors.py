"""Whether the steps that are to survive a pass still stand as they were planned, before others are purged for good."""

from __future__ import annotations

from collections.abc import Iterable

from prune.inventory.site import Site
from prune.model import Copy, Kind, StepPlan
from prune.stores.base import FileStat


def gone_or_another(site: Site, steps: Iterable[StepPlan]) -> str | None:
    """What happened to a copy of the newest kept steps on a local root. Stores are not asked again."""
    for step, copy in ((kept, copy) for kept in steps if "last" in kept.reasons for copy in kept.copies):
        replica = site.by_name(copy.replica)
        if replica.root is None or replica.in_store or not copy.identity.dev:
            continue  # what could not be looked at when it was planned cannot be compared now
        try:
            top = replica.root.stat(copy.paths[0])
        except OSError as error:
            return f"step {copy.step} is to stay on {copy.replica}, and {copy.paths[0]}: {error.strerror}"
        if _is_another(copy, top, thinned=step.thinned):
            return f"step {copy.step} is to stay, and another one stands on {copy.replica} now"
    return None


def _is_another(copy: Copy, top: FileStat, *, thinned: bool) -> bool:
    """File systems give the number of a removed inode away again at once, so that the number alone tells too little.

    A file's ctime is left out: a hard link to it that is withdrawn and purged elsewhere changes it. So is that of a
    directory which the same plan thins.
    """
    planned = copy.identity
    if (top.dev, top.ino) != (planned.dev, planned.ino):
        return True
    if top.kind is Kind.DIR:
        return top.ctime_ns > planned.ctime_ns and not thinned
    return top.mtime_ns > planned.mtime_ns or (len(copy.paths) == 1 and top.size != planned.size)
