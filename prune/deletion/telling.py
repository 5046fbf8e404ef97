"""What a pass came to: its outcome, and its lines in history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prune import planner
from prune.deletion.recovery import Recovered
from prune.deletion.tally import Tally
from prune.engine import Conduct
from prune.journal import Event, Journal
from prune.model import (
    Attention,
    Decision,
    FailedCopy,
    GuardedStep,
    RunOutcome,
    RunPlan,
)
from prune.settings.schema import RunSettings


def outcome_of(
    run: RunSettings, plan: RunPlan, tally: Tally, dropped: Sequence[GuardedStep], attention: Sequence[Attention]
) -> RunOutcome:
    """The tally of a sweep, with what the plan itself held back and had to say."""
    return RunOutcome(
        run=run.name,
        blocked=tally.blocked,
        deleted=tuple(tally.deleted),
        guarded=(*guarded(plan), *dropped, *tally.guarded),
        gone=tuple(tally.gone),
        failed=tuple(tally.failed),
        orphans_deleted=tuple(tally.orphans),
        thinned=tuple(tally.thinned),
        attention=tuple(dict.fromkeys((*plan.attention, *attention))),
    )


def with_recovery(outcome: RunOutcome, recovered: Recovered) -> RunOutcome:
    """The outcome with what was settled of a pass that died."""
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


def guarded(plan: RunPlan) -> tuple[GuardedStep, ...]:
    """The steps that guards hold, from being deleted or from being thinned, a line a guard."""
    held = [step for step in plan.steps if step.decision is Decision.GUARDED]
    full = [(step, step.thin.guards) for step in plan.steps if step.decision is Decision.KEEP and step.thin is not None]
    return (
        *(GuardedStep(step.step, hold.replica, hold.guard, hold.detail) for step in held for hold in step.guards),
        *(
            GuardedStep(step.step, hold.replica, hold.guard, f"not thinned: {hold.detail}")
            for step, holds in full
            for hold in holds
        ),
    )


def blocked(run: RunSettings, plan: RunPlan, journal: Journal, plan_id: str, conduct: Conduct) -> RunOutcome:
    """The outcome of a run in which nothing may go, told as any other."""
    free = {r.name: r.free_bytes for r in plan.replicas if r.free_bytes is not None}
    outcome = RunOutcome(run.name, plan.blocked, guarded=guarded(plan), free_before=free, free_after=free,
                         attention=plan.attention)  # fmt: skip
    return told(outcome, journal, plan_id, conduct)


def told(outcome: RunOutcome, journal: Journal, plan_id: str, conduct: Conduct) -> RunOutcome:
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


def note_deletions(
    journal: Journal, run: RunSettings, plan: RunPlan, tally: Tally, recovered: Recovered, plan_id: str, now_ns: int
) -> None:
    """A line of history for each copy that went, was gone, was put back or failed."""
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
