"""A run that a stack itself saved, looked at and pruned as a user would: on a primary and on the mirror beside it."""

from __future__ import annotations

from pathlib import Path

from prune.model import Health, RunOutcome, RunPlan
from prune.settings.schema import Guards, RunSettings
from tests.runs import applied, planned, run_of
from tests.trees.build import mirrored


class Run:
    """The roots of one run and where its state is kept; what was written a moment ago counts as done."""

    def __init__(self, root: Path, **more: object) -> None:
        self.root, self.mirror, self.more = root, root.parent / "mirror", more

    @property
    def state(self) -> Path:
        return self.root.parent / "state.db"

    def settings(self, *mirrors: Path) -> RunSettings:
        guards = Guards(in_flight=0, orphans=0)
        return run_of(self.root, *mirrors, last=3, guards=guards, **self.more)

    def planned(self) -> RunPlan:
        """What would be done on the primary alone."""
        return planned(self.settings(), self.state)

    def planned_with_mirror(self) -> RunPlan:
        return planned(self.settings(self.copy()), self.state)

    def applied_with_mirror(self) -> RunOutcome:
        return applied(self.settings(self.copy()), self.state)

    def copy(self) -> Path:
        return self.mirror if self.mirror.exists() else mirrored(self.root, self.mirror)


def sound(plan: RunPlan) -> list[int]:
    """Steps of which every copy restores, as far as can be told."""
    return [step.step for step in plan.steps if all(copy.health and copy.health.restorable for copy in step.copies)]


def broken(plan: RunPlan) -> list[int]:
    return [step.step for step in plan.steps if any(copy.health is Health.BROKEN for copy in step.copies)]


def candidate(plan: RunPlan) -> int | None:
    return plan.resume_candidate and plan.resume_candidate.step


def victims(plan: RunPlan) -> list[int]:
    return [step.step for step in plan.victims]
