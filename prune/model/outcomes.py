"""What was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prune.model.inventory import Attention, Block


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
