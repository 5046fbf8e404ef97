"""What was found of a run, and what holds it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prune.model.checkpoints import Copy, Pick, Pointer, Temporary, nothing


@dataclass(frozen=True, slots=True)
class Replica:
    """One root of a run as it stands: its place, identity and room."""

    name: str
    role: str  # primary | mirror
    root: str
    required: bool = True
    identity: str | None = None  # the id in its volume.json
    control: str | None = None  # absolute path of the control folder
    free_bytes: int | None = None
    total_bytes: int | None = None
    free_inodes: int | None = None  # None: not counted
    total_inodes: int | None = None
    trash_bytes: int = 0
    trash_until_ns: int | None = None
    listed: bool = True  # listed completely
    ever_held: bool = False  # now or by its records, it held a step
    read_only: bool = False
    file_system: str | None = None  # its type, where the OS tells


@dataclass(frozen=True, slots=True)
class Pin:
    step: int
    reason: str
    by: str
    at_ns: int
    until_ns: int | None = None
    replica: str = "primary"

    def holds(self, now_ns: int) -> bool:
        """Whether it has not run out."""
        return self.until_ns is None or self.until_ns >= now_ns


@dataclass(frozen=True, slots=True)
class Lease:
    """A reader's claim on one step, until it expires."""

    step: int
    holder: str
    until_ns: int
    replica: str = "primary"

    def holds(self, now_ns: int) -> bool:
        """Whether it has not run out."""
        return self.until_ns >= now_ns


@dataclass(frozen=True, slots=True)
class Block:
    """A reason to delete nothing in a run this time."""

    block: str
    replica: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class Attention:
    """Something a person should know, with the mend."""

    kind: str
    replica: str | None
    detail: str
    mend: str


@dataclass(frozen=True, slots=True)
class GuardHold:
    """One veto on deleting one step."""

    guard: str
    replica: str | None
    path: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything a plan is made of: what stands on every replica of one run, gathered at one time."""

    run: str
    layout: str
    replicas: tuple[Replica, ...]
    copies: Mapping[int, Mapping[str, Copy]]  # step -> replica name -> copy
    temporaries: tuple[Temporary, ...] = ()
    pointers: tuple[Pointer, ...] = ()
    picks: Mapping[str, Pick] = field(default_factory=nothing)  # replica name -> what its trainer would pick there
    pins: tuple[Pin, ...] = ()
    leases: tuple[Lease, ...] = ()
    # step -> which state file lists it and why it must stay
    referenced: Mapping[int, str] = field(default_factory=nothing)
    best_recorded: int | None = None  # the step the trainer itself recorded as best
    metrics: Mapping[int, Mapping[str, float]] = field(default_factory=nothing)
    rewound_since_ns: int | None = None  # remembered: steps written since are held
    # since when we have seen this very copy unchanged, by step and replica
    observed_ns: Mapping[tuple[int, str], int] = field(default_factory=nothing)
    blocks: tuple[Block, ...] = ()  # found while gathering
    attention: tuple[Attention, ...] = ()
    foreign: int = 0
    unthinnable: str | None = None  # why nothing of a step can be dropped, where that is so
    clock: str = "local"  # whose clock ages are measured by
    skew_seconds: float | None = None

    @property
    def steps(self) -> list[int]:
        """Every step any replica holds, ascending."""
        return sorted(self.copies)

    @property
    def primary(self) -> Replica:
        return next(r for r in self.replicas if r.role == "primary")

    @property
    def required(self) -> tuple[Replica, ...]:
        return tuple(r for r in self.replicas if r.required)
