"""`prune adopt REPLICA`."""

from __future__ import annotations

import time

import click

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen


@verb("adopt")
@on_runs
@click.argument("replica")
@click.option("--wait", metavar="DURATION", default="0s", help="How long to wait for another pass's lock.")
def command(screen: Screen, chosen: Chosen, replica: str, wait: str) -> int:
    """Accept a new or replaced volume: REPLICA (primary, mirror, …) then counts as a new, empty mirror.

    For a disk that was exchanged on purpose. Nothing is deleted until it holds the last steps again.
    """
    from prune.cli.arguments import duration_option
    from prune.deletion.undo import adopt
    from prune.journal import open_journal

    settings = chosen.load_one()
    journal = open_journal(settings.state, write=True)
    wait_ns = duration_option("--wait", wait)
    identity = adopt(settings.runs[0], replica, now_ns=time.time_ns(), wait_ns=wait_ns, journal=journal)
    journal.close()
    if screen.json:
        run = settings.runs[0].name
        screen.emit({"schema": "prune.adopt/1", "run": run, "replica": replica, "identity": identity})
    elif not screen.quiet:
        screen.say(f"{replica} of {settings.runs[0].name} is accepted as volume {identity}; `prune mirror` fills it")
    return 0
