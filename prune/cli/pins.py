"""`prune pins`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen

if TYPE_CHECKING:
    from prune.model import Pin


@verb("pins")
@on_runs
def command(screen: Screen, chosen: Chosen) -> int:
    """List the pinned steps, with who pinned them and why. Changes nothing."""
    from prune import holds
    from prune.report.lines import Cell, Grid, line, printable
    from prune.report.render import show
    from prune.report.times import ago, iso

    now = time.time_ns()
    grid = Grid(("run", "step", "replicas", "by", "when", "until", "reason"), right=frozenset({"step"}))
    documents = []
    for run in chosen.load().runs:
        for step, pins in sorted(_by_step(holds.pins(run)).items()):
            first = pins[0]
            replicas = [pin.replica for pin in pins]
            over = not first.holds(now)
            documents.append(
                {"run": run.name, "step": step, "replicas": replicas, "by": first.by, "at": iso(first.at_ns),
                 "until": iso(first.until_ns), "over": over, "reason": first.reason}
            )  # fmt: skip
            until = "over" if over else ago(first.until_ns, now) if first.until_ns is not None else "unpinned"
            cells = (run.name, str(step), ", ".join(replicas), first.by, ago(first.at_ns, now), until, first.reason)
            grid.rows.append(tuple(Cell(printable(cell)) for cell in cells))
    if screen.json:
        screen.emit({"schema": "prune.pins/1", "pins": documents})
    else:
        show([grid if grid.rows else line("nothing is pinned")], screen)
    return 0


def _by_step(pins: list[Pin]) -> dict[int, list[Pin]]:
    found: dict[int, list[Pin]] = {}
    for pin in pins:
        found.setdefault(pin.step, []).append(pin)
    return found
