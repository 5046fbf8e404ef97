"""`prune make-room`: frees until so much is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen

if TYPE_CHECKING:
    from prune.pressure import Relief


@verb("make-room")
@on_runs
@click.argument("size", metavar="SIZE")
@click.option("--on", "replica", metavar="NAME", default="primary", show_default=True, help="Where to make room.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask; without a terminal nobody is asked.")
@click.option("--wait", metavar="DURATION", default="30s", show_default=True, help="How long to wait for another pass.")
def command(screen: Screen, chosen: Chosen, size: str, replica: str, yes: bool, wait: str) -> int:
    """Free until SIZE (or PERCENT of the volume) is free: trash, dead writers' files, what policy lets go of, and
    fewer than N only as far as pressure.keep_last allows. Stops as soon as there is room.
    """
    from prune.cli.arguments import duration_option, room_option
    from prune.errors import Failed
    from prune.pressure import make_room
    from prune.pressure.relief import Means
    from prune.stop import Stop, stopping_on_signals

    wanted, wait_ns = room_option("SIZE", size), duration_option("--wait", wait)
    settings = chosen.load()
    if not screen.agrees(f"Delete checkpoints until {size} are free on {replica}?", yes=yes):
        screen.warn("prune: nothing was deleted")
        return 0
    stop = Stop()
    with screen.progress() as progress, stopping_on_signals(stop, say="prune: finishing the step in hand"):
        try:
            relief = make_room(settings, wanted, on=replica, means=Means(stop=stop, wait_ns=wait_ns, progress=progress))
        except OSError as error:
            raise Failed(f"free space cannot be read: {error.filename or replica}: {error.strerror}",
                         mend="mount it, or mend its permissions") from None  # fmt: skip
    _tell(screen, relief)
    return stop.exit_code or _code(relief, strict=screen.strict)


def _code(relief: Relief, *, strict: bool) -> int:
    from prune.cli.exits import BLOCKED, DONE, FAILED, NOT_REACHED, worst

    runs = relief.outcome.runs
    codes = [BLOCKED for run in runs if run.blocked] + [FAILED for run in runs if run.failed]
    codes.append(DONE if relief.reached else NOT_REACHED)
    return worst(codes, attention=bool(relief.attention), strict=strict)


def _tell(screen: Screen, relief: Relief) -> None:
    from prune.report.json import result_to_json
    from prune.report.lines import Cell, line
    from prune.report.outcomes import outcome_report
    from prune.report.render import show
    from prune.report.tables import attention_lines
    from prune.settings.units import format_size

    if screen.json:
        screen.emit(result_to_json(relief.outcome, wanted=relief.wish.bytes, reached=relief.reached))
        return
    wanted = format_size(relief.wish.bytes)
    if relief.reached:
        head = line(Cell("reached", "good"), f": {wanted} are free")
    else:
        head = line(Cell("NOT REACHED", "bad"), f": {format_size(relief.short.bytes)} short of {wanted} free")
    report = [head]
    if relief.outcome.runs:
        report += outcome_report(relief.outcome, verbose=screen.verbose)  # type: ignore[arg-type]
    else:
        report += attention_lines(relief.attention)
    show(list(report), screen)
