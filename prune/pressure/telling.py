"""What to say when room could not be made: what is missing, why each survivor stayed, what mends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prune.model import Attention, Decision, RunPlan, StepPlan
from prune.pressure.gate import NoGain
from prune.pressure.marks import Wish
from prune.settings.schema import RunSettings
from prune.settings.units import format_size


def no_gain(found: NoGain, replica: str) -> Attention:
    """A step went and nothing came of it."""
    what = f"step {found.step}" if found.together == 1 else f"{found.together} steps up to {found.step}"
    why = "other links hold its files" if found.linked else f"expected {format_size(found.expected)}"
    return Attention(
        "no-gain",
        replica,
        f"{what}: {why}, gained {format_size(found.gained)}; nothing more is deleted for room",
        "snapshots, hard links or open files? free what holds the space",
    )


def shortfall(run: RunSettings, replica: str, left: RunPlan, *, wish: Wish, short: Wish) -> Attention:
    """The wish is not met, with all that may go gone; ``left`` is the plan of what stays."""
    missing = [f"{format_size(short.bytes)} short of {format_size(wish.bytes)} free"] if short.bytes else []
    missing += [f"{short.inodes} inodes short of {wish.inodes}"] if short.inodes else []
    detail = f"{' and '.join(missing)}; what is left stays: {why_it_stays(left) or 'nothing is left'}"
    return Attention("target-not-reached", replica, detail, _mend(run, left))


def foreign_data(replica: str, share: float) -> Attention:
    """Others fill the volume."""
    return Attention(
        "foreign-data",
        replica,
        f"checkpoints are {share:.0%} of what is used on this volume; none that policy keeps is given up for the rest",
        "make room among the other data there",
    )


def why_it_stays(plan: RunPlan) -> str:
    """Why each checkpoint that is left stays, grouped: ``12 last, 3 daily; 400 pinned (paper)``."""
    if plan.blocked is not None:
        return f"all of it, blocked: {plan.blocked.block}: {plan.blocked.detail}"
    reasons = Counter(step.reasons[0] if step.reasons else "policy" for step in _of(plan, Decision.KEEP))
    kept = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    held = [f"{step.step} {step.guards[0].guard} ({step.guards[0].detail})" for step in _of(plan, Decision.GUARDED)]
    more = f" and {len(held) - 8} more" if len(held) > 8 else ""
    return "; ".join(part for part in (kept, ", ".join(held[:8]) + more) if part)


def _of(plan: RunPlan, decision: Decision) -> Iterator[StepPlan]:
    return (step for step in plan.steps if step.decision is decision)


def _mend(run: RunSettings, left: RunPlan) -> str:
    if left.blocked is not None:
        return "end what blocks it, or add room"
    held = "let go of what guards hold, " if any(_of(left, Decision.GUARDED)) else ""
    if run.pressure.keep_last is None or run.pressure.keep_last >= run.keep.last:
        return f"{held}lower keep.last ({run.keep.last}), allow fewer under pressure (pressure.keep_last), or add room"
    return f"{held}lower pressure.keep_last, or add room"
