"""One run's pass: quiet where there is nothing to do, else locks, recovery, a fresh look, the content check, sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from prune import planner
from prune.deletion import full_disk
from prune.deletion.locks import Locks, make_controls, take
from prune.deletion.memories import memories_to_write, write_memories
from prune.deletion.newest import check_newest
from prune.deletion.orphans import sweep_orphans, sweep_staging
from prune.deletion.recovery import Recovered, recover
from prune.deletion.signs import signs
from prune.deletion.sweep import BATCH, BATCH_IN_STORE, BATCH_REMOTE, Sweep, Terms
from prune.deletion.tally import Tally
from prune.deletion.turns import take_turn
from prune.deletion.volumes import volumes_to_write, write_volumes
from prune.engine import Conduct
from prune.inventory import gather, open_site
from prune.inventory.opening import read_space
from prune.inventory.site import Site
from prune.journal import Event, Journal
from prune.journal.own import marking
from prune.model import (
    Attention,
    Block,
    Decision,
    DeletedCopy,
    FailedCopy,
    GuardedStep,
    GuardHold,
    Inventory,
    RunOutcome,
    RunPlan,
    StepPlan,
)
from prune.planner.thinning import nothing_goes
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
        first = _planned(site, inventory, now, conduct)
        conduct.planned(first)
        if first.blocked is not None and not _settles_by_itself(first):
            return _blocked(run, first, journal, plan_id, conduct)
        if _quiet(site, inventory, first, now, conduct):
            return _told(RunOutcome(run.name, guarded=_guarded(first), free_before=free_before, free_after=free_before,
                                    attention=first.attention), journal, plan_id, conduct)  # fmt: skip
        relieved: list[DeletedCopy] = []
        blocks = make_controls(site, spare_blank=True)
        if blocks and any(full_disk.is_full(block) for block in blocks):
            relieved, blocks = full_disk.relieve(site, first, conduct.keep_going)
        block = _block_of(blocks) or take_turn(locks, journal, run.name, wait_ns=conduct.wait_ns)
        block = block or take(site, locks, wait_ns=conduct.wait_ns)
        if block is not None and relieved:
            first = replace(first, attention=(*first.attention, Attention(block.block, block.replica, block.detail,
                            "the disk is still too full to withdraw more than lone files")))  # fmt: skip
            outcome = RunOutcome(run.name, deleted=tuple(relieved), free_before=free_before,
                                 free_after=_free_now(site), attention=first.attention)  # fmt: skip
            return _told(outcome, journal, plan_id, conduct)
        if block is not None:
            return _blocked(run, replace(first, blocks=(block,)), journal, plan_id, conduct)
        outcome = _under_locks(site, locks, inventory, plan_id, reviewed, conduct, journal)
        outcome = replace(
            outcome, deleted=(*relieved, *outcome.deleted), free_before=free_before, free_after=_free_now(site)
        )
        return _told(outcome, journal, plan_id, conduct)


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
    chosen, dropped = _cut_down(plan, reviewed)
    if plan.blocked is not None:
        return _with_recovery(_outcome(run, plan, Tally(blocked=plan.blocked), dropped, attention), recovered)
    gone = _gone_since(plan, reviewed)
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
    _journal_deletions(journal, run, plan, tally, recovered, plan_id, conduct.clock())
    return _with_recovery(_outcome(run, plan, tally, dropped, attention), recovered)


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


def _cut_down(plan: RunPlan, reviewed: RunPlan | None) -> tuple[RunPlan, list[GuardedStep]]:
    """The fresh plan with no victim that the reviewed plan did not delete, just as it was then; thinning likewise."""
    if reviewed is None:
        return plan, []
    known = {step.step: step for step in reviewed.victims}
    thinned = {step.step: step for step in reviewed.thinned}
    dropped: list[GuardedStep] = []
    steps: list[StepPlan] = []
    for step in plan.steps:
        if step.decision is not Decision.DELETE:
            steps.append(_thinned_as_reviewed(step, thinned.get(step.step)))
            if step.step in known and step.decision is Decision.KEEP:
                dropped.append(GuardedStep(step.step, None, "changed", f"is kept now: {', '.join(step.reasons)}"))
            continue
        why = _differs(known.get(step.step), step)
        if why is None:
            steps.append(step)
        elif step.step in known:
            dropped.append(GuardedStep(step.step, None, "changed", why))
    return replace(plan, steps=tuple(steps)), dropped


def _thinned_as_reviewed(fresh: StepPlan, reviewed: StepPlan | None) -> StepPlan:
    """The kept step, thinned only where the reviewed plan thins it of the same parts."""
    if not fresh.thinned or (reviewed is not None and _same_parts(reviewed, fresh)):
        return fresh
    return nothing_goes(fresh, GuardHold("changed", None, None, "is not thinned so by the reviewed plan"))


def _same_parts(reviewed: StepPlan, fresh: StepPlan) -> bool:
    if reviewed.thin is None or fresh.thin is None or _differs(reviewed, fresh) is not None:
        return False
    return (reviewed.thin.paths, reviewed.thin.bytes.keys()) == (fresh.thin.paths, fresh.thin.bytes.keys())


def _gone_since(plan: RunPlan, reviewed: RunPlan | None) -> list[tuple[int, str]]:
    """Copies that the reviewed plan deletes and that others have deleted since, where that can be told."""
    there = {(step.step, copy.replica) for step in plan.steps for copy in step.copies}
    told = {replica.name for replica in plan.replicas if replica.listed and not replica.read_only}
    victims = () if reviewed is None else reviewed.victims
    planned = [(step.step, copy.replica) for step in victims for copy in step.copies if copy.replica in told]
    return [key for key in planned if key not in there]


def _differs(reviewed: StepPlan | None, fresh: StepPlan) -> str | None:
    if reviewed is None:
        return "is not in the reviewed plan"
    then = {copy.replica: copy for copy in reviewed.copies}
    for copy in fresh.copies:
        before = then.get(copy.replica)
        if before is None:
            return f"the reviewed plan did not know the copy on {copy.replica}"
        if (before.identity, before.paths) != (copy.identity, copy.paths):
            return f"the copy on {copy.replica} is not the one that was reviewed"
    return None


def _outcome(
    run: RunSettings, plan: RunPlan, tally: Tally, dropped: Sequence[GuardedStep], attention: Sequence[Attention]
) -> RunOutcome:
    return RunOutcome(
        run=run.name,
        blocked=tally.blocked,
        deleted=tuple(tally.deleted),
        guarded=(*_guarded(plan), *dropped, *tally.guarded),
        gone=tuple(tally.gone),
        failed=tuple(tally.failed),
        orphans_deleted=tuple(tally.orphans),
        thinned=tuple(tally.thinned),
        attention=tuple(dict.fromkeys((*plan.attention, *attention))),
    )


def _with_recovery(outcome: RunOutcome, recovered: Recovered) -> RunOutcome:
    if not recovered:
        return outcome
    failed = tuple(FailedCopy(step, replica, error) for step, replica, error in recovered.failed)
    settled = len(recovered.back) + len(recovered.purged)
    notes: tuple[Attention, ...] = ()
    if recovered.back:
        notes = (
            Attention("recovered", None, f"an earlier pass was cut short: {len(recovered.back)} copies put back, "
                      f"{settled - len(recovered.back)} finished", "nothing to do"),
        )  # fmt: skip
    return replace(outcome, failed=(*failed, *outcome.failed), attention=(*outcome.attention, *notes))


def _guarded(plan: RunPlan) -> tuple[GuardedStep, ...]:
    return tuple(
        GuardedStep(step.step, hold.replica, hold.guard, hold.detail)
        for step in plan.steps
        if step.decision is Decision.GUARDED
        for hold in step.guards
    )


def _blocked(run: RunSettings, plan: RunPlan, journal: Journal, plan_id: str, conduct: Conduct) -> RunOutcome:
    free = {r.name: r.free_bytes for r in plan.replicas if r.free_bytes is not None}
    outcome = RunOutcome(run.name, plan.blocked, guarded=_guarded(plan), free_before=free, free_after=free,
                         attention=plan.attention)  # fmt: skip
    return _told(outcome, journal, plan_id, conduct)


def _told(outcome: RunOutcome, journal: Journal, plan_id: str, conduct: Conduct) -> RunOutcome:
    """The pass as one entry of history. A state that cannot be written stops nothing, and is said."""
    data = {
        "ok": outcome.blocked is None and not outcome.failed,
        "blocked": outcome.blocked.block if outcome.blocked else None,
        "deleted": len(outcome.deleted),
        "thinned": len(outcome.thinned),
        "bytes": sum(copy.bytes for copy in (*outcome.deleted, *outcome.thinned)),
        "guarded": len({held.step for held in outcome.guarded}),
        "failed": len(outcome.failed),
    }
    journal.add([Event(conduct.clock(), outcome.run, "pass", plan=plan_id, data=data)])
    if journal.trouble is None:
        return outcome
    note = Attention("state", None, f"history cannot be kept: {journal.trouble}",
                     'make it writable, or set state = "sqlite:///…" elsewhere')  # fmt: skip
    return replace(outcome, attention=(*outcome.attention, note))


def _journal_deletions(
    journal: Journal, run: RunSettings, plan: RunPlan, tally: Tally, recovered: Recovered, plan_id: str, now_ns: int
) -> None:
    rules = planner.describe(planner.keep_of(plan, run))
    why = f"not kept by: {rules}; cutoff {plan.cutoff}"
    paths = {(copy.step, copy.replica): list(copy.paths) for step in plan.steps for copy in step.copies}
    parts = {(copy.step, copy.replica): list(copy.paths) for step in plan.thinned for copy in step.goes}
    events = [
        Event(now_ns, run.name, "deleted", c.step, c.replica, plan_id,
              {"bytes": c.bytes, "files": c.files, "purged": c.purged, "why": why,
               "paths": paths.get((c.step, c.replica), [])})
        for c in tally.deleted
    ]  # fmt: skip
    events += [
        Event(now_ns, run.name, "thinned", c.step, c.replica, plan_id,
              {"bytes": c.bytes, "files": c.files, "purged": c.purged, "why": rules,
               "paths": parts.get((c.step, c.replica), [])})
        for c in tally.thinned
    ]  # fmt: skip
    events += [Event(now_ns, run.name, "gone", step, replica, plan_id) for step, replica in tally.gone]
    events += [Event(now_ns, run.name, "failed", f.step, f.replica, plan_id, {"error": f.error}) for f in tally.failed]
    events += [Event(now_ns, run.name, "back", step, replica, plan_id) for step, replica in recovered.back]
    events += [Event(now_ns, run.name, "purged", step, replica, plan_id) for step, replica in recovered.purged]
    journal.add(events)


def _free_now(site: Site) -> dict[str, int]:
    for replica in site.replicas:
        if replica.root is not None:
            read_space(replica)
    return _free(site)


def _free(site: Site) -> dict[str, int]:
    return {r.name: r.space.free_bytes for r in site.replicas if r.space is not None}


def _block_of(blocks: Sequence[Block]) -> Block | None:
    return blocks[0] if blocks else None
