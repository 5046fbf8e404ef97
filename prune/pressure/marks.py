"""Water marks as bytes and inodes: pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from prune.settings.schema import Pressure, Share
from prune.stores.base import Space

FEWEST_INODES = 16  # with fewer left no checkpoint can be begun, whatever the marks say


@dataclass(frozen=True, slots=True)
class Wish:
    """So much should be free on a volume."""

    bytes: int = 0
    inodes: int = 0

    def met(self, space: Space) -> bool:
        """Whether a volume has that much free. Inodes that are not counted are never short."""
        return self.short(space) == Wish()

    def short(self, space: Space) -> Wish:
        """What is missing."""
        inodes = 0 if space.free_inodes is None else max(0, self.inodes - space.free_inodes)
        return Wish(max(0, self.bytes - space.free_bytes), inodes)

    def __or__(self, other: Wish) -> Wish:
        """Both wishes at once."""
        return Wish(max(self.bytes, other.bytes), max(self.inodes, other.inodes))


def low_water(pressure: Pressure, space: Space) -> Wish:
    """What must not be undercut. A share speaks of bytes and inodes alike; a size of bytes alone."""
    return _mark(pressure.free_below, space) | Wish(0, FEWEST_INODES)


def high_water(pressure: Pressure, space: Space) -> Wish:
    """What pressure frees up to once it has started: ``free_target``, at least low water."""
    return low_water(pressure, space) | _mark(pressure.free_target, space)


def wish_of(pressure: Pressure, space: Space, *, next_saves: int = 0) -> Wish | None:
    """What should be made free now, or None where there is no pressure.

    ``next_saves`` is what the saves that are about to come will take together; when they do not fit, that much is
    wished for, whether or not there are water marks.
    """
    below = not low_water(pressure, space).met(space)
    unfit = next_saves > space.free_bytes
    if not below and not unfit:
        return None
    wish = high_water(pressure, space) if below else Wish()
    return wish | Wish(next_saves if unfit else 0)


def room_for(size: int | Share, space: Space) -> Wish:
    """A size, or a share of the volume's bytes, as a wish."""
    return Wish(size.of(space.total_bytes) if isinstance(size, Share) else size)


def _mark(value: int | Share | None, space: Space) -> Wish:
    if value is None:
        return Wish()
    if isinstance(value, Share):
        return Wish(value.of(space.total_bytes), value.of(space.total_inodes or 0))
    return Wish(value)
