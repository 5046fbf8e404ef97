"""`prune status`: what stands where, and why nothing is freed where nothing is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prune.cli.fleets import match_option, matching, show_fleet
from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen

if TYPE_CHECKING:
    from prune.report.fleet import Fleet
    from prune.report.status import Standing
    from prune.settings.schema import Settings


@verb("status")
@on_runs
@match_option
def command(screen: Screen, chosen: Chosen, match: str | None) -> int:
    """Runs, replicas, free space, forecast, trash, resume candidate, and why nothing is freed. Changes nothing.

    Many runs are told in one line each, the worst first, with sums by volume and what policy would win there.
    """
    from prune.cli.exits import BLOCKED, DONE, worst
    from prune.report.fleet import Fleet

    settings, now, fleet = matching(chosen.load(), match), time.time_ns(), Fleet()
    standings = _standings(screen, settings, fleet, now)
    if screen.json:
        _emit(standings, fleet)
    else:
        _show(screen, settings, standings, fleet, now)
    codes = [BLOCKED if row.blocks else DONE for row in fleet.rows]
    return worst(codes, attention=any(row.kinds for row in fleet.rows), strict=screen.strict)


def _standings(screen: Screen, settings: Settings, fleet: Fleet, now: int) -> Iterator[Standing]:
    """Each run as it stands now, told to ``fleet`` on its way; none is held."""
    from prune import engine
    from prune.journal import open_journal
    from prune.report.status import standing
    from prune.settings.schema import MANY_RUNS
    from prune.stores.open_files import looking_once

    journal = open_journal(settings.state, write=False)
    many = len(settings.runs) > MANY_RUNS
    with screen.progress() as progress, looking_once():
        for done, run in enumerate(settings.runs, 1):
            if many:
                progress("looking at runs", done, len(settings.runs))
            own = (lambda *_: None) if many else progress
            _, plan = engine.look_at(run, now_ns=now, journal=journal, judge_all=True, progress=own)
            found = standing(plan, journal, now)
            fleet.add(plan, last_success_ns=found.last_success_ns)
            yield found
    if journal.trouble:
        screen.warn(f"prune: history cannot be read: {journal.trouble}")
    journal.close()


def _emit(standings: Iterator[Standing], fleet: Fleet) -> None:
    import sys

    from prune.cli.output import write
    from prune.report.status import STATUS_SCHEMA, status_to_json
    from prune.report.stream import pieces

    def tail() -> dict[str, Any]:
        return {"volumes": fleet.volumes_to_json()}

    for piece in pieces({"schema": STATUS_SCHEMA}, map(status_to_json, standings), tail):
        write(sys.stdout, piece)


def _show(screen: Screen, settings: Settings, standings: Iterator[Standing], fleet: Fleet, now: int) -> None:
    from prune.report.lines import Report, line
    from prune.report.render import show
    from prune.report.status import status_report
    from prune.report.tables import attention_lines
    from prune.settings.schema import MANY_RUNS

    if len(settings.runs) > MANY_RUNS:
        for _ in standings:
            pass
        show_fleet(screen, settings, fleet, now_ns=now, passes=True)
        return
    report: Report = [*attention_lines(settings.notices)]
    for found in standings:
        report += [*status_report(found, now), line()]
    show(report, screen)
