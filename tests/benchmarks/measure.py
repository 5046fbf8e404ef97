"""Whole processes, interleaved with their peers, medians of the rounds and ratios between them."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Case = Sequence[str] | str


@dataclass
class Row:
    """One case's figures over its rounds."""

    name: str
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    peak_mib: float = 0.0

    @property
    def wall(self) -> float:
        return statistics.median(self.walls)

    @property
    def cpu(self) -> float:
        return statistics.median(self.cpus)


@dataclass(frozen=True)
class Target:
    """What one case owes another, as a ratio of wall times."""

    case: str
    peer: str
    at_most: float


def timed(case: Case, environment: Mapping[str, str]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds (children included), peak MiB of one whole process. Raises on a failure."""
    started = time.perf_counter()
    process = subprocess.Popen(
        case, shell=isinstance(case, str), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(environment)
    )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 5):
        raise RuntimeError(f"exit {process.returncode}: {case}")
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def group(
    title: str,
    cases: Mapping[str, Case],
    *,
    rounds: int,
    before: Callable[[str], None] = lambda _name: None,
    targets: Sequence[Target] = (),
    environment: Mapping[str, str] = os.environ,
) -> dict[str, Row]:
    """Runs every case once a round and prints the table in Markdown."""
    rows = {name: Row(name) for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            before(name)
            wall, cpu, peak = timed(case, environment)
            rows[name].walls.append(wall)
            rows[name].cpus.append(cpu)
            rows[name].peak_mib = max(rows[name].peak_mib, peak)
    _print(title, rows, targets)
    return rows


def _print(title: str, rows: Mapping[str, Row], targets: Sequence[Target]) -> None:
    print(f"\n### {title}\n\n| case | wall s | processor s | peak MiB |\n|---|---|---|---|")
    for row in rows.values():
        spread = f"{min(row.walls):.3f}–{max(row.walls):.3f}"
        print(f"| {row.name} | {row.wall:.3f} ({spread}) | {row.cpu:.3f} | {row.peak_mib:.0f} |")
    for target in targets:
        ratio = rows[target.case].wall / rows[target.peer].wall
        cpu = rows[target.case].cpu / max(rows[target.peer].cpu, 1e-3)
        verdict = f"target ≤ {target.at_most}: {'reached' if ratio <= target.at_most else 'missed'}"
        print(f"\n{target.case} / {target.peer}: **{ratio:.2f}** (processor {cpu:.2f}), {verdict}")
    print(flush=True)
