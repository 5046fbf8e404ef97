"""`prune explain STEP`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen

if TYPE_CHECKING:
    from prune.control.tombstones import Tombstone
    from prune.settings.schema import RunSettings


@verb("explain")
@on_runs
@click.argument("step")
def command(screen: Screen, chosen: Chosen, step: str) -> int:
    """Everything known about one step, also after it is gone: copies, health, reasons, guards, history.

    STEP is its number, or a name that holds it. Changes nothing.
    """
    from prune import engine
    from prune.cli.arguments import step_argument
    from prune.journal import open_journal
    from prune.journal.own import of_one_run
    from prune.report.explained import EXPLAIN_SCHEMA, Explained, explained_report, explained_to_json
    from prune.report.render import show

    number = step_argument(step)
    settings = chosen.load()
    now = time.time_ns()
    journal = open_journal(settings.state, write=False)
    found = []
    for run in settings.runs:
        _, plan = engine.look_at(run, now_ns=now, journal=journal, judge_all=True)
        primary = plan.replicas[0]
        events = of_one_run(journal.history(run.name, step=number), primary.root, primary.identity)
        found.append(Explained(number, plan, _tombstones(run, number), events))
    journal.close()
    if screen.json:
        runs = [explained_to_json(run) for run in found]
        screen.emit({"schema": EXPLAIN_SCHEMA, "step": number, "runs": runs})
    else:
        known = [run for run in found if run.known] or found
        show([part for run in known for part in explained_report(run, now)], screen)
    return 0


def _tombstones(run: RunSettings, step: int) -> tuple[tuple[str, Tombstone], ...]:
    """What the control folders remember of a step that was pruned; one that cannot be read tells nothing here."""
    from prune.inventory.opening import open_control, open_site
    from prune.inventory.recognising import find_layout

    found = []
    with open_site(run) as site:
        find_layout(site)
        open_control(site, site.layout)
        for replica in site.replicas:
            try:
                stones = replica.control.tombstones() if replica.control else []
            except OSError:
                continue
            found += [(replica.name, stone) for stone in stones if stone.step == step]
    return tuple(found)
