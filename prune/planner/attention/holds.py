"""Attention for guards that hold, and will go on holding until somebody does something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prune.guards import Scene
from prune.model import Attention, StepPlan
from prune.planner.words import count, name_steps
from prune.settings.schema import DAY

LONG = 7 * DAY  # what the policy would have deleted, and which was written longer ago than this, is held for long

MENDS = {
    "resume-candidate": "point the trainer's pointer at a newer checkpoint, or remove it if nothing reads it",
    "last-verified": "prune verify (a newer step that verifies takes its place)",
    "leased": "let the reader end, or let its lease run out",
    "busy": "close it in the process that holds it",
    "referenced": "let go of it where it is used: through the trainer's own settings, or by copies in place of links",
    "linked": "replace the link by what it points to, unmount what is mounted in it, or remove it by hand",
}


def rewound(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """A run was begun anew in a used folder."""
    held = scene.rewind.held
    if not held:
        return
    kept = [step for step, reasons in scene.kept.reasons.items() if reasons]
    detail = (
        f"{name_steps(held)} held: written after {name_steps(kept)}, which would be kept, though the numbers are lower"
    )
    mend = "move the earlier run's checkpoints away, or, if the numbers are right: prune apply --allow-rewound"
    yield Attention("rewound", scene.evidence.primary, detail, mend)


def unknown_mtime(scene: Scene, steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """Steps held since nobody can tell how old they are."""
    mend = 'prune doctor tells whether times are kept there; guards.unknown_mtime = "observe" goes by what we see'
    for replica, held in _held_by(steps, "unknown-mtime").items():
        detail = f"{count(len(held), 'checkpoint')} held: unknown mtime ({name_steps(held)})"
        yield Attention("unknown-mtime", replica, detail, mend)


def future_mtime(scene: Scene, steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """Steps that are held until a day that may be far off."""
    ahead: dict[str, list[int]] = {}
    for copy in (copy for step in steps if step.guards for copy in step.copies):
        if scene.evidence.in_future(copy.mtime_ns):
            ahead.setdefault(copy.replica, []).append(copy.step)
    for replica, held in ahead.items():
        detail = f"{count(len(held), 'checkpoint')} held: mtime in the future ({name_steps(held)})"
        yield Attention("future-mtime", replica, detail, "touch the files, to give them a time that has been")


def held_long(scene: Scene, steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """Steps that the policy would have deleted long ago. A pin is a person's own will, and no news."""
    old = [step for step in steps if step.guards and _written_long_ago(scene, step)]
    for guard, mend in MENDS.items():
        held = [step.step for step in old if any(hold.guard == guard for hold in step.guards)]
        if held:
            yield Attention("held-long", None, f"{name_steps(held)} held by {guard}, and older than a week", mend)


def _written_long_ago(scene: Scene, step: StepPlan) -> bool:
    times = [scene.evidence.known_written(copy) for copy in step.copies]
    return all(time is not None and time < scene.now_ns - LONG for time in times)


def _held_by(steps: Sequence[StepPlan], guard: str) -> dict[str | None, set[int]]:
    """Replica → the steps that a guard holds there."""
    found: dict[str | None, set[int]] = {}
    for step in steps:
        for hold in step.guards:
            if hold.guard == guard:
                found.setdefault(hold.replica, set()).add(step.step)
    return found
