"""`prune purge`."""

from __future__ import annotations

import time

import click

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen


@verb("purge")
@on_runs
@click.option("--yes", "-y", is_flag=True, help="Do not ask; without a terminal nobody is asked.")
@click.option("--wait", metavar="DURATION", default="0s", help="How long to wait for another pass's lock.")
def command(screen: Screen, chosen: Chosen, yes: bool, wait: str) -> int:
    """Empty the trash of every replica now. What is purged cannot be put back."""
    from prune.cli.arguments import duration_option
    from prune.cli.settled import settle
    from prune.deletion.undo import purge

    wait_ns = duration_option("--wait", wait)
    settings = chosen.load()
    if not screen.agrees("Empty the trash for good?", yes=yes):
        screen.warn("prune: nothing was purged")
        return 0
    count, code = settle(
        screen,
        settings,
        lambda run, journal: purge(run, now_ns=time.time_ns(), wait_ns=wait_ns, journal=journal),
        schema="prune.purge/1",
        word="purged",
    )
    if count == 0 and code == 0:
        screen.note("the trash is empty")
    return code
