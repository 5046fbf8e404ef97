"""A simulation as JSON and as lines."""

from __future__ import annotations

from typing import Any

from prune.readings import Given
from prune.report.lines import Cell, Grid, Line, Report, line, printable
from prune.settings.schema import DAY, SECOND
from prune.settings.units import format_duration, format_size
from prune.simulate import Room, RuleShare, Simulation

SIMULATION_SCHEMA = "prune.simulation/1"


def simulation_to_json(given: Given, found: Simulation) -> dict[str, Any]:
    """One run of ``prune.simulation/1``; what grows without end is null."""
    return {
        "run": given.name,
        "checkpoint_bytes": given.workload.bytes,
        "save_every_seconds": given.workload.interval_ns / SECOND,
        "steps_per_save": given.workload.steps_per_save,
        "rules": [{"rule": s.rule, "checkpoints": s.checkpoints, "per_day": s.per_day} for s in found.shares],
        "steady_checkpoints": found.steady_checkpoints,
        "steady_bytes": found.steady_bytes,
        "peak_checkpoints": found.peak_checkpoints,
        "peak_bytes": found.peak_bytes,
        "growth_bytes_per_day": found.growth_bytes_per_day,
        "largest_keep_last": found.largest_last,
        "volumes": [
            {
                "name": room.volume.name,
                "bytes": room.volume.capacity,
                "fits": room.fits,
                "trouble_after_seconds": None if room.trouble_ns is None else room.trouble_ns / SECOND,
                "bytes_short": room.bytes_short,
            }
            for room in found.rooms
        ],
    }


def simulation_report(given: Given, found: Simulation) -> Report:
    """The figures, each with where it comes from."""
    size = format_size(given.workload.bytes)
    return [
        line(Cell(printable(given.name), "strong"),
             f": one checkpoint of {size} each {format_duration(given.workload.interval_ns)}"),
        _kept(found),
        line(_steady(given, found), indent=2),
        *[_room(room) for room in found.rooms],
        *_mend(found),
    ]  # fmt: skip


def _kept(found: Simulation) -> Grid:
    grid = Grid(("at most", "checkpoints"), right=frozenset({"checkpoints"}))
    for share in found.shares:
        grid.rows.append((Cell(share.rule), Cell(_amount(share))))
    grid.rows.append((Cell("not pruned yet"), Cell(str(found.waiting))))
    grid.rows.append((Cell("being written"), Cell("1")))
    if found.in_trash:
        grid.rows.append((Cell("in the trash"), Cell(str(found.in_trash))))
    return grid


def _amount(share: RuleShare) -> str:
    return f"+ {share.per_day:.3g} a day" if share.checkpoints is None else str(share.checkpoints)


def _steady(given: Given, found: Simulation) -> str:
    if found.steady_bytes is None or found.peak_bytes is None:
        return f"grows without end, by {format_size(int(found.growth_bytes_per_day))} a day"
    return f"settles at {format_size(found.steady_bytes)}, peaks at {format_size(found.peak_bytes)}"


def _room(room: Room) -> Line:
    name = f"{printable(room.volume.name)}, {format_size(room.volume.capacity)}: "
    if room.fits:
        return line(name, Cell("fits", "good"), indent=2)
    if room.trouble_ns is None or room.trouble_ns > 3650 * DAY:
        return line(name, Cell("fits for ten years", "good"), indent=2)
    when = format_duration(room.trouble_ns)
    short = format_size(room.bytes_short)
    return line(name, Cell("TROUBLE", "bad"), f" {when} after the first save; {short} short in the end", indent=2)


def _mend(found: Simulation) -> list[Line]:
    if all(room.fits for room in found.rooms):
        return []
    if found.steady_bytes is None:
        return [line("a rule that keeps for good fills any volume in the end", indent=2)]
    if found.largest_last is None:
        return [line("not even keep.last = 1 fits", indent=2)]
    return [line(f"the largest keep.last that fits everywhere is {found.largest_last}", indent=2)]
