"""Sums over all runs by the volumes they lie on, from what was last seen: no disk is touched for them."""

from __future__ import annotations

from collections.abc import Iterable

from prune.report.fleet import Volume, VolumeKey, common_place, volume_key
from prune.report.lines import printable
from prune.service.board import RunView
from prune.settings.units import format_size


def totals(views: Iterable[RunView]) -> list[Volume]:
    """The volumes, the one with most to win first."""
    found: dict[VolumeKey, Volume] = {}
    for view in views:
        seen = set()
        for replica in view.plan.replicas if view.plan else ():
            key = volume_key(replica, view.counts.devices.get(replica.name))
            volume = found.setdefault(key, Volume(replica.root))
            volume.place = common_place(volume.place, replica.root)
            volume.runs += key not in seen
            volume.held += view.counts.held.get(replica.name, 0)
            volume.freed += view.counts.bytes_to_free.get(replica.name, 0)
            volume.free, volume.total = replica.free_bytes, replica.total_bytes
            seen.add(key)
    return sorted(found.values(), key=lambda volume: (-volume.freed, volume.place))


def in_words(volume: Volume) -> tuple[str, str]:
    """A volume's name, and all that is said of it."""
    won = f"would free {format_size(volume.freed)}" if volume.freed else "nothing to free"
    free = f"{format_size(volume.free)} free" if volume.free is not None else "free space is not known"
    of = f" of {format_size(volume.total)}" if volume.total else ""
    runs = f"{volume.runs} run{'s' if volume.runs != 1 else ''}"
    return printable(volume.place), f"{runs}, {format_size(volume.held)} measured, {won}; {free}{of}"
