"""`prune undo [PLAN-ID]`."""

from __future__ import annotations

import time

import click

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen
from prune.errors import UsageError


@verb("undo")
@on_runs
@click.argument("plan_id", metavar="[PLAN-ID]", required=False)
@click.option("--wait", metavar="DURATION", default="0s", help="How long to wait for another pass's lock.")
def command(screen: Screen, chosen: Chosen, plan_id: str | None, wait: str) -> int:
    """Put back what is still in the trash, of one plan or of all, and pin it so that it stays.

    It works as long as the grace lasts; with grace = "0s" nothing waits in the trash.
    """
    from prune.cli.arguments import duration_option
    from prune.cli.settled import settle
    from prune.deletion.undo import undo

    wait_ns = duration_option("--wait", wait)
    count, code = settle(
        screen,
        chosen.load(),
        lambda run, journal: undo(run, plan_id, now_ns=time.time_ns(), wait_ns=wait_ns, journal=journal),
        schema="prune.undo/1",
        word="restored",
    )
    if count == 0 and code == 0:
        if plan_id is not None:
            raise UsageError(f"nothing of plan {plan_id} is in the trash", mend="`prune history` lists the plans.")
        screen.note("nothing is in the trash; what was purged cannot be put back")
    return code
