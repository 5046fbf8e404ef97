"""Whether to take the next victim: free space is read afresh before each, and what the last one gained is judged."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from prune.model import SECOND, DeletedCopy
from prune.pressure.marks import Wish
from prune.stores.base import Space

LATE_NS = 5 * SECOND  # how long freed space may take to show
LOOK_NS = SECOND // 10
ENOUGH = 0.1  # of what was expected: less is no gain
MOST_DOUBTS = 2
TELLING = 256 * 1024  # what a pass notes of its own work takes room too, and hides what smaller steps free
CRUMB = 64 * 1024  # a folder's own blocks and the like: no gain from a step whose files other links hold


@dataclass(frozen=True, slots=True)
class NoGain:
    """A step that was deleted and freed nothing; or several small ones, up to this, that did so together."""

    step: int
    expected: int
    gained: int
    together: int = 1
    linked: bool = False  # other links hold what was in it


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
    doubts: int = 0  # in a row: gains that could only be supposed
    _before: Space | None = None
    _since_ns: int = 0
    _taken: list[DeletedCopy] = field(default_factory=list)

    def told(self, copy: DeletedCopy) -> None:
        """The engine deleted one copy."""
        if copy.replica == self.replica:
            self._taken.append(copy)

    def keep_going(self) -> bool:
        """True while there is need, and the last victim gained something."""
        if self.no_gain is not None:
            return False
        space = self.probe()
        if self._taken and self._too_little_to_tell(space):
            return not self.wish.met(space)
        if self._taken and not self._gained(space):
            return False
        self._taken.clear()
        space = self.probe()
        self._before, self._since_ns = space, self.clock()
        return not self.wish.met(space)

    def settle(self) -> bool:
        """After the last victim: whether the wish is met now."""
        return not self.keep_going() and self.no_gain is None

    @property
    def open(self) -> bool:
        return self.no_gain is None

    def _too_little_to_tell(self, space: Space) -> bool:
        """Steps that hold next to nothing, as saves on a full disk leave them, are judged with what goes next."""
        assert self._before is not None
        expected = self._expected()
        if not self.wish.short(self._before).bytes or any(copy.held_elsewhere for copy in self._taken):
            return False
        return expected.bytes < TELLING and not self._enough(self._before, space, expected)

    def _gained(self, space: Space) -> bool:
        """Looks again for a while: space can come back late, and a writer may have taken what was freed."""
        assert self._before is not None
        before, expected = self._before, self._expected()
        writer = Writer(space, spent_ns=self.clock() - self._since_ns)
        until = self.clock() + self.late_ns
        while not (self._enough(before, space, expected) or self.wish.met(space)):
            if self._enough(before, writer.undone_by_rate(), expected):
                break
            if self.doubts < MOST_DOUBTS and self._enough(before, writer.undone_by_burst(), expected):
                self.doubts += 1
                return True
            if self.clock() >= until:
                gained = max(0, space.free_bytes - before.free_bytes)
                linked = all(copy.held_elsewhere for copy in self._taken)
                self.no_gain = NoGain(self._taken[-1].step, expected.bytes, gained, len(self._taken), linked)
                return False
            self.sleep(LOOK_NS / SECOND)
            space = self.probe()
            writer.look(space)
        self.doubts = 0
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


class Writer:
    """Somebody who goes on writing while a victim goes: seen by how free space falls while nothing is deleted.

    One who writes all the time is told by his rate. One who writes now and then may have done so just while the
    victim went, which can only be supposed, and is believed only a few times in a row.
    """

    def __init__(self, first: Space, *, spent_ns: int) -> None:
        self._first = self._last = first
        self._spent_ns = spent_ns
        self._looks = self._written = self._burst = 0

    def look(self, space: Space) -> None:
        """One more look, ``LOOK_NS`` after the one before."""
        fell = max(0, self._last.free_bytes - space.free_bytes)
        self._looks += 1
        self._written += fell
        self._burst = max(self._burst, fell)
        self._last = space

    def undone_by_rate(self) -> Space:
        """Room as it would be, had he not written at his rate while the victim went."""
        watched_ns = self._looks * LOOK_NS
        return self._with(self._written * self._spent_ns // watched_ns if watched_ns else 0)

    def undone_by_burst(self) -> Space:
        """The same, had he written once."""
        return self._with(self._burst)

    def _with(self, more: int) -> Space:
        freest = max(self._first.free_bytes, self._last.free_bytes + self._written)
        return replace(self._last, free_bytes=freest + more)
