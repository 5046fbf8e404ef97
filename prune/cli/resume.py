"""`prune resume`: the checkpoint to resume from, alone on stdout."""

from __future__ import annotations

import click

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen


@verb("resume")
@on_runs
@click.option(
    "--check",
    type=click.Choice(["size", "structure", "sha256"]),
    default="sha256",
    show_default=True,
    help="How deep; sha256 includes the formats' own checksums.",
)
@click.option("--min-step", type=click.IntRange(0), metavar="N", help="None older than this.")
@click.option("--expect", is_flag=True, help="There must be one: a new run is exit 5, never 6.")
@click.option("--restore", is_flag=True, help="First repair the primary from a mirror, where only that has it.")
@click.option("--hold", metavar="DURATION", help="Lease it, so that no prune of any run takes it for so long.")
def command(
    screen: Screen,
    chosen: Chosen,
    check: str,
    min_step: int | None,
    expect: bool,
    restore: bool,
    hold: str | None,
) -> int:
    """Print the checkpoint to resume from: the newest that verifies, on whichever replica.

    \b
    checkpoint=$(prune resume --primary /data/ckpt/tiny) || exit
    Exit 6: a new run, nothing yet. Exit 5: checkpoints, and none usable.
    Exit 3: a replica could not be listed, and nothing was found.
    """
    from typing import cast

    from prune.checking import Check, Interrupted, Means
    from prune.cli.arguments import duration_option
    from prune.cli.output import write
    from prune.journal import open_journal
    from prune.report.resuming import resumption_to_json, spoken
    from prune.resume import Terms, find, held, on_primary
    from prune.stop import Stop, stopping_on_signals

    hold_ns = duration_option("--hold", hold) if hold is not None else None
    settings = chosen.load_one()
    run, stop = settings.runs[0], Stop()
    journal = open_journal(settings.state, write=True)
    try:
        with screen.byte_progress() as progress, stopping_on_signals(stop):
            terms = Terms(Means(cast(Check, check), progress=progress, stop=stop), min_step, expect)
            found = find(run, terms, journal)
            if restore:
                found = on_primary(run, found, terms, journal, settings.state)
            if hold_ns is not None:
                found = held(run, found, terms, journal, hold_ns)
    except Interrupted:
        return stop.exit_code or 1
    finally:
        journal.close()
    for line in spoken(found):
        screen.warn(line)
    if screen.json:
        screen.emit(resumption_to_json(found))
    if found.candidate is None:
        assert found.error is not None
        raise found.error
    if not screen.json:
        import sys

        write(sys.stdout, found.candidate.path + "\n")
    return 7 if screen.strict and found.attention else 0
