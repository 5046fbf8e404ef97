"""Whether the daemon is doing its work: every run has had a good pass not too long ago."""

from __future__ import annotations

from dataclasses import dataclass, replace

from prune.service.board import RunView
from prune.service.schedule import gap_of
from prune.settings.schema import MINUTE, Service
from prune.settings.units import format_duration

MISSED_TICKS = 3


@dataclass(frozen=True, slots=True)
class Health:
    """``reasons`` is empty when all is well; the worst first, one sentence a run."""

    reasons: tuple[str, ...]
    late_runs: int = 0

    @property
    def well(self) -> bool:
        return not self.reasons


def allowed_ns(service: Service, *, now_ns: int) -> int:
    """How old the last good pass of a run may be: as set, else three ticks."""
    if service.unhealthy_after is not None:
        return service.unhealthy_after
    return MISSED_TICKS * gap_of(service.schedule, service.timezone, now_ns=now_ns) + MINUTE


def health_of(views: list[RunView], *, allowed_ns: int, started_ns: int, now_ns: int) -> Health:
    """A run is late by its last good pass, or by the daemon's start where it has had none yet."""
    late: list[tuple[int, str]] = []
    for view in views:
        if (view.last_success_ns or 0) > now_ns:  # noted by a clock that was set back since: it tells nothing
            view = replace(view, last_success_ns=None)
        age = now_ns - (started_ns if view.last_success_ns is None else view.last_success_ns)
        if age > allowed_ns:
            late.append((age, _sentence(view, age)))
    late.sort(reverse=True)
    return Health(tuple(sentence for _, sentence in late[:20]), len(late))


def _sentence(view: RunView, age: int) -> str:
    last = f"the last good pass ended {format_duration(age)} ago" if view.last_success_ns else "no good pass yet"
    if view.error is not None:
        return f"{view.run}: {last}: {view.error}"
    if view.blocks:
        block = view.blocks[0]
        where = f" on {block.replica}" if block.replica else ""
        return f"{view.run}: {last}: {block.block}{where}: {block.detail}"
    if view.outcome is not None and view.outcome.failed:
        return f"{view.run}: {last}: step {view.outcome.failed[0].step}: {view.outcome.failed[0].error}"
    return f"{view.run}: {last}"
