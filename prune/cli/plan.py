"""`prune plan`: the preview. It writes nothing but the file it is asked for."""

from __future__ import annotations

import time

import click

from prune.cli.fleets import counted, match_option, matching, plan_many
from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen


@verb("plan")
@on_runs
@click.option("--out", metavar="FILE", help="Write the plan there as JSON; `prune apply FILE` carries it out.")
@match_option
def command(screen: Screen, chosen: Chosen, out: str | None, match: str | None) -> int:
    """Preview what would be kept and deleted on each replica, and why. Changes nothing.

    \b
    prune plan --primary /data/ckpt/tiny --mirror /mnt/mirror/tiny --keep-last 12

    Many runs are told in one line each, the worst first, with sums by volume.
    """
    from prune import engine
    from prune.cli.exits import code_of_plan
    from prune.report.json import plan_to_json
    from prune.report.render import show
    from prune.report.tables import attention_lines, plan_report
    from prune.settings.schema import MANY_RUNS

    settings = matching(chosen.load(), match)
    if len(settings.runs) > MANY_RUNS:
        now = time.time_ns()
        with screen.progress() as progress:
            made = counted(engine.plans(settings, now_ns=now), len(settings.runs), progress, "planning runs")
            return plan_many(screen, settings, made, now_ns=now, out=out)
    with screen.progress() as progress:
        plan = engine.plan(settings, progress=progress)
    document = plan_to_json(plan) if screen.json or out else {}
    if out:
        from prune.cli.files import write_beside_roots

        write_beside_roots(out, document, settings)
    if screen.json:
        screen.emit(document)
    else:
        show([*attention_lines(settings.notices), *plan_report(plan, verbose=screen.verbose)], screen)
    return code_of_plan(plan, strict=screen.strict)
