"""Reads kept checkpoints over and over, a slice at a time, so that damage is found before they are needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prune import logs
from prune.deletion.newest import check_copy
from prune.inventory import gather, open_site
from prune.journal import open_journal
from prune.model import Copy, Decision, Health, Identity, RunPlan
from prune.notify import Matter
from prune.planner import plan as plan_of
from prune.settings.schema import RunSettings, Settings
from prune.stop import Stop

Key = tuple[str, str, int, Identity]  # run, replica, step, and exactly these bytes


def slice_of(deadlines: Mapping[Key, int], *, now_ns: int, period_ns: int, gap_ns: int) -> list[Key]:
    """What to read at this tick, the most urgent first: an even share, and whatever would be late at the next one.

    ``gap_ns`` is the time between two ticks. Pure.
    """
    ordered = sorted(deadlines, key=lambda key: (deadlines[key], key[2], key[1]))
    share = -(-len(ordered) * gap_ns // period_ns) if period_ns > 0 else len(ordered)
    urgent = sum(deadline <= now_ns + gap_ns for deadline in deadlines.values())
    return ordered[: max(share, urgent)]


@dataclass
class Scrubber:
    """Remembers when each kept copy must have been read again."""

    tell: Callable[[Matter], object]
    _deadlines: dict[Key, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def scrub(
        self, settings: Settings, run: RunSettings, *, period_ns: int, gap_ns: int, now_ns: int, stop: Stop
    ) -> list[Copy]:
        """Reads this tick's slice of one run in full; returns the copies with what was found.

        Raises OSError and PruneError as looking at a run does.
        """
        journal = open_journal(settings.state, write=True)
        checked: list[Copy] = []
        try:
            with open_site(run) as site:
                inventory = gather(site, now_ns=now_ns, evidence=journal.evidence)
                plan = plan_of(inventory, run, now_ns)
                copies = {self._key(run, copy): copy for copy in kept_copies(plan)}
                for key in self._due(run, copies, now_ns=now_ns, period_ns=period_ns, gap_ns=gap_ns):
                    if stop:
                        break
                    checked.append(check_copy(site, copies[key], journal, now_ns))
                    self._read(key, now_ns + period_ns)
        finally:
            journal.close()
        for copy in checked:
            self._say(run, copy)
        return checked

    def _due(
        self, run: RunSettings, copies: Mapping[Key, Copy], *, now_ns: int, period_ns: int, gap_ns: int
    ) -> Sequence[Key]:
        with self._lock:
            for key in [key for key in self._deadlines if key[0] == run.name and key not in copies]:
                del self._deadlines[key]
            for key, copy in copies.items():
                since = copy.verified_ns if copy.verified_ns is not None else now_ns
                self._deadlines.setdefault(key, since + period_ns)
            own = {key: self._deadlines[key] for key in copies}
        return slice_of(own, now_ns=now_ns, period_ns=period_ns, gap_ns=gap_ns)

    def _read(self, key: Key, deadline: int) -> None:
        with self._lock:
            self._deadlines[key] = deadline

    def _key(self, run: RunSettings, copy: Copy) -> Key:
        return run.name, copy.replica, copy.step, copy.listed or copy.identity

    def _say(self, run: RunSettings, copy: Copy) -> None:
        if copy.health is Health.BROKEN:
            detail = f"step {copy.step}: {copy.detail or 'does not match its checksums'}"
            self.tell(Matter(run.name, "damage", copy.replica, detail, "prune mirror repairs it from a whole copy"))
        else:
            logs.debug(f"{run.name}: step {copy.step} on {copy.replica} is {copy.health}")


def kept_copies(plan: RunPlan) -> Iterable[Copy]:
    """Every restorable copy of a step that stays. Nothing where the run is blocked: it may not be what it seems."""
    if plan.blocked is not None:
        return
    for step in plan.steps:
        if step.decision is Decision.DELETE:
            continue
        for copy in step.copies:
            if copy.health is None or copy.health.restorable:
                yield copy
