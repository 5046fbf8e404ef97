"""Room on a mirror before the first byte is copied: what is free, and what policy lets go of there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from prune import engine
from prune.inventory.site import OpenReplica
from prune.pressure.marks import Wish
from prune.pressure.relief import Means, Pressed, relieve
from prune.settings.schema import Pressure, RunSettings, Settings
from prune.settings.units import format_size
from prune.stop import Stop


@dataclass(frozen=True, slots=True)
class Need:
    """What a copy takes on its target."""

    bytes: int
    inodes: int


def shortage(target: OpenReplica, need: Need, *, used: int) -> str | None:
    """The sentence that says what is missing, None where there is room. ``used`` counts against a budget.

    Raises OSError when free space cannot be read.
    """
    assert target.root is not None
    budget = target.settings.capacity
    if budget is not None and used + need.bytes > budget:
        return f"needs {format_size(need.bytes)}, {format_size(max(0, budget - used))} of its budget are left"
    if target.settings.free_space == "none" or target.in_store:
        return None
    space = target.root.space()
    if space.free_bytes < need.bytes:
        return f"needs {format_size(need.bytes)}, {format_size(space.free_bytes)} are free"
    if space.free_inodes is not None and space.free_inodes < need.inodes:
        return f"needs {need.inodes} inodes, {space.free_inodes} are free"
    return None


def make_room(run: RunSettings, target: str, need: Need, *, state: str | None, stop: Stop, wait_ns: int) -> None:
    """Deletes what policy lets go of, until there is room; N is never lowered for a copy."""
    alone = replace(run, pressure=Pressure())
    if any(replica.name == target and "://" in replica.root for replica in run.replicas):
        engine.apply(Settings(runs=(alone,), state=state), conduct=engine.Conduct(wait_ns=wait_ns, stop=stop))
        return  # a budget is counted, not probed
    relieve(
        Settings(runs=(alone,), state=state),
        [Pressed(alone, target)],
        Wish(need.bytes, need.inodes),
        means=Means(stop=stop, wait_ns=wait_ns),
    )
