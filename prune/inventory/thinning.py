"""What of a copy only resuming needs, as thinning would take it out."""

from __future__ import annotations

from prune.layouts.base import Layout, Members
from prune.model import Spare
from prune.stores.measure import Measure


def spare_of(layout: Layout, members: Members) -> Spare | None:
    """What thinning would take out of a copy of these files; None where there is nothing, or it cannot be told apart.

    It is summed as :func:`prune.stores.pace.measure_copy` sums a copy, so that the two can be compared.
    """
    if layout.unthinnable is not None:
        return None
    paths = tuple(layout.resume_only(members))
    if not paths:
        return None
    every = {**members.dirs, **members.files}
    total = Measure()
    for path in paths:
        total.count(every[path])
        prefix = path + "/"
        for name, status in every.items() if path in members.dirs else ():
            if name.startswith(prefix):
                total.count(status)
    holders = sorted({path.rpartition("/")[0] for path in paths})
    folders = tuple((holder, members.dirs[holder].mtime_ns) for holder in holders)
    return Spare(paths, total.identity(every[paths[0]]), total.freed, total.files, folders)
