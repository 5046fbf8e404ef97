"""`prune unpin STEP`."""

from __future__ import annotations

import click

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen
from prune.errors import UsageError


@verb("unpin")
@on_runs
@click.argument("step")
def command(screen: Screen, chosen: Chosen, step: str) -> int:
    """Take a step's pin away, on every replica."""
    from prune import holds
    from prune.cli.arguments import step_argument
    from prune.cli.journals import remember

    number = step_argument(step)
    settings = chosen.load_one()
    run = settings.runs[0]
    freed = holds.unpin(run, number)
    if not freed:
        raise UsageError(f"step {number} of {run.name} is not pinned", mend="`prune pins` lists what is.")
    remember(screen, settings.state, run.name, "unpinned", step=number)
    if screen.json:
        screen.emit({"schema": "prune.unpin/1", "run": run.name, "step": number, "replicas": freed})
    elif not screen.quiet:
        screen.say(f"step {number} of {run.name} is no longer pinned ({', '.join(freed)})")
    return 0
