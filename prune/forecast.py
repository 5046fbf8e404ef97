"""When the next save comes, how big it will be, and when a volume is full: pure arithmetic, no clock, no disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from prune.model import SECOND, Copy, RunPlan

RECENT = 6  # how many of the newest saves speak for the next one
STALLED = 4  # this many intervals without a save: training has stopped, nothing is foretold
HORIZON = 10 * 366 * 86_400 * SECOND  # later than this is never


@dataclass(frozen=True, slots=True)
class Save:
    """One finished save: when it was written, and the bytes it takes."""

    at_ns: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Demand:
    """Saves to come on one volume: the first at ``next_at_ns``, then one each ``interval_ns``, of ``bytes`` each."""

    next_at_ns: int
    interval_ns: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is foretold for one replica of one run. None: cannot be told.

    ``seconds_to_full`` counts to the first save that does not fit, supposing that nothing is deleted until then.
    """

    next_save_bytes: int | None = None
    next_save_at_ns: int | None = None
    interval_ns: int | None = None
    seconds_to_full: float | None = None
    free_bytes: int | None = None

    @property
    def next_save_fits(self) -> bool:
        """False only where a save is foretold, free space is known, and the one is larger than the other."""
        if self.next_save_bytes is None or self.next_save_at_ns is None or self.free_bytes is None:
            return True
        return self.next_save_bytes <= self.free_bytes

    @property
    def demand(self) -> Demand | None:
        """The saves this forecast expects, to be added up with those of other runs on the same volume."""
        if self.next_save_bytes is None or self.next_save_at_ns is None or self.interval_ns is None:
            return None
        return Demand(self.next_save_at_ns, self.interval_ns, self.next_save_bytes)


def forecast(saves: Iterable[Save], *, free_bytes: int | None, now_ns: int) -> Forecast:
    """The next save of a run, and when a volume with ``free_bytes`` left is full of such saves.

    The next one is taken to be as big as the biggest of the recent ones, since too small a guess fails a save and
    too big a guess only prunes early. It comes one usual (median) interval after the newest; when that has passed,
    now. After a few intervals without a save training has stopped and only the size is told.
    """
    recent = sorted(saves, key=lambda save: save.at_ns)[-RECENT:]
    if not recent:
        return Forecast(free_bytes=free_bytes)
    size = max(save.bytes for save in recent)
    interval = usual_interval([save.at_ns for save in recent])
    newest = recent[-1].at_ns
    if interval is None or now_ns - newest > STALLED * interval:
        return Forecast(next_save_bytes=size, interval_ns=interval, free_bytes=free_bytes)
    due = max(newest + interval, now_ns)
    full_in = None
    if free_bytes is not None:
        full_in = seconds_to_full([Demand(due, interval, size)], free_bytes=free_bytes, now_ns=now_ns)
    return Forecast(size, due, interval, full_in, free_bytes)


def usual_interval(times_ns: Sequence[int]) -> int | None:
    """The median gap between consecutive times, None where there is no gap to be seen.

    Two writes closer than a second are one save seen twice (a copier set both times), not an interval.
    """
    ordered = sorted(times_ns)
    gaps = [later - earlier for earlier, later in pairwise(ordered) if later - earlier >= SECOND]
    return int(median(gaps)) if gaps else None


def seconds_to_full(demands: Sequence[Demand], *, free_bytes: int, now_ns: int) -> float | None:
    """Seconds from now to the first save that does not fit beside those before it; None where that is never."""
    if not demands:
        return None
    if _asked_by(demands, now_ns + HORIZON) <= free_bytes:
        return None
    return (first_where(lambda at: _asked_by(demands, at) > free_bytes, now_ns, now_ns + HORIZON) - now_ns) / SECOND


def recent_saves(plan: RunPlan, replica: str, measure: Callable[[Copy], int | None] | None = None) -> list[Save]:
    """The newest restorable saves that ``replica`` holds, oldest first.

    ``measure`` is asked for the bytes of a copy that was only listed; where it answers None the save is left out.
    Copies whose time cannot be trusted are left out too.
    """
    found: list[Save] = []
    for step in reversed(plan.steps):
        copy = next((copy for copy in step.copies if copy.replica == replica), None)
        save = _save(copy, measure) if copy is not None else None
        if save is not None:
            found.append(save)
        if len(found) == RECENT:
            break
    return found[::-1]


def _save(copy: Copy, measure: Callable[[Copy], int | None] | None) -> Save | None:
    at = copy.created_at_ns or copy.mtime_ns
    if at is None or at <= 0 or (copy.health is not None and not copy.health.restorable):
        return None
    size = copy.size if copy.measured else None
    if size is None and measure is not None:
        size = measure(copy)
    return Save(at, size) if size else None


def _asked_by(demands: Sequence[Demand], at_ns: int) -> int:
    """Bytes asked for up to and including a moment."""
    return sum(
        ((at_ns - demand.next_at_ns) // demand.interval_ns + 1) * demand.bytes
        for demand in demands
        if at_ns >= demand.next_at_ns
    )


def first_where(true_from: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number at which a condition holds that once true stays true; it holds at ``high``."""
    while low < high:
        middle = (low + high) // 2
        if true_from(middle):
            high = middle
        else:
            low = middle + 1
    return low
