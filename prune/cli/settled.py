"""What `undo` and `purge` have in common: run by run, told copy by copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prune.cli.exits import BLOCKED, FAILED, worst
from prune.cli.output import Screen
from prune.errors import Blocked

if TYPE_CHECKING:
    from prune.deletion.undo import Settled
    from prune.journal import Journal
    from prune.settings.schema import RunSettings, Settings


def settle(
    screen: Screen, settings: Settings, act: Callable[[RunSettings, Journal], Settled], *, schema: str, word: str
) -> tuple[int, int]:
    """Acts on every run and tells it; returns how many copies were ``word`` and the exit code.

    One run's trouble never stops another's.
    """
    from prune.journal import open_journal
    from prune.report.lines import printable

    journal = open_journal(settings.state, write=True)
    codes, documents, count = [0], [], 0
    for run in settings.runs:
        document: dict[str, Any] = {"run": run.name, "blocked": None, word: [], "failed": []}
        try:
            done = act(run, journal)
        except Blocked as error:
            screen.warn(f"prune: {printable(f'{run.name}: blocked: {error}')}")
            document["blocked"] = {"block": error.block, "replica": error.replica, "detail": str(error)}
            codes.append(BLOCKED)
        else:
            document[word] = [{"step": s, "replica": r, "bytes": b} for s, r, b in done.done]
            document["failed"] = [{"step": s, "replica": r, "error": e} for s, r, e in done.failed]
            document["away"] = [{"replica": r, "detail": detail} for r, detail in done.away]
            count += len(done.done)
            codes += [FAILED] * bool(done.failed)
            _tell(screen, run.name, done, word)
        documents.append(document)
    journal.close()
    if screen.json:
        screen.emit({"schema": schema, "runs": documents})
    return count, worst(codes)


def _tell(screen: Screen, run: str, done: Settled, word: str) -> None:
    from prune.report.lines import printable
    from prune.report.outcomes import count
    from prune.settings.units import format_size

    for replica, why in done.away:
        screen.warn(f"prune: {printable(f'{run}: the trash of {replica} was left as it is: {why}')}")
    for step, replica, error in done.failed:
        screen.warn(f"prune: {printable(f'{run}: step {step} on {replica}: {error}')}")
    if done.done and not screen.quiet:
        steps = sorted({step for step, _, _ in done.done})
        size = format_size(sum(size for _, _, size in done.done))
        shown = ", ".join(map(str, steps[:12])) + (", …" if len(steps) > 12 else "")
        copies = count(len(done.done), "copy", "copies")
        screen.say(f"{run}: {word} {copies} of {count(len(steps), 'step')} ({size}): {shown}")
