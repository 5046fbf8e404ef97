"""Everything known about one step, also after it is gone, as JSON and as lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prune.control.tombstones import Tombstone
from prune.journal.base import Event
from prune.model import Copy, RunPlan, StepPlan
from prune.report.history import event_detail, event_to_json
from prune.report.json import guard_to_json, step_to_json
from prune.report.lines import Cell, Line, Report, line, printable
from prune.report.times import ago, iso
from prune.settings.units import format_size

EXPLAIN_SCHEMA = "prune.explain/1"


@dataclass(frozen=True, slots=True)
class Explained:
    """What one run knows of a step."""

    step: int
    plan: RunPlan
    tombstones: tuple[tuple[str, Tombstone], ...]  # by replica
    events: Sequence[Event]  # newest first

    @property
    def here(self) -> StepPlan | None:
        return next((step for step in self.plan.steps if step.step == self.step), None)

    @property
    def known(self) -> bool:
        return bool(self.here or self.tombstones or self.events)


def explained_to_json(found: Explained) -> dict[str, Any]:
    here = found.here
    candidate = found.plan.resume_candidate
    return {
        "run": found.plan.run,
        "here": here is not None,
        "decision": here.decision.value if here else None,
        "reasons": list(here.reasons) if here else [],
        "guards": [guard_to_json(guard) for guard in here.guards] if here else [],
        "copies": step_to_json(here)["copies"] if here else [],
        "resume_candidate": candidate is not None and candidate.step == found.step,
        "cutoff": found.plan.cutoff,
        "tombstones": [
            {
                "replica": replica,
                "name": stone.name,
                "size": stone.size,
                "mtime": iso(stone.mtime_ns),
                "parts": list(stone.parts),
            }
            for replica, stone in found.tombstones
        ],
        "history": [event_to_json(event) for event in found.events],
    }


def explained_report(found: Explained, now_ns: int) -> Report:
    report: Report = [_headline(found)]
    here = found.here
    if here is not None:
        report += [_copy(found, copy, now_ns) for copy in here.copies]
        missing = [r.name for r in found.plan.replicas if all(copy.replica != r.name for copy in here.copies)]
        report += [line(Cell("missing ", "warn"), f"on {name}", indent=2) for name in missing]
        report += [
            line(Cell(f"{guard.guard} ", "warn"), _on(guard.replica) + printable(guard.detail), indent=2)
            for guard in here.guards
        ]
    report += [
        line(f"{_what_happened(stone, replica)}, {format_size(stone.size)}", indent=2)
        for replica, stone in found.tombstones
    ]
    report += [_event(event, now_ns) for event in found.events]
    return report


def _headline(found: Explained) -> Line:
    who = (Cell(printable(found.plan.run), "strong"), f": step {found.step} ")
    here = found.here
    if here is None:
        return line(*who, "is gone" if found.known else "was never seen here")
    candidate = found.plan.resume_candidate
    resumes = ", and training would resume from it" if candidate and candidate.step == found.step else ""
    why = f" ({', '.join(here.reasons)})" if here.reasons else ""
    cutoff = f"; the cutoff is step {found.plan.cutoff}" if found.plan.cutoff is not None else ""
    words = {"keep": "stays", "delete": "would be deleted", "guarded": "would go, but guards hold it"}
    return line(*who, f"{words[here.decision.value]}{why}{resumes}{cutoff}")


def _what_happened(stone: Tombstone, replica: str) -> str:
    if stone.parts:
        return f"was thinned on {replica} of {printable(', '.join(stone.parts))}"
    return f"was pruned from {replica}: {printable(stone.name)}"


def _copy(found: Explained, copy: Copy, now_ns: int) -> Line:
    size = f", {format_size(copy.size)}" if copy.size is not None else ""
    files = f" in {copy.files} files" if copy.files and copy.files > 1 else ""
    health = copy.health.value if copy.health else "not looked at"
    health += ", weights only: no resume candidate" if copy.weights_only else ""
    detail = f": {copy.detail}" if copy.detail else ""
    paths = ", ".join(printable(path) for path in copy.paths[:3]) + (", …" if len(copy.paths) > 3 else "")
    written = f", written {ago(copy.mtime_ns, now_ns)}"
    return line(f"{copy.replica}: {paths}{size}{files}{written}: {health}{printable(detail)}", indent=2)


def _event(event: Event, now_ns: int) -> Line:
    by = f" by plan {event.plan}" if event.plan else ""
    on = f" on {event.replica}" if event.replica else ""
    detail = f" ({printable(event_detail(event))})" if event.data else ""
    return line(Cell(f"{iso(event.at_ns)} ", "dim"), f"{event.kind}{on}{by}{detail}", indent=2)


def _on(replica: str | None) -> str:
    return f"({replica}) " if replica else ""
