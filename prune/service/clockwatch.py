"""Whether the wall clock jumped between two passes: then ages mean nothing this time."""

from __future__ import annotations

import time
from collections.abc import Callable

from prune.model import SECOND

TOLERANCE_NS = 60 * SECOND
SLEW = 1000  # a clock that is being set gently may run off by one part in so many


def uptime_ns() -> int:
    """Nanoseconds of real time since boot, sleep included: a host that slept did not jump."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock)


class ClockWatch:
    """Compares wall with monotonic clock from one look to the next."""

    def __init__(self, wall: Callable[[], int] = time.time_ns, uptime: Callable[[], int] = uptime_ns) -> None:
        self._wall, self._uptime = wall, uptime
        self._last = (wall(), uptime())
        self._jumped_at: int | None = None

    def jumped(self) -> str | None:
        """How the wall clock jumped since the last look, in a sentence, else None. The next look starts from here."""
        wall, uptime = self._wall(), self._uptime()
        before_wall, before_uptime = self._last
        self._last = (wall, uptime)
        passed = uptime - before_uptime
        off = (wall - before_wall) - passed
        if abs(off) <= TOLERANCE_NS + max(0, passed) // SLEW:
            return None
        self._jumped_at = uptime
        way = "ahead" if off > 0 else "back"
        return f"the wall clock jumped {way} by {abs(off) / SECOND:.0f} s in {passed / SECOND:.0f} s"

    def settled(self, quiet_ns: int) -> bool:
        """Whether so much real time has passed since a jump that whatever is being written shows it by its time."""
        return self._jumped_at is None or self._uptime() - self._jumped_at >= quiet_ns
