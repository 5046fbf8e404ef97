"""One run's replicas → its Inventory, judged newest first and only as far as the decision needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from prune.inventory.damage import explained
from prune.inventory.gathering import Gathering, Progress, silent
from prune.inventory.identity import check_volumes
from prune.inventory.judging import Evidence, no_evidence
from prune.inventory.leaning import with_leaning
from prune.inventory.looking import as_needed, candidate_read, judged
from prune.inventory.opening import look_afresh, open_control
from prune.inventory.reading import list_replica
from prune.inventory.recognising import find_layout
from prune.inventory.site import Site
from prune.inventory.surveying import as_listed
from prune.model import Copy, Inventory
from prune.stores.open_files import look


def gather(
    site: Site,
    *,
    now_ns: int,
    evidence: Evidence = no_evidence,
    keep_last: int | None = None,
    judge_all: bool = False,
    measure: bool = True,
    before: Inventory | None = None,
    imagine: Callable[[Inventory], Inventory] = lambda found: found,
    courtesy: bool = True,
    progress: Progress = silent,
) -> Inventory:
    """Lists every replica and looks at what the plan needs. Writes nothing.

    ``keep_last`` is a lowered N (pressure); ``judge_all`` judges every copy (verify, status). ``measure=False`` stops
    where something would be deleted, unmeasured: enough to know that a pass has nothing to do. ``before`` is an
    earlier inventory of the same site: what stands unchanged is not looked at again. ``imagine`` turns what was found
    into what the plan is to be made of, for those who ask what it would be if. Without ``courtesy`` no copy is judged
    that no decision leans on, however few there are.
    Never raises for what a replica does: its trouble becomes blocks.
    """
    work = Gathering(site, now_ns, evidence, keep_last, progress, imagine, courtesy)
    inventory = _surveyed(work, again=before is not None)
    if before is not None:
        inventory = with_leaning(_carried_over(inventory, before))
    if not measure:
        return as_needed(work, inventory, measure=False)
    inventory = judged(work, inventory, judge_all)
    return inventory if before is not None else explained(site, candidate_read(work, inventory))


def survey(site: Site, *, now_ns: int) -> Inventory:
    """What the listings alone tell: no copy is looked into. Writes nothing, and raises as little as :func:`gather`."""
    return _surveyed(Gathering(site, now_ns, no_evidence, None, silent))


def _surveyed(work: Gathering, *, again: bool = False) -> Inventory:
    """``again``: somebody is about to act on it, so that nothing another run's look saw is good enough."""
    site = work.site
    look_afresh(site)
    find_layout(site)
    open_control(site, site.layout)
    for replica in site.replicas:
        list_replica(work, replica)
    check_volumes(site)
    work.open_files = look([r.root.real for r in site.replicas if r.root is not None], anew=again)
    return as_listed(work)


def _carried_over(inventory: Inventory, before: Inventory) -> Inventory:
    """Copies that stand as they stood keep what was found of them; who holds them open is always looked at anew."""
    copies = {
        step: {name: _same_or_new(copy, before.copies.get(step, {}).get(name)) for name, copy in found.items()}
        for step, found in inventory.copies.items()
    }
    return replace(inventory, copies=copies)


def _same_or_new(found: Copy, earlier: Copy | None) -> Copy:
    if earlier is None or earlier.listed is None or (earlier.listed, earlier.paths) != (found.listed, found.paths):
        return found
    return replace(earlier, busy=found.busy)
