"""Runs that have come to their end: no new step for a configured time, and their final policy holds."""

from __future__ import annotations

from prune.evidence import Evidence
from prune.model import RunPlan
from prune.settings.schema import Keep, RunSettings

FINISHED = "finished: "  # what the note begins with that tells so


def rules_in_force(evidence: Evidence) -> Keep:
    """The run's keep rules, or its final ones once it is finished."""
    final = evidence.run.final
    return final if final is not None and finished_for(evidence) is not None else evidence.run.keep


def finished_for(evidence: Evidence) -> int | None:
    """How long ago the last step was written, where that is long enough for the run to count as finished."""
    after, idle = evidence.run.finished_after, idle_for(evidence)
    return idle if after is not None and idle is not None and idle >= after else None


def idle_for(evidence: Evidence) -> int | None:
    """How long nothing was written. None where any time is not known: then it may have been this moment."""
    if evidence.run.final is None or evidence.run.finished_after is None:
        return None
    if any(replica.required and not replica.listed for replica in evidence.replicas):
        return None
    copies = [copy for held in evidence.copies.values() for copy in held.values()]
    times = [evidence.known_written(copy) for copy in copies]
    times += [None if evidence.in_future(t.mtime_ns) else t.mtime_ns for t in evidence.inventory.temporaries]
    known = [time for time in times if time is not None]
    if len(known) < len(times) or not copies:
        return None
    for copy in evidence.copies[evidence.steps[-1]].values():  # a directory's own time may be older than what is in it
        evidence.written(copy)
    return evidence.now_ns - max(known)


def keep_of(plan: RunPlan, run: RunSettings) -> Keep:
    """Which rules a plan was made by."""
    finished = any(note.startswith(FINISHED) for note in plan.notes)
    return run.final if finished and run.final is not None else run.keep
