"""The nouns. Frozen values only: no clock, no disk, no environment.

Times are integers of nanoseconds since the epoch, sizes are bytes, paths are relative to their replica's root
(``str`` with ``surrogateescape`` for names that are not UTF-8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

SECOND = 1_000_000_000
EMPTY: Mapping[Any, Any] = MappingProxyType({})


def nothing() -> Mapping[Any, Any]:
    """The empty mapping, as a default that Python 3.11 takes too."""
    return EMPTY


class Kind(StrEnum):
    """What a directory entry is, without following a link."""

    FILE = "file"
    DIR = "dir"
    LINK = "link"
    OTHER = "other"


class Health(StrEnum):
    """How much can be said for a copy; the order of declaration is from best to worst."""

    INTACT = "intact"
    WHOLE = "whole"
    UNVERIFIED = "unverified"
    SUSPECT = "suspect"
    IN_FLIGHT = "in-flight"
    UNKNOWN = "unknown"
    BROKEN = "broken"

    @property
    def restorable(self) -> bool:
        return self in _RESTORABLE


_RESTORABLE = frozenset({Health.INTACT, Health.WHOLE, Health.UNVERIFIED})


@dataclass(frozen=True, slots=True)
class Identity:
    """What must not have changed between looking at a copy and deleting it.

    For a directory: device and inode of its top, the sum of sizes, the newest mtime and ctime below it, the
    number of files. ``files`` is -1 where only the top was looked at.
    """

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    files: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Health of one copy with the sentence that says why (None when there is nothing to say)."""

    health: Health
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Spare:
    """What of a copy only resuming needs, and can be told apart from its weights: files or whole directories in it.

    ``paths`` in the order in which they go; ``identity`` is that of a copy made of them alone. ``folders`` are the
    directories that hold them, with their mtimes, which must be the same again once they have gone.
    """

    paths: tuple[str, ...]
    identity: Identity
    bytes: int
    files: int
    folders: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """What one replica holds of one step.

    ``paths`` are its top-most entries in the order in which they are withdrawn. A copy that was only listed has
    ``measured=False``: sizes and times then speak of the top entries alone and ``bytes``/``files`` are None.
    ``health`` is None while nobody has judged it.
    """

    step: int
    replica: str
    paths: tuple[str, ...]
    identity: Identity
    mtime_ns: int | None  # newest; None: cannot be read
    oldest_mtime_ns: int | None  # oldest, the one that betrays an mtime nobody set
    measured: bool = False
    size: int | None = None  # apparent bytes of what carries the checkpoint, sidecars left out
    sidecars: int = 0  # apparent bytes of its sidecars
    bytes: int | None = None  # allocated bytes that deleting would free; files with other links count nothing
    files: int | None = None
    health: Health | None = None
    detail: str | None = None
    created_at_ns: int | None = None  # from its manifest
    verified_ns: int | None = None  # when its content was last checked in full, for exactly this identity
    content: str | None = None  # digest over its manifest's hashes: equal content has equal digests
    link: str | None = None  # why it is no plain file or directory (guard ``linked``)
    busy: str | None = None  # who holds it open or locked (guard ``busy``)
    listed: Identity | None = None  # as its top entries alone showed it
    load_path: str | None = None  # what a loader is given, where that is not the first of the paths
    weights_only: bool = False  # thinned, or saved without what resuming needs
    thinned: tuple[str, ...] = ()  # what was taken out of it and has not come back
    spare: Spare | None = None  # what thinning would take out of it; known once it was judged
    leans_on: tuple[str, ...] = ()  # paths outside of it that links in it lead to; known once it was judged


@dataclass(frozen=True, slots=True)
class Temporary:
    """An entry under a temporary name: a save in flight, or an orphan."""

    replica: str
    path: str
    step: int | None
    bytes: int
    mtime_ns: int | None
    identity: Identity
    busy: str | None = None


class PointerState(StrEnum):
    OK = "ok"
    DANGLING = "dangling"  # names a step that is not there: attention only
    UNREADABLE = "unreadable"  # empty and fresh, cannot be read, cannot be parsed: a block


@dataclass(frozen=True, slots=True)
class Pointer:
    """A file or symlink by which a stack names a checkpoint (``latest``, ``last.ckpt``, ``checkpoint``)."""

    replica: str
    path: str
    step: int | None
    state: PointerState
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Pick:
    """What the stack's own trainer would resume from, and how it comes to that."""

    step: int | None
    path: str
    how: str  # e.g. "highest number", "latest"
    apart: bool = (
        False  # a full copy under a name of its own (``last.ckpt``): the health of its step says nothing of it
    )


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


@dataclass(frozen=True, slots=True)
class Lease:
    """A reader's claim on one step, until it expires."""

    step: int
    holder: str
    until_ns: int
    replica: str = "primary"


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


@dataclass(frozen=True, slots=True)
class DeletedCopy:
    step: int
    replica: str
    bytes: int
    files: int
    purged: bool
    held_elsewhere: bool = False  # most of its bytes have other links, so that deleting it frees little


@dataclass(frozen=True, slots=True)
class GuardedStep:
    step: int
    replica: str | None
    guard: str
    detail: str


@dataclass(frozen=True, slots=True)
class FailedCopy:
    step: int
    replica: str
    error: str


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What applying one run's plan did: measured, not predicted."""

    run: str
    blocked: Block | None = None
    deleted: tuple[DeletedCopy, ...] = ()
    guarded: tuple[GuardedStep, ...] = ()
    gone: tuple[tuple[int, str], ...] = ()
    failed: tuple[FailedCopy, ...] = ()
    orphans_deleted: tuple[tuple[str, str, int], ...] = ()
    free_before: Mapping[str, int] = field(default_factory=dict)
    free_after: Mapping[str, int] = field(default_factory=dict)
    attention: tuple[Attention, ...] = ()
    thinned: tuple[DeletedCopy, ...] = ()  # what went of copies that stay


@dataclass(frozen=True, slots=True)
class Outcome:
    plan: str
    runs: tuple[RunOutcome, ...]
