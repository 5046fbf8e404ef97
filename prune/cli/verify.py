"""`prune verify`: whether copies are what they should be."""

from __future__ import annotations

import click

from prune.cli.fleets import crew, dask_option, in_shard, shard_option
from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen


@verb("verify")
@on_runs
@click.argument("steps", metavar="[STEP]...", nargs=-1)
@click.option(
    "--check",
    type=click.Choice(["size", "structure", "sha256"]),
    default="sha256",
    show_default=True,
    help="How deep; sha256 includes the formats' own checksums.",
)
@click.option("--again", is_flag=True, help="Read also what was read before and has not changed since.")
@click.option("--threads", type=click.IntRange(1, 256), metavar="N", help="Files read at once; default: processors.")
@shard_option
@dask_option
def command(
    screen: Screen,
    chosen: Chosen,
    steps: tuple[str, ...],
    check: str,
    again: bool,
    threads: int | None,
    shard: str | None,
    dask: str | None,
) -> int:
    """Check copies on every replica: sizes, structure, content. Writes nothing in any root.

    Exit 5 when damage was found, 1 when something could not be examined.
    """
    from typing import cast

    from prune.checking import Check, Means
    from prune.cli.arguments import step_argument
    from prune.cli.exits import DAMAGE, FAILED, worst
    from prune.report.checks import verified_report, verified_to_json
    from prune.report.render import show
    from prune.stop import Stop, stopping_on_signals
    from prune.verify import verify

    settings = in_shard(chosen.load(), shard)
    wanted = [step_argument(step) for step in steps]
    stop = Stop()
    shown = screen.byte_progress() if dask is None else screen.progress()
    with shown as progress, crew(screen, dask, settings) as cluster, stopping_on_signals(stop):
        means = Means(cast(Check, check), again=again, threads=threads, progress=progress, stop=stop)
        if cluster is None:
            found = verify(settings, wanted, means=means)
        else:
            from prune.fleet import work

            found = work.verify(cluster, settings, wanted, means=means)
    if screen.json:
        screen.emit(verified_to_json(found, check=check))
    else:
        show(verified_report(found, verbose=screen.verbose), screen)
    codes = [DAMAGE for run in found if run.damaged] + [FAILED for run in found if run.incomplete]
    attention = any(run.attention for run in found)
    return stop.exit_code or worst(codes, attention=attention, strict=screen.strict)
