"""`prune status`: what stands where, and why nothing is freed where nothing is."""

from __future__ import annotations

import time

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen


@verb("status")
@on_runs
def command(screen: Screen, chosen: Chosen) -> int:
    """Runs, replicas, free space, forecast, trash, resume candidate, and why nothing is freed. Changes nothing."""
    from prune import engine
    from prune.cli.exits import BLOCKED, DONE, worst
    from prune.journal import open_journal
    from prune.report.lines import Report, line
    from prune.report.render import show
    from prune.report.status import STATUS_SCHEMA, standing, status_report, status_to_json
    from prune.report.tables import attention_lines

    settings = chosen.load()
    now = time.time_ns()
    journal = open_journal(settings.state, write=False)
    report: Report = [*attention_lines(settings.notices)]
    runs = []
    with screen.progress() as progress:
        for run in settings.runs:
            _, plan = engine.look_at(run, now_ns=now, evidence=journal.evidence, judge_all=True, progress=progress)
            found = standing(plan, journal, now)
            runs.append(found)
            report += [*status_report(found, now), line()]
    if journal.trouble:
        screen.warn(f"prune: history cannot be read: {journal.trouble}")
    journal.close()
    if screen.json:
        screen.emit({"schema": STATUS_SCHEMA, "runs": [status_to_json(found) for found in runs]})
    else:
        show(report, screen)
    codes = (BLOCKED if found.plan.blocks else DONE for found in runs)
    return worst(codes, attention=any(found.plan.attention for found in runs), strict=screen.strict)
