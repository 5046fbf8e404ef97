"""Many runs at a glance: the worst first, sums by volume, and what policy would win. Holds a few words a run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from prune.model import Attention, Decision, Replica, RunPlan
from prune.report.json import bytes_to_free
from prune.report.lines import Cell, Grid, Line, Report, line, listed, printable
from prune.report.tables import attention_lines
from prune.report.times import ago
from prune.settings.units import format_size

SHOWN = 40

VolumeKey = tuple[object, ...]

_COMMON = {
    "budget": ("run keeps fewer steps than its keep.last, to share a budget",
               "runs keep fewer steps than their keep.last, to share a budget"),
    "finished": ("run is finished and falls to its final policy", "runs are finished and fall to their final policy"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One run."""

    run: str
    steps: int
    fates: dict[str, int]
    freed: int  # bytes that policy would free, on all replicas
    blocks: tuple[str, ...]
    kinds: tuple[str, ...]  # of attention
    notes: tuple[str, ...] = ()
    last_success_ns: int | None = None

    @property
    def worst(self) -> tuple[object, ...]:
        """Sorts the one in most trouble first, then the one with most to win."""
        return not self.blocks, -len(self.kinds), -self.freed, self.run


@dataclass(slots=True)
class Volume:
    """What all runs have on one volume."""

    place: str  # what the roots on it have in common
    runs: int = 0
    held: int = 0  # bytes of checkpoints, as far as they were measured
    freed: int = 0
    free: int | None = None
    total: int | None = None


@dataclass
class Fleet:
    """Gathers runs as they are told; every run that is told is in the sums, and matching ones have a row."""

    rows: list[Row] = field(default_factory=list)
    volumes: dict[VolumeKey, Volume] = field(default_factory=dict)
    shared: list[Attention] = field(default_factory=list)  # what is told at one run and concerns many

    def add(self, plan: RunPlan, *, last_success_ns: int | None = None) -> None:
        fates = {fate.value: 0 for fate in Decision}
        for step in plan.steps:
            fates[step.decision.value] += 1
        freed = bytes_to_free(plan)
        self.rows.append(
            Row(plan.run, len(plan.steps), fates, sum(freed.values()), tuple(block.block for block in plan.blocks),
                tuple(dict.fromkeys(note.kind for note in plan.attention)), plan.notes, last_success_ns)
        )  # fmt: skip
        self.shared += [note for note in plan.attention if note.kind == "over-budget"]
        held = held_bytes(plan)
        for key, replicas in _by_volume(plan).items():
            volume = self.volumes.setdefault(key, Volume(replicas[0].root))
            volume.runs += 1
            for replica in replicas:
                volume.place = common_place(volume.place, replica.root)
                volume.held += held.get(replica.name, 0)
                volume.freed += freed.get(replica.name, 0)
                volume.free, volume.total = replica.free_bytes, replica.total_bytes

    def worst_first(self) -> list[Row]:
        return sorted(self.rows, key=lambda row: row.worst)

    def volumes_to_json(self) -> list[dict[str, Any]]:
        return [
            {"place": volume.place, "runs": volume.runs, "bytes_held": volume.held, "bytes_to_free": volume.freed,
             "free_bytes": volume.free, "total_bytes": volume.total}
            for volume in self._ordered()
        ]  # fmt: skip

    def report(self, *, now_ns: int, all_rows: bool = False, passes: bool = False) -> Report:
        """The runs, worst first; those with nothing to tell only when asked for all."""
        rows = self.worst_first()
        telling = rows if all_rows else [row for row in rows if row.blocks or row.kinds or row.freed][:SHOWN]
        report: Report = [_headline(rows)]
        if telling:
            report += [line(), _grid(telling, now_ns=now_ns, passes=passes), line()]
        if len(rows) > len(telling):
            report.append(line(Cell(f"{len(rows) - len(telling)} more runs; --verbose shows all", "dim"), indent=2))
        report += [_volume(volume) for volume in self._ordered()]
        report += attention_lines(self.shared)
        report += _common_notes(rows)
        return report

    def _ordered(self) -> list[Volume]:
        return sorted(self.volumes.values(), key=lambda volume: (-volume.freed, volume.place))


