"""`prune seal`: manifests for whole checkpoints that have none."""

from __future__ import annotations

import click

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen


@verb("seal")
@on_runs
@click.argument("steps", metavar="[STEP]...", nargs=-1)
@click.option("--sidecar", is_flag=True, help="Also NAME.sha256 beside each, as `sha256sum -c` checks them.")
@click.option("--threads", type=click.IntRange(1, 256), metavar="N", help="Files read at once; default: processors.")
@click.option("--wait", metavar="DURATION", default="0s", help="How long to wait for another pass's lock.")
def command(
    screen: Screen, chosen: Chosen, steps: tuple[str, ...], sidecar: bool, threads: int | None, wait: str
) -> int:
    """Write manifests for whole checkpoints that have none, on every replica, after reading them in full.

    What is broken, suspect or being written is refused, and so is what another replica's manifest contradicts. Exit
    5 when damage was found, 3 when a replica could not be looked at or is locked.
    """
    from prune.checking import Interrupted, Means
    from prune.cli.arguments import duration_option, step_argument
    from prune.cli.exits import BLOCKED, DAMAGE, FAILED, worst
    from prune.report.render import show
    from prune.report.sealing import sealed_report, sealed_to_json
    from prune.seal import seal_all
    from prune.stop import Stop, stopping_on_signals

    wait_ns = duration_option("--wait", wait)
    settings = chosen.load()
    wanted = [step_argument(step) for step in steps]
    stop = Stop()
    found = []
    with screen.byte_progress() as progress, stopping_on_signals(stop):
        means = Means(threads=threads, progress=progress, stop=stop)
        try:
            found = seal_all(settings, wanted, sidecar=sidecar, means=means, wait_ns=wait_ns)
        except Interrupted:
            pass  # what was written before stands; the code tells the rest
    if screen.json:
        screen.emit(sealed_to_json(found))
    else:
        show(sealed_report(found, verbose=screen.verbose), screen)
    codes = [FAILED for run in found if run.failed] + [BLOCKED for run in found if run.blocks]
    codes += [DAMAGE for run in found if any(each.damage for each in run.refused)]
    return stop.exit_code or worst(codes, strict=screen.strict)
