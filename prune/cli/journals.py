"""One line into the journal, for commands that do one thing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from prune.cli.output import Screen


def remember(
    screen: Screen,
    state: str | None,
    run: str,
    kind: str,
    *,
    step: int | None = None,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Notes what a person did. A journal that cannot be written stops nothing, and is told."""
    from prune.journal import Event, open_journal

    journal = open_journal(state, write=True)
    journal.add([Event(time.time_ns(), run, kind, step, data=dict(data or {}))])
    if journal.trouble:
        screen.warn(f"prune: history cannot be kept: {journal.trouble}")
    journal.close()
