"""One place that tells people: attention, blocks, fallback, damage found, target not reached, and that it is over.

The log always gets it. A webhook or Apprise gets it where configured: the same thing again at most once in
``notify.every``, no more than a few messages an hour altogether, and "recovered" when it is gone. What an hour has no
message for waits, and goes together with the next one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prune import logs
from prune.model import Attention, Block
from prune.settings.schema import HOUR, MINUTE

AT_ONCE = 10  # messages of an hour that wait for nothing
BETWEEN_NS = 3 * MINUTE  # from one of the others to the next
MOST_IN_AN_HOUR = 30
FLAPPING = 2  # gone for so many looks in a row before it counts as recovered


@dataclass(frozen=True, slots=True)
class Matter:
    """One thing to tell. Two of one key are the same matter, whatever their details say by now."""

    run: str
    kind: str
    replica: str | None
    detail: str
    mend: str = ""
    state: str = "open"  # open | recovered
    blocked: bool = False  # the run deletes nothing meanwhile

    @property
    def key(self) -> tuple[str, str, str | None]:
        return self.run, self.kind, self.replica

    @property
    def sentence(self) -> str:
        where = f"{self.run} on {self.replica}" if self.replica else self.run
        if self.state == "recovered":
            return f"{where}: recovered: {self.kind}"
        return f"{where}: {self.kind}: {self.detail}" + (f" ({self.mend})" if self.mend else "")


def matters_of(run: str, attention: Iterable[Attention], blocks: Iterable[Block]) -> list[Matter]:
    """What a pass over one run found, one matter per key."""
    found: dict[tuple[str, str, str | None], Matter] = {}
    for block in blocks:
        matter = Matter(run, block.block, block.replica, block.detail, blocked=True)
        found.setdefault(matter.key, matter)
    for note in attention:
        matter = Matter(run, note.kind, note.replica, note.detail, note.mend)
        found.setdefault(matter.key, matter)
    return list(found.values())


FIELDS = ("run", "kind", "replica", "detail", "mend")


@dataclass
class _Open:
    matter: Matter
    logged_ns: int | None = None  # when the log was last told
    told_ns: int | None = None  # when it was last sent
    missed: int = 0  # looks in a row that no longer found it
    due: bool = True  # to be sent with the next message


Send = Callable[[list[Matter]], None]


@dataclass
class Notifier:
    """Remembers what is open, and decides what is worth telling now. Safe for many threads.

    ``send`` hands a message over and must not wait; ``now_ns`` is a clock in nanoseconds.
    """

    every_ns: int = HOUR
    send: Send = lambda matters: None
    now_ns: Callable[[], int] = time.time_ns
    _open: dict[tuple[str, str, str | None], _Open] = field(default_factory=dict)
    _over: list[Matter] = field(default_factory=list)  # recovered, and nobody knows yet
    _sent: list[int] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def observe(self, run: str, matters: Iterable[Matter]) -> list[Matter]:
        """Takes note of everything that is so in a run now, and sends what is new, still so after long, or over.

        Returns what was sent, for tests and callers that wish to know.
        """
        return self.observe_all({run: matters})

    def observe_all(self, runs: Mapping[str, Iterable[Matter]]) -> list[Matter]:
        """Takes note of several runs, and tells of all of them in one message."""
        with self._lock:
            for run, matters in runs.items():
                found = {matter.key: matter for matter in matters}
                self._note(found)
                self._note_over(run, found)
            return self._deliver()

    def catch_up(self) -> list[Matter]:
        """Sends what waits for a message, once there may be one."""
        with self._lock:
            return self._deliver()

    def tell(self, matter: Matter) -> list[Matter]:
        """One thing that happened, such as a fallback: told once in ``every_ns``, never "recovered"."""
        with self._lock:
            known = self._open.get(matter.key)
            if known is not None and not self._long_since(known.told_ns):
                return []
            logs.warning(matter.sentence)
            never = -(1 << 62)  # an event has no end to be told
            self._open[matter.key] = _Open(matter, self.now_ns(), missed=never)
            return self._deliver()

    def open_matters(self) -> list[dict[str, Any]]:
        """Everything that is open, as plain values, for a memory that outlives the process."""
        with self._lock:
            return [
                {name: getattr(held.matter, name) for name in FIELDS} | {"told_ns": held.told_ns, "missed": held.missed}
                for held in self._open.values()
            ]

    def recall(self, remembered: Iterable[dict[str, Any]]) -> None:
        """What an earlier process had open. What cannot be understood is passed over, and told anew."""
        with self._lock:
            for entry in remembered:
                try:
                    matter = Matter(**{name: entry[name] for name in FIELDS})
                    told_ns = None if entry["told_ns"] is None else int(entry["told_ns"])
                    self._open[matter.key] = _Open(
                        matter, told_ns, told_ns, missed=int(entry["missed"]), due=told_ns is None
                    )
                except (KeyError, TypeError, ValueError):
                    continue

    def forget(self, runs: Iterable[str]) -> None:
        """Drops what is open in runs that are no longer in the settings; nobody recovered, so nothing is told."""
        kept = set(runs)
        with self._lock:
            self._open = {key: held for key, held in self._open.items() if key[0] in kept}
            self._over = [matter for matter in self._over if matter.run in kept]

    def _note(self, found: Mapping[tuple[str, str, str | None], Matter]) -> None:
        for key, matter in found.items():
            known = self._open.get(key)
            if known is None:
                logs.warning(matter.sentence)
                self._open[key] = _Open(matter, self.now_ns())
                continue
            known.missed = 0
            known.matter = matter
            known.due = known.due or self._long_since(known.told_ns)
            if self._long_since(known.logged_ns):
                logs.warning(f"still: {matter.sentence}")
                known.logged_ns = self.now_ns()

    def _note_over(self, run: str, found: Mapping[tuple[str, str, str | None], Matter]) -> None:
        for key, held in list(self._open.items()):
            if key[0] != run or key in found:
                continue
            held.missed += 1
            if held.missed >= FLAPPING:
                del self._open[key]
                over = Matter(run, held.matter.kind, held.matter.replica, held.matter.detail, state="recovered")
                logs.info(over.sentence)
                if held.told_ns is not None:  # else nobody was told that it began
                    self._over.append(over)

    def _long_since(self, at_ns: int | None) -> bool:
        """A time still to come is none: the clock was set back since."""
        return at_ns is None or not 0 <= self.now_ns() - at_ns < self.every_ns

    def _deliver(self) -> list[Matter]:
        """One message with everything that is due, where the hour allows one; what stops a run comes first."""
        now = self.now_ns()
        due = list(self._due())
        if not (due or self._over) or not self._may_send(now):
            return []
        message = [*self._over, *sorted((held.matter for held in due), key=lambda matter: not matter.blocked)]
        self._over = []
        for held in due:
            held.due, held.told_ns = False, now
        self._sent.append(now)
        self.send(message)
        return message

    def _due(self) -> Iterator[_Open]:
        """What was not found at the last look may be over, and waits for the next one."""
        return (held for held in self._open.values() if held.due and held.missed <= 0)

    def _may_send(self, now: int) -> bool:
        self._sent = [at for at in self._sent if 0 <= now - at < HOUR]
        if len(self._sent) < AT_ONCE:
            return True
        return len(self._sent) < MOST_IN_AN_HOUR and now - self._sent[-1] >= BETWEEN_NS
