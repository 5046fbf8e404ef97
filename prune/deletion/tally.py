"""What a sweep has done so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from prune.model import Block, DeletedCopy, FailedCopy, GuardedStep


@dataclass
class Tally:
    """What a sweep did so far."""

    deleted: list[DeletedCopy] = field(default_factory=list)
    guarded: list[GuardedStep] = field(default_factory=list)
    gone: list[tuple[int, str]] = field(default_factory=list)
    failed: list[FailedCopy] = field(default_factory=list)
    orphans: list[tuple[str, str, int]] = field(default_factory=list)
    thinned: list[DeletedCopy] = field(default_factory=list)
    blocked: Block | None = None

    def hold(self, step: int, replica: str | None, guard: str, detail: str) -> None:
        self.guarded.append(GuardedStep(step, replica, guard, detail))
