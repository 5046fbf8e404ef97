"""What a plan says beside its decisions: nothing to mend, but a reader would wonder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prune.guards import Scene
from prune.model import Copy, Decision, Health, StepPlan
from prune.planner.finished import FINISHED, idle_for, rules_in_force
from prune.planner.words import count, name_steps
from prune.settings.schema import MINUTE
from prune.settings.units import format_duration


def notes(scene: Scene, steps: Sequence[StepPlan]) -> tuple[str, ...]:
    """The notes of one run's plan, in a fixed order."""
    return (
        *_finished(scene),
        *_within_limit(scene, steps),
        *_lowered(scene),
        *_aligned_soon(scene, steps),
        *_floor(scene),
        *_weights_only(scene),
        *_nothing_checked(scene, steps),
    )


def _finished(scene: Scene) -> Iterator[str]:
    """That the final policy holds, or when it will."""
    run, idle = scene.evidence.run, idle_for(scene.evidence)
    if run.final is None or run.finished_after is None or idle is None or idle < 0:
        return
    after = format_duration(run.finished_after)
    if idle >= run.finished_after:
        yield f"{FINISHED}no new step for {_minutes(idle)} (finished_after = {after}), so the final policy holds"
    elif idle >= run.finished_after // 2:
        left = _minutes(run.finished_after - idle)
        yield f"without a new step the run counts as finished in {left}, and keeps only its final {run.final.last}"


def _within_limit(scene: Scene, planned: Sequence[StepPlan]) -> Iterator[str]:
    steps, last = scene.evidence.steps, scene.keep.last
    if not steps or len(steps) > last or any(step.thinned for step in planned):
        return
    copies = [copy for held in scene.evidence.copies.values() for copy in held.values()]
    unseen = "; not all of them were examined" if any(copy.health is None for copy in copies) else ""
    yield f"{count(len(steps), 'checkpoint')}, within the limit of {last}: nothing can go{unseen}"


def _lowered(scene: Scene) -> Iterator[str]:
    asked = rules_in_force(scene.evidence).last
    if scene.keep.last < asked:
        yield f"keep.last is lowered from {asked} to {scene.keep.last} to make room"


def _aligned_soon(scene: Scene, steps: Sequence[StepPlan]) -> Iterator[str]:
    """Where fresh files alone hold steps back, when that ends."""
    fresh = [step for step in steps if step.guards and {hold.guard for hold in step.guards} == {"in-flight"}]
    ends = {step.step: _held_until(scene, step) for step in fresh}
    soon = {step: end for step, end in ends.items() if end is not None}
    if soon:
        left = _minutes(max(soon.values()) - scene.now_ns)
        yield f"{count(len(soon), 'checkpoint')} held back, modified only moments ago: aligned in {left}"


def _held_until(scene: Scene, step: StepPlan) -> int | None:
    """When the last file of the step is no longer fresh; None where a time lies in the future."""
    times = [copy.mtime_ns for copy in step.copies] + [t.mtime_ns for t in scene.temporaries.get(step.step, ())]
    if any(scene.evidence.in_future(time) for time in times):
        return None
    return max((time for time in times if time is not None), default=scene.now_ns) + scene.guards.in_flight


def _minutes(ns: int) -> str:
    """Whole minutes, rounded up: after them it is surely so."""
    minutes = max(1, -(-ns // MINUTE))
    return f"{minutes} min" if minutes < 120 else format_duration(minutes * MINUTE)


def _floor(scene: Scene) -> Iterator[str]:
    for replica, steps in scene.kept.floor.items():
        if steps:
            why = f"among the newest {scene.keep.last} that {replica} can restore"
            yield f"floor: {name_steps(steps)} held everywhere, being {why}"


def _weights_only(scene: Scene) -> Iterator[str]:
    counted = scene.kept.counted
    if scene.keep.full is None and counted and not any(map(scene.evidence.full, counted)):
        yield "no checkpoint of this run holds more than weights, so weights count as restorable"


def _nothing_checked(scene: Scene, steps: Sequence[StepPlan]) -> Iterator[str]:
    """What would be deleted leans on kept steps whose content nobody can vouch for."""
    if scene.guards.verify == "off" or not any(step.decision is Decision.DELETE for step in steps):
        return
    kept = [copy for step in scene.kept.counted for copy in scene.evidence.copies[step].values()]
    if kept and not any(map(_checkable, kept)):
        why = "no manifests, and no checksums in their format"
        yield f"nothing could be content-checked: {why}; `prune seal` writes manifests"


def _checkable(copy: Copy) -> bool:
    return copy.verified_ns is not None or copy.content is not None or copy.health in (Health.INTACT, Health.WHOLE)
