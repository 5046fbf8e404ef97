"""Why nothing is freed, in one line: a pruner that frees nothing must say so, or it will be turned off."""

from __future__ import annotations

from collections import Counter

from prune.model import Decision, RunPlan
from prune.report.lines import listed


def why_nothing_freed(run: RunPlan) -> str | None:
    """The reason why this plan deletes no step; None when it deletes some."""
    if run.blocks:
        on = f" on {run.blocks[0].replica}" if run.blocks[0].replica else ""
        return f"blocked by {run.blocks[0].block}{on}: {run.blocks[0].detail}"
    if run.victims:
        return None
    if not run.steps:
        return "there is no checkpoint yet"
    held = [step for step in run.steps if step.decision is Decision.GUARDED]
    if held:
        guards = Counter(guard for step in held for guard in {hold.guard for hold in step.guards})
        words = listed([f"{guard} ({count})" for guard, count in guards.most_common()])
        return f"guards hold all {len(held)} steps that policy would delete: {words}"
    if run.cutoff is None:
        last = run.keep.get("last", 12)
        return f"fewer than {last} steps are aligned, so none may go"
    return f"the policy wants all {len(run.steps)} steps"
