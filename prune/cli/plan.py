"""`prune plan`: the preview. It writes nothing but the file it is asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from prune.cli.fleets import (
    counted,
    crew,
    dask_option,
    in_shard,
    match_option,
    matching,
    plan_many,
    shard_option,
)
from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Progress, Screen
from prune.errors import UsageError

if TYPE_CHECKING:
    from prune.fleet.dask import Cluster
    from prune.model import Plan, RunPlan
    from prune.settings.schema import Settings


@verb("plan")
@on_runs
@click.option("--out", metavar="FILE", help="Write the plan there as JSON; `prune apply FILE` carries it out.")
@match_option
@shard_option
@dask_option
def command(
    screen: Screen, chosen: Chosen, out: str | None, match: str | None, shard: str | None, dask: str | None
) -> int:
    """Preview what would be kept and deleted on each replica, and why. Changes nothing.

    \b
    prune plan --primary /data/ckpt/tiny --mirror /mnt/mirror/tiny --keep-last 12

    Many runs are told in one line each, the worst first, with sums by volume.
    """
    from prune import engine
    from prune.settings.schema import MANY_RUNS

    if out in ("", "-"):
        raise UsageError(f"--out {out!r}: is no file", mend="Name one; `--json` writes the plan to standard output.")
    settings, now = in_shard(matching(chosen.load(), match), shard), time.time_ns()
    with screen.progress() as progress, crew(screen, dask, settings) as cluster:
        if len(settings.runs) > MANY_RUNS:
            return plan_many(screen, settings, _plans(settings, cluster, now, progress), now_ns=now, out=out)
        if cluster is not None:
            plan = engine.assemble(settings, [*_plans(settings, cluster, now, progress)], now)
        else:
            plan = engine.plan(settings, now_ns=now, progress=progress)
    return _tell(screen, settings, plan, out)


def _plans(settings: Settings, cluster: Cluster | None, now: int, progress: Progress) -> Iterator[RunPlan]:
    """Each run's plan as it comes, made here or on a cluster."""
    from prune import engine

    if cluster is None:
        yield from counted(engine.plans(settings, now_ns=now), len(settings.runs), progress, "planning runs")
        return
    from prune.fleet import work

    yield from work.plans(cluster, settings, now_ns=now, progress=lambda done, of: progress("planning runs", done, of))


def _tell(screen: Screen, settings: Settings, plan: Plan, out: str | None) -> int:
    from prune.cli.exits import code_of_plan
    from prune.report.json import plan_to_json
    from prune.report.render import show
    from prune.report.tables import attention_lines, plan_report

    document = plan_to_json(plan) if screen.json or out else {}
    if out:
        from prune.cli.files import write_beside_roots

        write_beside_roots(out, document, settings)
    if screen.json:
        screen.emit(document)
    else:
        show([*attention_lines(settings.notices), *plan_report(plan, verbose=screen.verbose)], screen)
    return code_of_plan(plan, strict=screen.strict)
