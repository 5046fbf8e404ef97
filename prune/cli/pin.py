"""`prune pin STEP`."""

from __future__ import annotations

import time

import click

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen


@verb("pin")
@on_runs
@click.argument("step")
@click.option("--reason", default="", metavar="TEXT", help="Why; shown wherever the pin holds the step.")
@click.option("--until", metavar="DURATION", help="How long from now; without it until `prune unpin`.")
def command(screen: Screen, chosen: Chosen, step: str, reason: str, until: str | None) -> int:
    """Protect a step on every replica: no prune of any kind takes it."""
    from prune import holds
    from prune.cli.arguments import duration_option, step_argument
    from prune.cli.journals import remember
    from prune.report.times import iso

    number = step_argument(step)
    settings = chosen.load_one()
    run = settings.runs[0]
    now = time.time_ns()
    until_ns = now + duration_option("--until", until) if until is not None else None
    told = holds.pin(run, number, reason=reason, now_ns=now, until_ns=until_ns)
    remember(screen, settings.state, run.name, "pinned", step=number, data={"reason": reason, "until": iso(until_ns)})
    missing = [replica.name for replica in run.replicas if replica.name not in told]
    if screen.json:
        pinned = {"run": run.name, "step": number, "replicas": told, "not_told": missing, "until": iso(until_ns)}
        screen.emit({"schema": "prune.pin/1", **pinned})
    elif not screen.quiet:
        screen.say(f"step {number} of {run.name} is pinned on {', '.join(told)}" + _until(iso(until_ns)))
    if missing:
        screen.warn(f"prune: could not be told: {', '.join(missing)}; a pin on one replica holds the step on all")
    absent = holds.absence(run, number, now_ns=now)
    if absent is not None:
        screen.warn(f"prune: {absent}")
    return 7 if (missing or absent is not None) and screen.strict else 0


def _until(moment: str | None) -> str:
    return f" until {moment}" if moment else ""