def _headline(rows: Iterable[Row]) -> Line:
    rows = list(rows)
    blocked = sum(bool(row.blocks) for row in rows)
    telling = sum(bool(row.kinds) for row in rows)
    deleting = sum(row.fates["delete"] > 0 for row in rows)
    victims = sum(row.fates["delete"] for row in rows)
    parts: list[str | Cell] = [f"{len(rows)} runs: "]
    if blocked:
        parts += [Cell(f"{blocked} blocked", "bad"), ", "]
    if telling:
        parts += [Cell(f"{telling} with attention", "warn"), ", "]
    parts.append(f"{victims} steps of {deleting} runs would go" if victims else "nothing would go")
    return line(*parts)


def _grid(rows: Iterable[Row], *, now_ns: int, passes: bool) -> Grid:
    last = ("last good pass",) if passes else ()
    grid = Grid(("run", "steps", "delete", "guarded", "frees", *last, "what is wrong"),
                right=frozenset({"steps", "delete", "guarded", "frees"}))  # fmt: skip
    for row in rows:
        wrong = listed([*row.blocks, *row.kinds])
        when = (Cell(ago(row.last_success_ns, now_ns) if row.last_success_ns else "never"),) if passes else ()
        grid.rows.append((
            Cell(printable(row.run)),
            Cell(str(row.steps)),
            Cell(str(row.fates["delete"] or "-")),
            Cell(str(row.fates["guarded"] or "-")),
            Cell(format_size(row.freed) if row.freed else "-"),
            *when,
            Cell(("BLOCKED " if row.blocks else "") + wrong, "bad" if row.blocks else "warn"),
        ))  # fmt: skip
    return grid


def _volume(volume: Volume) -> Line:
    free = f"{format_size(volume.free)} free" if volume.free is not None else "free space is not known"
    of = f" of {format_size(volume.total)}" if volume.total else ""
    runs = f"{volume.runs} run{'s' if volume.runs != 1 else ''}"
    won = f"would free {format_size(volume.freed)}" if volume.freed else "nothing to free"
    return line(f"{printable(volume.place)}: {runs}, {format_size(volume.held)} measured, {won}; {free}{of}", indent=2)


def _common_notes(rows: Iterable[Row]) -> list[Line]:
    """Notes that speak of the fleet: each once, with how many runs say it."""
    counts = Counter(note.partition(":")[0] for row in rows for note in row.notes)
    told = [(counts[word], one if counts[word] == 1 else many) for word, (one, many) in _COMMON.items()]
    return [line(Cell(f"note: {count} {what}", "dim"), indent=2) for count, what in told if count]


def held_bytes(plan: RunPlan) -> dict[str, int]:
    """Bytes of checkpoints by replica, as far as they were measured."""
    held: dict[str, int] = {}
    for copy in (copy for step in plan.steps for copy in step.copies):
        size = copy.bytes if copy.bytes is not None else copy.size
        held[copy.replica] = held.get(copy.replica, 0) + (size or 0)
    return held


def devices_of(plan: RunPlan) -> dict[str, int]:
    """The device of each replica, where a copy tells it."""
    return {copy.replica: copy.identity.dev for step in plan.steps for copy in step.copies}


def _by_volume(plan: RunPlan) -> dict[VolumeKey, list[Replica]]:
    """The replicas of a run by what they lie on: a device, where a copy tells it; a bucket; else its size."""
    devices = devices_of(plan)
    found: dict[VolumeKey, list[Replica]] = {}
    for replica in plan.replicas:
        found.setdefault(volume_key(replica, devices.get(replica.name)), []).append(replica)
    return found


def volume_key(replica: Replica, device: int | None) -> VolumeKey:
    """What two replicas on one volume have in common, as far as it is known."""
    if "://" in replica.root:
        return ("store", *replica.root.split("/")[:3])
    return ("device", device) if device else ("size", replica.file_system, replica.total_bytes)


def common_place(place: str, root: str) -> str:
    """What a volume is called once a further root was found on it."""
    if "://" in root:
        return "/".join(root.split("/")[:3])
    return os.path.commonpath([place, root]) if place.startswith("/") and root.startswith("/") else place
