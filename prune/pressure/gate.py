"""Whether to take the next victim: free space is read afresh before each, and what the last one gained is judged."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from prune.model import SECOND, DeletedCopy
from prune.pressure.marks import Wish
from prune.stores.base import Space

LATE_NS = 5 * SECOND  # how long freed space may take to show
LOOK_NS = SECOND // 10
ENOUGH = 0.1  # of what was expected: less is no gain
CRUMB = 64 * 1024  # a folder's own blocks and the like: not what was asked for


@dataclass(frozen=True, slots=True)
class NoGain:
    """A step that was deleted and freed nothing."""

    step: int
    expected: int
    gained: int


@dataclass
class Gate:
    """Stands before each victim; ``keep_going`` and ``told`` are handed to the engine.

    ``probe`` reads the volume's room, ``replica_of`` names the pressed replica of the run that is worked on.
    """

    wish: Wish
    probe: Callable[[], Space]
    replica: str = "primary"
    late_ns: int = LATE_NS
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], int] = time.monotonic_ns
    no_gain: NoGain | None = None
    _before: Space | None = None
    _since_ns: int = 0
    _taken: list[DeletedCopy] = field(default_factory=list)

    def told(self, copy: DeletedCopy) -> None:
        """The engine deleted one copy."""
        if copy.replica == self.replica:
            self._taken.append(copy)

    def keep_going(self) -> bool:
        """True while there is need, and the last victim gained something."""
        space = self.probe()
        if self._taken and not self._gained(space):
            return False
        self._taken.clear()
        space = self.probe()
        self._before, self._since_ns = space, self.clock()
        return self.no_gain is None and not self.wish.met(space)

    def settle(self) -> bool:
        """After the last victim: whether the wish is met now."""
        return not self.keep_going() and self.no_gain is None

    @property
    def open(self) -> bool:
        return self.no_gain is None

    def _gained(self, space: Space) -> bool:
        """Looks again for a while: space can come back late, and a writer may take what was freed."""
        assert self._before is not None
        before, expected = self._before, self._expected()
        spent_ns = self.clock() - self._since_ns
        until = self.clock() + self.late_ns
        while not (self._enough(before, space, expected) or self.wish.met(space)):
            if self.clock() >= until:
                gained = max(0, space.free_bytes - before.free_bytes)
                self.no_gain = NoGain(self._taken[-1].step, expected.bytes, gained)
                return False
            self.sleep(LOOK_NS / SECOND)
            earlier, space = space, self.probe()
            if self._enough(before, _undone(space, earlier, spent_ns), expected):
                return True
        return True

    def _expected(self) -> Wish:
        return Wish(sum(copy.bytes for copy in self._taken), sum(copy.files for copy in self._taken))

    def _enough(self, before: Space, after: Space, expected: Wish) -> bool:
        """Gain in whatever is short: bytes while bytes are, else inodes."""
        short = self.wish.short(before).bytes
        if short:
            return after.free_bytes - before.free_bytes > max(ENOUGH * expected.bytes, min(CRUMB, short / 100))
        if before.free_inodes is None or after.free_inodes is None:
            return True
        return after.free_inodes > before.free_inodes


def _undone(space: Space, earlier: Space, spent_ns: int) -> Space:
    """What would be free, had a writer that goes on writing meanwhile not written while the victim went.

    How fast it writes is seen between two looks at which nothing was deleted.
    """
    written = max(0, earlier.free_bytes - space.free_bytes)
    return Space(space.free_bytes + written * (spent_ns // LOOK_NS + 1), space.total_bytes, space.free_inodes,
                 space.total_inodes)  # fmt: skip
