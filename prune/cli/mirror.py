"""`prune mirror`: the mirrors brought up to date."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from prune.cli.fleets import crew, dask_option, in_shard, shard_option
from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen

if TYPE_CHECKING:
    from prune.settings.schema import Settings


@verb("mirror")
@on_runs
@click.argument("steps", metavar="[STEP]...", nargs=-1)
@click.option(
    "--from",
    "source",
    metavar="NAME",
    help="This replica's copies of the STEPs are right: they replace differing ones on all others.",
)
@click.option(
    "--read-back",
    type=click.Choice(["auto", "memory", "device"]),
    default="auto",
    show_default=True,
    help="Where to read back what landed; auto: from the device on network file systems.",
)
@click.option("--wait", metavar="DURATION", default="0s", help="How long to wait for another pass's lock.")
@shard_option
@dask_option
def command(
    screen: Screen,
    chosen: Chosen,
    steps: tuple[str, ...],
    source: str | None,
    read_back: str,
    wait: str,
    shard: str | None,
    dask: str | None,
) -> int:
    """Copy missing or damaged steps to the mirrors, newest first, each verified before it gets its name.

    Only what the plan keeps. An interrupted copy is continued by the next call. Exit 1 when a copy failed, 3 when a
    mirror could not be written at all.
    """
    from prune.cli.arguments import duration_option, step_argument
    from prune.cli.exits import BLOCKED, FAILED, worst
    from prune.mirror import Conduct, mirror
    from prune.report.mirroring import mirrored_report, mirrored_to_json
    from prune.report.render import show
    from prune.stop import Stop, stopping_on_signals

    wait_ns = duration_option("--wait", wait)
    settings = in_shard(_with_mirrors(chosen.load()), shard)
    wanted = [step_argument(step) for step in steps]
    stop = Stop()
    cold = {"auto": None, "memory": False, "device": True}[read_back]
    with (
        screen.byte_progress() if dask is None else screen.progress() as progress,
        crew(screen, dask, settings) as cluster,
        stopping_on_signals(stop, say="prune: stopping; the next call goes on"),
    ):
        conduct = Conduct(wait_ns, cold, stop, progress)
        if cluster is None:
            found = mirror(settings, wanted, source=source, conduct=conduct)
        else:
            from prune.fleet import work

            found = work.mirror(cluster, settings, wanted, source=source, conduct=conduct)
    if screen.json:
        screen.emit(mirrored_to_json(found))
    else:
        show(mirrored_report(found, verbose=screen.verbose), screen)
    codes = [FAILED for run in found if run.failed] + [BLOCKED for run in found if run.blocks]
    return stop.exit_code or worst(codes, attention=any(run.attention for run in found), strict=screen.strict)


def _with_mirrors(settings: Settings) -> Settings:
    """The settings with the runs that have mirrors, if any has: a shard without such runs is no mistake."""
    runs = tuple(run for run in settings.runs if run.mirrors)
    return replace(settings, runs=runs or settings.runs)
