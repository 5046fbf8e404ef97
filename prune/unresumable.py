"""Why there is nothing to resume from: never "a new run" where anything tells that a checkpoint was there."""

from __future__ import annotations

from prune.candidates import Search
from prune.errors import Blocked, Damaged, NothingYet, PruneError
from prune.journal import Journal
from prune.missed import missed

_HIDING = frozenset({
    "replica-unreachable", "replica-vanished", "volume-changed", "layout-ambiguous", "listing-incomplete",
    "control-unusable",
})  # fmt: skip


def none_left(search: Search, journal: Journal, *, min_step: int | None, expect: bool) -> PruneError:
    """Why there is nothing to resume from."""
    inventory, run = search.inventory, search.checking.site.run
    hiding = [each.detail for each in inventory.blocks if each.block in _HIDING]
    hiding += [each.detail for each in inventory.attention if each.kind in _HIDING]
    if hiding:
        return Blocked(f"{run.name}: found nothing to resume from, and could not look everywhere: {hiding[0]}")
    if search.skipped:
        newest = search.skipped[0]
        return Damaged(
            f"{run.name}: {len(search.skipped)} checkpoints were found and none is usable; the newest, step "
            f"{newest.step} on {newest.replica}, is {newest.health}: {newest.detail or 'no reason is known'}",
            mend="`prune verify` tells what is wrong with each; a mirror may hold a good copy",
        )
    if inventory.copies:
        return Damaged(f"{run.name}: no checkpoint at or above step {min_step}; the newest is "
                       f"{max(inventory.copies)}")  # fmt: skip
    if not all(replica.listed for replica in inventory.replicas):
        return Blocked(f"{run.name}: nothing to resume from was found, and not every replica could be listed")
    held = [replica.name for replica in inventory.replicas if replica.ever_held]
    if held:
        return Blocked(f"{run.name}: {held[0]} held checkpoints before and holds none now",
                       mend="`prune undo` puts back what is still in the trash")  # fmt: skip
    apart = next((pick for pick in inventory.picks.values() if pick.apart), None)
    if apart is not None:
        return Damaged(f"{run.name}: no step is there to be named, and yet it is no new run: the trainer itself would "
                       f"resume from {apart.path} ({apart.how})", mend="let the trainer find it by itself")  # fmt: skip
    vanished = missed(journal, search.checking.site)
    if vanished is not None:
        mend = f"mount it; where training begins anew on an empty volume: prune adopt {run.primary.name}"
        return Blocked(f"{run.name}: {vanished}", mend=mend)
    if expect:
        return Damaged(f"{run.name}: there is no checkpoint, and one was expected",
                       mend="no replica ever held one, as far as can be told")  # fmt: skip
    return NothingYet(f"{run.name}: a new run: no replica ever held a checkpoint")
