"""How full each replica's volume is, as the page draws it: a bar with its water marks and a forecast."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prune.forecast import Forecast
from prune.model import SECOND, Replica
from prune.pressure.marks import high_water, low_water
from prune.service.board import Board, RunView
from prune.settings.schema import Pressure
from prune.settings.units import format_duration, format_size
from prune.stores.base import Space


@dataclass(frozen=True, slots=True)
class Tank:
    """One replica's room, as a bar with its water marks."""

    replica: str
    root: str
    words: str
    used: float | None  # per cent of the volume; None: not known
    low: float | None  # where the bar stands at low water
    high: float | None
    short: bool
    foretold: str


def tanks_of(view: RunView, board: Board, pressure: Pressure, now_ns: int) -> Iterable[Tank]:
    for replica in view.plan.replicas if view.plan else ():
        yield _tank(replica, board.room(view.run, replica.name) or _planned(replica), pressure,
                    view.forecasts.get(replica.name), now_ns)  # fmt: skip


def _planned(replica: Replica) -> Space | None:
    if replica.free_bytes is None or not replica.total_bytes:
        return None
    return Space(replica.free_bytes, replica.total_bytes, replica.free_inodes, replica.total_inodes)


def _tank(replica: Replica, space: Space | None, pressure: Pressure, told: Forecast | None, now_ns: int) -> Tank:
    foretold = _foretold(told, now_ns)
    if space is None:
        return Tank(replica.name, replica.root, "free space is not known", None, None, None, False, foretold)
    low, high = low_water(pressure, space), high_water(pressure, space)
    words = f"{format_size(space.free_bytes)} free of {format_size(space.total_bytes)}"
    if space.free_inodes is not None and low.inodes > space.free_inodes:
        words += f", {space.free_inodes} inodes left"
    if replica.trash_bytes:
        words += f", {format_size(replica.trash_bytes)} in the trash"
    if low.bytes:
        words += f"; low water {format_size(low.bytes)}"
    if high.bytes > low.bytes:
        words += f", target {format_size(high.bytes)}"
    return Tank(
        replica=replica.name,
        root=replica.root,
        words=words,
        used=_share(space.total_bytes - space.free_bytes, space),
        low=100 - _share(low.bytes, space) if low.bytes else None,
        high=100 - _share(high.bytes, space) if high.bytes > low.bytes else None,
        short=not low.met(space),
        foretold=foretold,
    )


def _share(size: int, space: Space) -> float:
    return round(min(100.0, max(0.0, 100 * size / space.total_bytes)), 2) if space.total_bytes else 0.0


def _foretold(told: Forecast | None, now_ns: int) -> str:
    if told is None or told.next_save_bytes is None:
        return ""
    size = format_size(told.next_save_bytes)
    if told.next_save_at_ns is None:
        return f"saves take {size}; none came lately"
    when = "is due" if told.next_save_at_ns <= now_ns else f"in {format_duration(told.next_save_at_ns - now_ns)}"
    if not told.next_save_fits:
        return f"the next save, {size}, {when} and does not fit"
    full = f"; full in {format_duration(int(told.seconds_to_full) * SECOND)} if nothing is deleted" if (
        told.seconds_to_full is not None) else ""  # fmt: skip
    return f"next save {size} {when}{full}"
