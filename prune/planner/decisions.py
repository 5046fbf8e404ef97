"""One decision a step: kept by a rule, else held by a guard, else deleted on every replica."""

from __future__ import annotations

from prune.guards import Scene, vetoes
from prune.model import Block, Copy, Decision, GuardHold, StepPlan
from prune.planner.thinning import nothing_goes


def decide(scene: Scene, *, blocked: bool) -> tuple[StepPlan, ...]:
    """The fate of every step, ascending. What is to be deleted must have been looked into, file by file."""
    return tuple(_decide(scene, step, reasons, blocked=blocked) for step, reasons in scene.kept.reasons.items())


def _decide(scene: Scene, step: int, reasons: tuple[str, ...], *, blocked: bool) -> StepPlan:
    copies = tuple(scene.evidence.copies[step].values())
    if reasons:
        return StepPlan(step, Decision.KEEP, reasons, (), copies)
    holds = vetoes(scene, step)
    if not holds and not blocked:
        holds = _not_looked_into(scene, copies) or _out_of_reach(scene, copies)
    if holds or blocked:
        return StepPlan(step, Decision.GUARDED, (), holds, copies)
    return StepPlan(step, Decision.DELETE, (), (), _deletable(scene, copies))


def _not_looked_into(scene: Scene, copies: tuple[Copy, ...]) -> tuple[GuardHold, ...]:
    unmeasured = [copy for copy in copies if not scene.evidence.look_into(copy)]
    detail = "its files were not looked at one by one"
    return tuple(GuardHold("unknown-mtime", copy.replica, _top(copy), detail) for copy in unmeasured)


def _out_of_reach(scene: Scene, copies: tuple[Copy, ...]) -> tuple[GuardHold, ...]:
    """A step that only optional mirrors hold which nothing can be deleted on."""
    if _deletable(scene, copies):
        return ()
    return tuple(GuardHold("blocked", c.replica, _top(c), "read-only: nothing can be deleted there") for c in copies)


def _deletable(scene: Scene, copies: tuple[Copy, ...]) -> tuple[Copy, ...]:
    """An optional mirror that cannot be written does not hold the others back: its copies are left where they are."""
    read_only = {replica.name for replica in scene.evidence.replicas if replica.read_only}
    return tuple(copy for copy in copies if copy.replica not in read_only)


def held_back(scene: Scene, steps: tuple[StepPlan, ...], block: Block) -> tuple[StepPlan, ...]:
    """The same steps under a block: all that the policy would delete is guarded by it as well."""
    hold = GuardHold("blocked", block.replica, None, f"{block.block}: {block.detail}")
    return tuple(_held_back(scene, step, hold) for step in steps)


def _held_back(scene: Scene, step: StepPlan, hold: GuardHold) -> StepPlan:
    if step.decision is Decision.KEEP:
        return nothing_goes(step, hold)
    copies = tuple(scene.evidence.copies[step.step].values())
    return StepPlan(step.step, Decision.GUARDED, (), (*step.guards, hold), copies)


def _top(copy: Copy) -> str | None:
    return copy.paths[0] if copy.paths else None
