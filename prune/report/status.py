"""The state of a run as JSON and as lines: what stands where, how long the room lasts, what happened last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prune.forecast import Forecast, forecast, recent_saves
from prune.journal.base import Journal
from prune.journal.own import of_one_run
from prune.model import RunPlan
from prune.report.json import attention_to_json, block_to_json, bytes_to_free, candidate_to_json, replica_to_json
from prune.report.lines import Cell, Line, Report, line, listed, printable
from prune.report.tables import attention_lines
from prune.report.times import ago, iso
from prune.report.why import why_nothing_freed
from prune.settings.schema import SECOND
from prune.settings.units import format_duration, format_size

STATUS_SCHEMA = "prune.status/1"


@dataclass(frozen=True, slots=True)
class Standing:
    """One run as it stands now."""

    plan: RunPlan
    health: Mapping[str, Mapping[str, int]]  # replica -> health -> copies
    forecasts: Mapping[str, Forecast]
    last_success_ns: int | None
    last_delete_ns: int | None


def standing(plan: RunPlan, journal: Journal, now_ns: int) -> Standing:
    """What a plan and the history tell of a run."""
    primary = plan.replicas[0]
    passes = of_one_run(journal.history(plan.run, kinds=("pass",), limit=200), primary.root, primary.identity)
    deleted = of_one_run(journal.history(plan.run, kinds=("deleted",), limit=200), primary.root, primary.identity)
    return Standing(
        plan,
        health_counts(plan),
        {
            replica.name: forecast(recent_saves(plan, replica.name), free_bytes=replica.free_bytes, now_ns=now_ns)
            for replica in plan.replicas
        },
        next((event.at_ns for event in passes if event.data.get("ok")), None),
        deleted[0].at_ns if deleted else None,
    )


def health_counts(plan: RunPlan) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {replica.name: Counter() for replica in plan.replicas}
    for copy in (copy for step in plan.steps for copy in step.copies):
        counts.setdefault(copy.replica, Counter())[copy.health.value if copy.health else "unverified"] += 1
    return {replica: dict(count) for replica, count in counts.items()}


def status_to_json(now: Standing) -> dict[str, Any]:
    """One run of ``prune.status/1``; the forecast is the primary's, and ``forecasts`` holds every replica's."""
    plan = now.plan
    forecasts = {name: _forecast_to_json(found) for name, found in now.forecasts.items()}
    return {
        "run": plan.run,
        "layout": plan.layout,
        "replicas": [replica_to_json(replica) for replica in plan.replicas],
        "steps": {replica: dict(counts) for replica, counts in now.health.items()},
        "resume_candidate": candidate_to_json(plan.resume_candidate),
        "forecast": forecasts[plan.replicas[0].name],
        "forecasts": forecasts,
        "last_success": iso(now.last_success_ns),
        "last_delete": iso(now.last_delete_ns),
        "why_nothing_freed": why_nothing_freed(plan),
        "bytes_to_free": bytes_to_free(plan),
        "blocks": [block_to_json(block) for block in plan.blocks],
        "attention": attention_to_json(plan.attention),
    }


def status_report(now: Standing, now_ns: int) -> Report:
    plan = now.plan
    report: Report = [line(Cell(printable(plan.run), "strong"), f" ({plan.layout})")]
    report += [
        line(Cell("BLOCKED ", "bad"), f"{block.block}: {printable(block.detail)}", indent=2) for block in plan.blocks
    ]
    report += attention_lines(plan.attention)
    report.append(_candidate(plan))
    report += [_replica(now, replica.name) for replica in plan.replicas]
    report.append(_history(now, now_ns))
    report.append(_what_goes(plan))
    return report


def _forecast_to_json(found: Forecast) -> dict[str, Any]:
    return {
        "next_save_bytes": found.next_save_bytes,
        "next_save_at": iso(found.next_save_at_ns),
        "seconds_to_full": found.seconds_to_full,
    }


def _candidate(plan: RunPlan) -> Line:
    if plan.resume_candidate is None:
        return line("nothing to resume from", indent=2)
    found = plan.resume_candidate
    return line(f"training would resume from step {found.step}: {printable(found.path)} ({found.replica})", indent=2)


def _replica(now: Standing, name: str) -> Line:
    replica = next(replica for replica in now.plan.replicas if replica.name == name)
    counts = now.health.get(name, {})
    steps = ", ".join(f"{count} {health}" for health, count in counts.items()) or "no steps"
    room = f"{format_size(replica.free_bytes)} free" if replica.free_bytes is not None else "free space not known"
    trash = f", {format_size(replica.trash_bytes)} in the trash" if replica.trash_bytes else ""
    return line(f"{name} {printable(replica.root)}: {steps}; {room}{trash}{_foretold(now.forecasts[name])}", indent=2)


def _foretold(found: Forecast) -> str:
    if found.next_save_bytes is None:
        return ""
    words = f"; the next save takes about {format_size(found.next_save_bytes)}"
    if not found.next_save_fits:
        return f"{words} and does not fit"
    if found.seconds_to_full is not None:
        words += f", full in {format_duration(int(found.seconds_to_full) * SECOND)} if nothing is deleted"
    return words


def _history(now: Standing, now_ns: int) -> Line:
    good = ago(now.last_success_ns, now_ns) if now.last_success_ns else "never"
    gone = ago(now.last_delete_ns, now_ns) if now.last_delete_ns else "never"
    return line(f"last good pass {good}, last delete {gone}", indent=2)


def _what_goes(plan: RunPlan) -> Line:
    why = why_nothing_freed(plan)
    if why is not None:
        return line(f"nothing is freed: {printable(why)}", indent=2)
    freed = listed([f"{format_size(size)} on {name}" for name, size in bytes_to_free(plan).items()])
    count = len(plan.victims)
    return line(f"policy would delete {count} step{'s' if count > 1 else ''} and free {freed}: `prune apply`", indent=2)
