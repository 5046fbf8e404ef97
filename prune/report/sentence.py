"""A policy says itself in one sentence, and every report begins with it."""

from __future__ import annotations

from collections.abc import Sequence

from prune.model import Replica
from prune.report.lines import listed
from prune.settings.schema import Best, Keep
from prune.settings.units import format_duration


def policy_sentence(keep: Keep, replicas: Sequence[Replica]) -> str:
    """``keep the last 12 steps aligned on primary and mirror, and multiples of 1000; delete the rest on all``."""
    required = [replica.name for replica in replicas if replica.required]
    restoring = " that restores" if keep.last == 1 else " that restore"
    aligned = f" aligned on {listed(required)}" if len(required) > 1 else restoring
    rules = [f"the last {_steps(keep.last) if keep.last > 1 else 'step'}{aligned}", *_more_rules(keep)]
    everywhere = " on every replica" if len(replicas) > 1 else ""
    return f"keep {listed(rules)}; delete the rest{everywhere}"


def _more_rules(keep: Keep) -> list[str]:
    rules = []
    if keep.every:
        rules.append(f"every multiple of {keep.every}")
    if keep.every_time:
        rules.append(f"one step per {format_duration(keep.every_time)}")
    if keep.within:
        rules.append(f"all within {format_duration(keep.within)} of the newest")
    for count, unit in ((keep.hourly, "hour"), (keep.daily, "day"), (keep.weekly, "week")):
        if count:
            rules.append(f"one step of each of {count} {unit}{'s' if count > 1 else ''}")
    if keep.best:
        rules.append(_best(keep.best))
    if keep.full:
        rules.append(f"of steps older than the newest {keep.full} only the weights")
    return rules


def _best(best: Best) -> str:
    order = "lowest" if best.mode == "min" else "highest"
    return f"the {_steps(best.count)} of {order} {best.metric}" if best.count > 1 else f"the {order} {best.metric}"


def _steps(count: int) -> str:
    return f"{count} step{'s' if count > 1 else ''}"
