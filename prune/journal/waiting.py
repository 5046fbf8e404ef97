"""What could not be written to history yet: it waits in memory, and the next write of this process takes it along."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from prune.journal.base import Event, NoJournal

MOST_WAITING = 10_000


@dataclass
class Waiting:
    """Events with their keys, in their order. ``guard`` is held from looking at them to having written them."""

    entries: list[tuple[str, Event]] = field(default_factory=list)
    lost: int = 0
    guard: threading.RLock = field(default_factory=threading.RLock)

    def keep(self, entries: list[tuple[str, Event]]) -> None:
        self.lost += max(0, len(entries) - MOST_WAITING)
        self.entries = entries[-MOST_WAITING:]

    def loss(self, where: str) -> str | None:
        """A sentence about what there was no room for, said once."""
        lost, self.lost = self.lost, 0
        return f"{where}: {lost} entries were lost while it could not be reached" if lost else None


@dataclass
class NoJournalNow(NoJournal):
    """One that cannot be opened at this moment: what it is told waits for the next that can."""

    waiting: Waiting = field(default_factory=Waiting)

    def add(self, events: Sequence[Event]) -> None:
        with self.waiting.guard:
            self.waiting.keep([*self.waiting.entries, *(("", event) for event in events)])


_waiting: dict[str, Waiting] = {}


def waiting_for(place: str) -> Waiting:
    """What this process has for the journal at ``place``."""
    return _waiting.setdefault(place, Waiting())
