"""What would be kept and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from prune.model.checkpoints import Copy, Identity, Spare
from prune.model.inventory import Attention, Block, GuardHold, Replica


class Decision(StrEnum):
    KEEP = "keep"
    DELETE = "delete"
    GUARDED = "guarded"


@dataclass(frozen=True, slots=True)
class Thin:
    """What goes of a kept step, on which replicas, and what holds it back (then nothing goes)."""

    paths: tuple[str, ...]
    bytes: Mapping[str, int]  # by replica, where anything goes
    guards: tuple[GuardHold, ...] = ()


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step's fate, the same on every replica, with every reason for it."""

    step: int
    decision: Decision
    reasons: tuple[str, ...]
    guards: tuple[GuardHold, ...]
    copies: tuple[Copy, ...]
    thin: Thin | None = None

    @property
    def bytes(self) -> dict[str, int | None]:
        return {copy.replica: copy.bytes for copy in self.copies}

    @property
    def thinned(self) -> bool:
        """Whether it stays and what only resuming needs goes."""
        return self.decision is Decision.KEEP and self.thin is not None and not self.thin.guards

    @property
    def goes(self) -> tuple[Copy, ...]:
        """What is withdrawn of it: its copies, or the parts of them that thinning takes, each as a copy of its own."""
        if self.decision is Decision.DELETE:
            return self.copies
        if not self.thinned or self.thin is None:
            return ()
        return tuple(_part(c, c.spare) for c in self.copies if c.spare is not None and c.replica in self.thin.bytes)


def _part(copy: Copy, spare: Spare) -> Copy:
    return replace(
        copy,
        paths=spare.paths,
        identity=spare.identity,
        size=spare.identity.size,
        bytes=spare.bytes,
        files=spare.files,
        listed=None,
        content=None,
    )


@dataclass(frozen=True, slots=True)
class OrphanPlan:
    replica: str
    path: str
    bytes: int
    decision: Decision  # keep or delete
    reason: str
    identity: Identity


@dataclass(frozen=True, slots=True)
class Candidate:
    """What training would resume from now."""

    step: int
    replica: str
    path: str


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What would be kept and deleted in one run, and why. Applying it is carrying out exactly this."""

    run: str
    layout: str
    keep: Mapping[str, Any]
    replicas: tuple[Replica, ...]
    steps: tuple[StepPlan, ...]  # ascending
    cutoff: int | None
    resume_candidate: Candidate | None
    blocks: tuple[Block, ...] = ()
    orphans: tuple[OrphanPlan, ...] = ()
    foreign: int = 0
    attention: tuple[Attention, ...] = ()
    notes: tuple[str, ...] = ()
    rewound_since_ns: int | None = None  # to be remembered in the control folder when applied

    @property
    def blocked(self) -> Block | None:
        return self.blocks[0] if self.blocks else None

    @property
    def victims(self) -> tuple[StepPlan, ...]:
        """The steps to delete, oldest first."""
        return tuple(s for s in self.steps if s.decision is Decision.DELETE)

    @property
    def thinned(self) -> tuple[StepPlan, ...]:
        """The kept steps to thin, oldest first."""
        return tuple(s for s in self.steps if s.thinned)


@dataclass(frozen=True, slots=True)
class Plan:
    """Plans of several runs made at one time."""

    id: str
    created_at_ns: int
    runs: tuple[RunPlan, ...]
    clock: str = "local"
    skew_seconds: float | None = None
    settings: Any = field(default=None, compare=False, repr=False)  # what it was made by, so that it can be applied
