"""Passes that did nothing, written many at once: a fleet that stands still costs no write a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from prune.journal.base import Event, Journal, Lease
from prune.model import Identity, Verdict

AT_ONCE = 500
SECONDS = 5.0


@dataclass
class Together:
    """A journal in front of another. What was deleted, failed or blocked is written at once, with all before it."""

    journal: Journal
    clock: Callable[[], float] = time.monotonic
    _waiting: list[Event] = field(default_factory=list)
    _since: float = 0.0

    @property
    def where(self) -> str:
        return self.journal.where

    @property
    def trouble(self) -> str | None:
        return self.journal.trouble

    @property
    def lease(self) -> Callable[[str], Lease] | None:
        """The other's, where it has any."""
        found: Callable[[str], Lease] | None = getattr(self.journal, "lease", None)
        return found

    def add(self, events: Sequence[Event]) -> None:
        if not self._waiting:
            self._since = self.clock()
        self._waiting += events
        quiet = all(_quiet(event) for event in events)
        if not quiet or len(self._waiting) >= AT_ONCE or self.clock() - self._since > SECONDS:
            self.flush()

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self.journal.add(waiting)

    def history(
        self, run: str | None = None, *, step: int | None = None, kinds: Sequence[str] = (), limit: int | None = None
    ) -> list[Event]:
        self.flush()
        return self.journal.history(run, step=step, kinds=kinds, limit=limit)

    def broken_link(self) -> str | None:
        self.flush()
        return self.journal.broken_link()

    def verified(self, root: str, paths: tuple[str, ...], identity: Identity, verdict: Verdict, at_ns: int) -> None:
        self.journal.verified(root, paths, identity, verdict, at_ns)

    def evidence(self, root: str, paths: tuple[str, ...], identity: Identity) -> tuple[Verdict, int] | None:
        return self.journal.evidence(root, paths, identity)

    def close(self) -> None:
        self.flush()
        self.journal.close()


def _quiet(event: Event) -> bool:
    data = event.data
    done = (data.get(what) for what in ("deleted", "thinned", "failed", "blocked"))
    return event.kind == "pass" and not any(done)
