"""One run's pass: quiet where there is nothing to do, else locks, recovery, a fresh look, the content check, sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from prune import planner
from prune.control.holds import held_steps
from prune.deletion import full_disk
from prune.deletion.locks import Locks, make_controls, take
from prune.deletion.memories import memories_to_write, write_memories
from prune.deletion.newest import check_newest
from prune.deletion.orphans import sweep_orphans, sweep_staging
from prune.deletion.recovery import Recovered, finish_due, recover
from prune.deletion.reviewed import cut_down, gone_since, without
from prune.deletion.signs import signs
from prune.deletion.sweep import BATCH, BATCH_IN_STORE, BATCH_REMOTE, Sweep, Terms
from prune.deletion.tally import Tally
from prune.deletion.telling import blocked, guarded, note_deletions, outcome_of, told, with_recovery
from prune.deletion.turns import take_turn
from prune.deletion.volumes import volumes_to_write, write_volumes
from prune.engine import Conduct
from prune.inventory import gather, open_site
from prune.inventory.opening import read_space
from prune.inventory.site import Site
from prune.journal import Journal
from prune.journal.own import marking
from prune.missed import with_what_is_missed
from prune.model import (
    Attention,
    Block,
    Decision,
    DeletedCopy,
    Inventory,
    RunOutcome,
    RunPlan,
)
from prune.settings.schema import RunSettings


def apply_run(
    run: RunSettings, *, plan_id: str, reviewed: RunPlan | None, conduct: Conduct, journal: Journal
) -> RunOutcome:
    """Deletes what a fresh plan deletes, cut down to ``reviewed`` where there is one. Never raises for a replica."""
    with open_site(run) as site, Locks() as locks:
        journal = marking(journal, site)
        free_before = _free(site)
        now = conduct.clock()
        inventory = gather(
            site, now_ns=now, evidence=journal.evidence, keep_last=conduct.keep_last, measure=False,
            progress=conduct.progress,
        )  # fmt: skip
        inventory = with_what_is_missed(site, inventory, journal)
        first = _planned(site, inventory, now, conduct)
        conduct.planned(first)
        if first.blocked is not None and not _settles_by_itself(first):
            return blocked(run, first, journal, plan_id, conduct)
        if _quiet(site, inventory, first, now, conduct):
            return told(RunOutcome(run.name, guarded=guarded(first), free_before=free_before, free_after=free_before,
                                    attention=first.attention), journal, plan_id, conduct)  # fmt: skip
        relieved: list[DeletedCopy] = []
        blocks = make_controls(site, spare_blank=True)
        if blocks and any(full_disk.is_full(block) for block in blocks):
            relieved, blocks = _relieve(site, inventory, first, reviewed, plan_id, conduct, journal)
            reviewed = without(reviewed, relieved)
        block = _block_of(blocks) or take_turn(locks, journal, run.name, wait_ns=conduct.wait_ns)
        block = block or take(site, locks, wait_ns=conduct.wait_ns)
        if block is not None and relieved:
            first = replace(first, attention=(*first.attention, Attention(block.block, block.replica, block.detail,
                            "the disk is still too full to withdraw more than lone files")))  # fmt: skip
            outcome = RunOutcome(run.name, deleted=tuple(relieved), free_before=free_before,
                                 free_after=_free_now(site), attention=first.attention)  # fmt: skip
            return told(outcome, journal, plan_id, conduct)
        if block is not None:
            held = _planned(site, replace(inventory, blocks=(*inventory.blocks, block)), now, conduct)
            return blocked(run, replace(held, blocks=(block,)), journal, plan_id, conduct)
        outcome = _under_locks(site, locks, inventory, plan_id, reviewed, conduct, journal)
        outcome = replace(
            outcome, deleted=(*relieved, *outcome.deleted), free_before=free_before, free_after=_free_now(site)
        )
        return told(outcome, journal, plan_id, conduct)


def _relieve(
    site: Site,
    inventory: Inventory,
    first: RunPlan,
    reviewed: RunPlan | None,
    plan_id: str,
    conduct: Conduct,
    journal: Journal,
) -> tuple[list[DeletedCopy], list[Block]]:
    """Makes room for the control folders, by the rules of any deletion: the newest kept step is read first, all is
    looked at again after that, nothing goes beyond the reviewed plan, and history tells what went."""
    now = conduct.clock()
    inventory, _ = check_newest(site, inventory, first, lambda i: _planned(site, i, now, conduct), journal, now,
                                conduct.progress)  # fmt: skip
    now = conduct.clock()
    inventory = gather(
        site, now_ns=now, evidence=journal.evidence, keep_last=conduct.keep_last, measure=False, before=inventory
    )
    plan = _planned(site, inventory, now, conduct)
    chosen, _ = cut_down(plan, reviewed)
    relieved, blocks = full_disk.relieve(site, chosen, lambda: not conduct.stop and conduct.keep_going())
    note_deletions(journal, site.run, plan, Tally(deleted=relieved), Recovered(), plan_id, conduct.clock())
    return relieved, blocks


def _planned(site: Site, inventory: Inventory, now_ns: int, conduct: Conduct) -> RunPlan:
    return planner.plan(
        inventory, site.run, now_ns, keep_last=conduct.keep_last, allow_many=conduct.allow_many,
        allow_rewound=conduct.allow_rewound,
    )  # fmt: skip


def _settles_by_itself(plan: RunPlan) -> bool:
    """Blocks that recovery under the locks may lift: what a dead pass withdrew makes a replica look emptied."""
    return {block.block for block in plan.blocks} <= {"replica-vanished"} and any(r.trash_bytes for r in plan.replicas)


def _quiet(site: Site, inventory: Inventory, plan: RunPlan, now_ns: int, conduct: Conduct) -> bool:
    """Nothing to delete, to look at before deleting, to settle or to remember."""
    if planner.wanted(inventory, site.run, now_ns, keep_last=conduct.keep_last, allow_rewound=conduct.allow_rewound):
        return False
    orphans = any(orphan.decision is Decision.DELETE for orphan in plan.orphans)
    trashed = any(r.usable and r.control is not None and r.control.trashed() for r in site.replicas)
    to_write = volumes_to_write(site) or memories_to_write(site, plan, inventory, now_ns)
    return not (plan.victims or plan.thinned or orphans or trashed or to_write)


def _under_locks(
    site: Site,
    locks: Locks,
    before: Inventory,
    plan_id: str,
    reviewed: RunPlan | None,
    conduct: Conduct,
    journal: Journal,
) -> RunOutcome:
    run = site.run
    local = conduct.clock()
    now, skew = locks.now_ns(local), locks.skew_seconds(local)
    recovered = recover(site, now_ns=now)
    for replica in site.replicas:
        if replica.root is not None:
            read_space(replica)
    inventory = gather(
        site, now_ns=now, evidence=journal.evidence, keep_last=conduct.keep_last, before=before,
        progress=conduct.progress,
    )  # fmt: skip
    inventory = replace(inventory, clock="volume", skew_seconds=skew)
    plan = _planned(site, inventory, now, conduct)
    attention = _remember(site, plan, inventory, now) if plan.blocked is None else []
    seen = None
    if plan.victims or plan.thinned:
        seen = signs(site, inventory)  # to read the newest in full may take long
        inventory, plan = check_newest(site, inventory, plan, lambda i: _planned(site, i, now, conduct), journal, now,
                                       conduct.progress)  # fmt: skip
    conduct.planned(plan)
    chosen, dropped = cut_down(plan, reviewed)
    if plan.blocked is not None:
        return with_recovery(outcome_of(run, plan, Tally(blocked=plan.blocked), dropped, attention), recovered)
    attention += _finish_due(site, inventory, plan, recovered, now)
    gone = gone_since(plan, reviewed)
    terms = Terms(
        plan_id,
        grace_ns=run.grace if conduct.grace_ns is None else conduct.grace_ns,
        batch=conduct.batch or _batch(site),
        keep_last=conduct.keep_last,
        allow_many=conduct.allow_many,
        allow_rewound=conduct.allow_rewound,
    )
    sweep = Sweep(
        site, locks, inventory, chosen, terms, conduct.clock, journal.evidence, conduct.stop,
        told=_counter(conduct, chosen), keep_going=conduct.keep_going, seen=seen,
    )  # fmt: skip
    tally = sweep.run()
    tally.gone[:0] = gone
    if tally.blocked is None and not conduct.stop and conduct.keep_going():
        sweep_orphans(site, plan, tally, plan_id=plan_id, now_ns=locks.now_ns(conduct.clock()))
        sweep_staging(site, tally, now_ns=locks.now_ns(conduct.clock()))
    _take_off_the_listing(site, tally)
    attention += write_volumes(site)
    note_deletions(journal, run, plan, tally, recovered, plan_id, conduct.clock())
    return with_recovery(outcome_of(run, plan, tally, dropped, attention), recovered)


def _finish_due(site: Site, inventory: Inventory, plan: RunPlan, recovered: Recovered, now_ns: int) -> list[Attention]:
    """Ends what waited in the trash for its time, now that a plan has nothing against it."""
    recovered.add(finish_due(site, plan, held_steps(inventory.pins, inventory.leases, now_ns), now_ns=now_ns))
    waiting = any(r.usable and r.control is not None and r.control.trashed() for r in site.replicas)
    if plan.resume_candidate is not None or not waiting:
        return []
    return [Attention("trash", None, "nothing that stands can be resumed from, so the trash keeps what it holds",
                      "prune undo puts it back")]  # fmt: skip


def _batch(site: Site) -> int:
    """How many steps share a look and a sync."""
    usable = [replica for replica in site.replicas if replica.usable]
    if usable and all(replica.in_store for replica in usable):
        return BATCH_IN_STORE
    return BATCH_REMOTE if any(replica.waits for replica in usable) else BATCH


def _remember(site: Site, plan: RunPlan, inventory: Inventory, now_ns: int) -> list[Attention]:
    return [*write_volumes(site), *write_memories(site, plan, inventory, now_ns)]


def _take_off_the_listing(site: Site, tally: Tally) -> None:
    gone = [(copy.step, copy.replica) for copy in tally.deleted] + tally.gone
    for step, name in gone:
        listing = site.by_name(name).listing
        if listing is not None:
            listing.steps.pop(step, None)


def _counter(conduct: Conduct, plan: RunPlan) -> Callable[[DeletedCopy], None]:
    total = sum(len(step.goes) for step in plan.steps)
    done = 0

    def told(copy: DeletedCopy) -> None:
        nonlocal done
        done += 1
        conduct.progress("deleting", done, total)
        conduct.told(copy)

    return told


def _free_now(site: Site) -> dict[str, int]:
    for replica in site.replicas:
        if replica.root is not None:
            read_space(replica)
    return _free(site)


def _free(site: Site) -> dict[str, int]:
    return {r.name: r.space.free_bytes for r in site.replicas if r.space is not None}


def _block_of(blocks: Sequence[Block]) -> Block | None:
    return blocks[0] if blocks else None
