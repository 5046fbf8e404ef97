"""What a journal offers, whatever keeps it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from prune.model import EMPTY, Identity, Verdict

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. ``kind`` is one of: pass, deleted, gone, guarded, failed, blocked, back, purged,
    undone, adopted, pinned, unpinned, fallback, damage, mirrored, published, sealed."""

    at_ns: int
    run: str
    kind: str
    step: int | None = None
    replica: str | None = None
    plan: str | None = None
    data: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


class Journal(Protocol):
    """Writes never raise: what could not be written stands in ``trouble``.

    One that many hosts share also says who works on which run, by ``lease(run)``, which returns a Lease or raises
    Refused.
    """

    @property
    def where(self) -> str: ...

    @property
    def trouble(self) -> str | None: ...

    def add(self, events: Sequence[Event]) -> None: ...

    def history(
        self, run: str | None = None, *, step: int | None = None, kinds: Sequence[str] = (), limit: int | None = None
    ) -> list[Event]:
        """Newest first."""
        ...

    def broken_link(self) -> str | None:
        """Where the hash chain does not hold, None where it does: somebody edited history."""
        ...

    def verified(self, root: str, paths: tuple[str, ...], identity: Identity, verdict: Verdict, at_ns: int) -> None:
        """Remembers what a content check said of exactly this copy."""
        ...

    def evidence(self, root: str, paths: tuple[str, ...], identity: Identity) -> tuple[Verdict, int] | None: ...

    def close(self) -> None: ...


class Refused(Exception):
    """Another works on this run, or nobody can tell whether another does. Says who, or why."""


class Lease(Protocol):
    """The right to work on one run, while it is held."""

    lost: str | None  # why it is no longer held

    def held(self) -> bool:
        """Whether it is still ours; costs nothing, so that it can be asked before each deletion."""
        ...

    def release(self) -> None: ...


@dataclass
class NoJournal:
    """Stands in where there is none: nothing is remembered, and it is said."""

    where: str
    trouble: str | None = None

    def add(self, events: Sequence[Event]) -> None:
        return

    def history(
        self, run: str | None = None, *, step: int | None = None, kinds: Sequence[str] = (), limit: int | None = None
    ) -> list[Event]:
        return []

    def broken_link(self) -> str | None:
        return None

    def verified(self, root: str, paths: tuple[str, ...], identity: Identity, verdict: Verdict, at_ns: int) -> None:
        return

    def evidence(self, root: str, paths: tuple[str, ...], identity: Identity) -> tuple[Verdict, int] | None:
        return None

    def close(self) -> None:
        return


def text_of(event: Event) -> str:
    """The event in the one form that is hashed."""
    return json.dumps(
        [event.at_ns, event.run, event.kind, event.step, event.replica, event.plan, dict(event.data)],
        sort_keys=True,
        separators=(",", ":"),
    )


def link(previous: str, event: Event) -> str:
    """The hash that chains an event to all before it."""
    return hashlib.sha256(f"{previous}\n{text_of(event)}".encode("utf-8", "surrogateescape")).hexdigest()
