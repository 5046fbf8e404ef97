"""A fresh plan cut down to the one that somebody reviewed: less may be deleted than was, never more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prune.model import (
    Decision,
    DeletedCopy,
    GuardedStep,
    GuardHold,
    RunPlan,
    StepPlan,
)
from prune.planner.thinning import nothing_goes


def cut_down(plan: RunPlan, reviewed: RunPlan | None) -> tuple[RunPlan, list[GuardedStep]]:
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
    return nothing_goes(fresh, GuardHold("changed", None, None, "the reviewed plan does not thin it so"))


def _same_parts(reviewed: StepPlan, fresh: StepPlan) -> bool:
    if reviewed.thin is None or fresh.thin is None or _differs(reviewed, fresh) is not None:
        return False
    return (reviewed.thin.paths, reviewed.thin.bytes.keys()) == (fresh.thin.paths, fresh.thin.bytes.keys())


def gone_since(plan: RunPlan, reviewed: RunPlan | None) -> list[tuple[int, str]]:
    """Copies that the reviewed plan deletes and that others have deleted since, where that can be told."""
    there = {(step.step, copy.replica) for step in plan.steps for copy in step.copies}
    told = {replica.name for replica in plan.replicas if replica.listed and not replica.read_only}
    victims = () if reviewed is None else reviewed.victims
    planned = [(step.step, copy.replica) for step in victims for copy in step.copies if copy.replica in told]
    return [key for key in planned if key not in there]


def without(reviewed: RunPlan | None, deleted: Sequence[DeletedCopy]) -> RunPlan | None:
    """The reviewed plan as far as it has not been carried out yet."""
    if reviewed is None or not deleted:
        return reviewed
    done = {(copy.step, copy.replica) for copy in deleted}
    left = (
        replace(step, copies=tuple(copy for copy in step.copies if (copy.step, copy.replica) not in done))
        for step in reviewed.steps
    )
    return replace(reviewed, steps=tuple(left))


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
