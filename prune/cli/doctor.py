"""`prune doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen

if TYPE_CHECKING:
    from prune.settings.schema import RunSettings


@verb("doctor")
@on_runs
def command(screen: Screen, chosen: Chosen) -> int:
    """Probe each replica: times, clock, rename, sync, locks, room, mount, and the trainer's own rotation.

    Writes a probe directory where the control folder stands or would stand, and removes it.
    """
    from prune.cli.exits import FAILED, worst
    from prune.doctor import examine, other_janitor
    from prune.report.lines import Cell, Grid, Report, Style, line, printable
    from prune.report.render import show

    states: dict[str, Style] = {"ok": "good", "attention": "warn", "bad": "bad"}
    report: Report = []
    documents = []
    findings = []
    for run in chosen.load().runs:
        beside = _stands_beside(run)
        replicas = []
        for replica in run.replicas:
            found = examine(replica, stand_beside=beside)
            found += other_janitor(run) if replica is run.primary else []
            findings += found
            grid = Grid(("check", "state", "found", "what it means"))
            grid.rows.extend(
                (Cell(f.check), Cell(f.state, states[f.state]), Cell(printable(f.found)), Cell(f.means)) for f in found
            )
            title = f"{run.name}: {replica.name} {replica.root}"
            report += [line(Cell(printable(title), "strong")), grid, line()]
            checks = [{"check": f.check, "state": f.state, "found": f.found, "means": f.means} for f in found]
            replicas.append({"name": replica.name, "root": replica.root, "checks": checks})
        documents.append({"run": run.name, "replicas": replicas})
    if screen.json:
        screen.emit({"schema": "prune.doctor/1", "runs": documents})
    else:
        show(report, screen)
    attention = any(found.state == "attention" for found in findings)
    codes = [FAILED for found in findings if found.state == "bad"]
    return worst(codes, attention=attention, strict=screen.strict)


def _stands_beside(run: RunSettings) -> bool:
    """Whether this run's stack reads every entry of its root, so that nothing of ours may stand in it."""
    from prune.inventory.opening import open_site
    from prune.inventory.recognising import find_layout

    with open_site(run) as site:
        find_layout(site)
        return site.layout is not None and site.layout.reads_every_entry and not site.base
