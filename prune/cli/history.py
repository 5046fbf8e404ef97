"""`prune history`: what was deleted, when, by which plan, why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen

if TYPE_CHECKING:
    from prune.journal import Event, Journal

_DELETIONS = ("deleted", "gone", "failed", "purged", "back", "undone")


@verb("history")
@on_runs
@click.option("--step", help="Only this step.")
@click.option("--plan", "plan_id", metavar="PLAN-ID", help="Only what this plan did.")
@click.option("--all", "everything", is_flag=True, help="Passes, pins and findings too, not only deletions.")
@click.option("--limit", type=click.IntRange(1, 10**9), default=100, show_default=True, help="The newest so many.")
def command(screen: Screen, chosen: Chosen, step: str | None, plan_id: str | None, everything: bool, limit: int) -> int:
    """What was deleted, when, by which plan, and why. Needs no configuration. Changes nothing."""
    from prune.cli.arguments import step_argument
    from prune.journal import open_journal
    from prune.report.history import HISTORY_SCHEMA, event_to_json, history_grid
    from prune.report.lines import line
    from prune.report.render import show

    number = None if step is None else step_argument(step)
    state, names = chosen.state_and_names()
    journal = open_journal(state, write=False)
    events = _events(journal, names, number, () if everything else _DELETIONS, limit if plan_id is None else None)
    events = [event for event in events if plan_id is None or event.plan == plan_id][:limit]
    broken, trouble = journal.broken_link(), journal.trouble
    journal.close()
    if trouble:
        screen.warn(f"prune: history cannot be read: {trouble}")
    if broken:
        screen.warn(f"prune: history was edited: {broken}")
    if screen.json:
        screen.emit({"schema": HISTORY_SCHEMA, "events": [event_to_json(e) for e in events], "broken": broken})
    elif events:
        show([history_grid(events)], screen)
    else:
        show([line(f"nothing is on record in {journal.where}")], screen)
    from prune.cli.exits import FAILED, worst

    return FAILED if trouble else worst((), attention=broken is not None, strict=screen.strict)


def _events(
    journal: Journal, names: tuple[str, ...], step: int | None, kinds: tuple[str, ...], limit: int | None
) -> list[Event]:
    if not names:
        return journal.history(step=step, kinds=kinds, limit=limit)
    found = [event for name in names for event in journal.history(name, step=step, kinds=kinds, limit=limit)]
    return sorted(found, key=lambda event: event.at_ns, reverse=True)
