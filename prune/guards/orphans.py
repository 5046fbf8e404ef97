"""Temporaries: a save in flight, or what a dead writer left."""

from __future__ import annotations

from prune.evidence import Evidence, set_by_somebody
from prune.model import Decision, OrphanPlan, Temporary
from prune.settings.units import format_duration


def orphans(evidence: Evidence, *, blocked: bool) -> tuple[OrphanPlan, ...]:
    """What becomes of each temporary, by replica and path: only those past ``guards.orphans`` go, none when blocked."""
    place = {replica.name: place for place, replica in enumerate(evidence.replicas)}
    found = sorted(evidence.inventory.temporaries, key=lambda t: (place.get(t.replica, len(place)), t.replica, t.path))
    return tuple(_plan(evidence, temporary, blocked=blocked) for temporary in found)


def _plan(evidence: Evidence, temporary: Temporary, *, blocked: bool) -> OrphanPlan:
    why_kept = _spared(evidence, temporary) or (_untouchable(evidence, temporary.replica, blocked=blocked))
    decision, reason = (Decision.DELETE, "orphan") if why_kept is None else (Decision.KEEP, why_kept)
    return OrphanPlan(temporary.replica, temporary.path, temporary.bytes, decision, reason, temporary.identity)


def _spared(evidence: Evidence, temporary: Temporary) -> str | None:
    """Why a temporary may still be somebody's, None when it is old by a time that can be trusted."""
    guards, mtime_ns = evidence.run.guards, temporary.mtime_ns
    if temporary.busy is not None:
        return "busy"
    if mtime_ns is None or not set_by_somebody(mtime_ns):
        return "unknown-mtime"
    age = evidence.now_ns - mtime_ns
    if age < guards.in_flight:
        return "in-flight"
    if age < guards.orphans:
        return f"younger-than-{format_duration(guards.orphans)}"
    return None


def _untouchable(evidence: Evidence, name: str, *, blocked: bool) -> str | None:
    replica = next((replica for replica in evidence.replicas if replica.name == name), None)
    if blocked or replica is None or not replica.listed:
        return "blocked"
    return "read-only" if replica.read_only else None
