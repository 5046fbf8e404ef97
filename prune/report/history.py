"""History as JSON and as lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prune.journal.base import Event
from prune.journal.own import MARKS
from prune.report.lines import Cell, Grid, printable
from prune.report.times import iso
from prune.settings.units import format_size

HISTORY_SCHEMA = "prune.history/1"


def event_to_json(event: Event) -> dict[str, Any]:
    return {
        "at": iso(event.at_ns),
        "run": event.run,
        "kind": event.kind,
        "step": event.step,
        "replica": event.replica,
        "plan": event.plan,
        "data": dict(event.data),
    }


def history_grid(events: Iterable[Event]) -> Grid:
    """One event a row, newest first."""
    grid = Grid(("when", "run", "what", "step", "replica", "plan", "detail"), right=frozenset({"step"}))
    for event in events:
        grid.rows.append(
            (
                Cell(iso(event.at_ns) or "?", "dim"),
                Cell(printable(event.run)),
                Cell(event.kind, "bad" if event.kind in ("failed", "damage", "blocked") else ""),
                Cell("" if event.step is None else str(event.step)),
                Cell(event.replica or ""),
                Cell(event.plan or "", "dim"),
                Cell(printable(event_detail(event))),
            )
        )
    return grid


def event_detail(event: Event) -> str:
    """What an event's data say, as words."""
    parts = []
    for key, value in event.data.items():
        if value in (None, "", [], 0) or key in ("purged", "ok", "files", *MARKS):
            continue
        if key == "bytes" and isinstance(value, int):
            parts.append(format_size(value))
        elif key in ("why", "error", "detail"):
            parts.append(str(value))
        elif key == "paths" and isinstance(value, list):
            parts.append(", ".join(map(str, value[:3])) + (", …" if len(value) > 3 else ""))
        else:
            parts.append(f"{key} {value}")
    if event.kind == "deleted" and event.data.get("purged") is False:
        parts.append("in the trash")
    return "; ".join(parts)
