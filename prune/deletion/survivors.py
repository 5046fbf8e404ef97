"""Whether what stands at a copy's name is still the copy that was planned, by one look at its top."""

from __future__ import annotations

from collections.abc import Iterable

from prune.inventory.site import Site
from prune.model import Copy, Kind, StepPlan
from prune.stores.local import LocalRoot


def gone_or_another(site: Site, steps: Iterable[StepPlan]) -> str | None:
    """What happened to a copy of the newest kept steps on a local root, before others are purged for good.

    Stores are not asked again.
    """
    for step, copy in ((kept, copy) for kept in steps if "last" in kept.reasons for copy in kept.copies):
        replica = site.by_name(copy.replica)
        if replica.root is None or replica.in_store:
            continue
        try:
            why = another(replica.root, copy, thinned=step.thinned)
        except OSError as error:
            return f"step {copy.step} is to stay on {copy.replica}, and {copy.paths[0]}: {error.strerror}"
        if why is not None:
            return f"step {copy.step} is to stay on {copy.replica}, and {why}"
    return None


def another(root: LocalRoot, copy: Copy, *, thinned: bool = False) -> str | None:
    """The sentence where another entry stands at a copy's name than was listed. Raises OSError.

    File systems give the number of a removed inode away again at once, so that the number alone tells too little.
    A file's ctime is left out: a hard link to it that is withdrawn and purged elsewhere changes it. So is that of a
    directory which the same pass thins. A copy that was never looked at (``listed`` is None) cannot be compared.
    """
    top, listed = root.stat(copy.paths[0]), copy.listed
    if listed is None:
        return None
    saved_again = top.mtime_ns > listed.mtime_ns
    if top.kind is Kind.DIR:
        saved_again = saved_again or (top.ctime_ns > listed.ctime_ns and not thinned)
    elif len(copy.paths) == 1:
        saved_again = saved_again or top.size != listed.size
    if saved_again or (top.dev, top.ino) != (listed.dev, listed.ino):
        return f"{copy.paths[0]} is another one than was planned"
    return None
