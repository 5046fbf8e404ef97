"""How much room there is where room is wanted: asked of the volume itself, or of a bucket's budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from prune.errors import UsageError
from prune.stores.base import Space
from prune.stores.local import LocalRoot

if TYPE_CHECKING:
    from prune.pressure.relief import Means, Pressed


def probe_of(pressed: Sequence[Pressed], means: Means) -> Callable[[], Space]:
    root = pressed[0].root
    if "://" in root and means.space_of is None:
        return _budget(pressed[0])
    return lambda: means.space_of(root) if means.space_of is not None else read_room(root)


def _budget(pressed: Pressed) -> Callable[[], Space]:
    """Room in an object store: what is left of the budget. Raises UsageError without one."""
    from prune.stores.object.root import ObjectRoot, room

    capacity = next(each.capacity for each in pressed.run.replicas if each.name == pressed.replica)
    if capacity is None:
        raise UsageError(f"{pressed.root} has no free space of its own", mend='give it a budget: capacity = "10TB"')

    def left() -> Space:
        space = room(ObjectRoot(pressed.root), capacity)
        assert space is not None
        return space

    return left


def read_room(root: str) -> Space:
    """Room on the volume of a root, by that root itself. Raises OSError."""
    with LocalRoot(root) as opened:
        return opened.space()
