"""The policy: what is in force, as a mapping for reports, and as one sentence for people."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prune.planner.words import count
from prune.settings.schema import Keep
from prune.settings.units import format_duration


def in_force(keep: Keep, keep_last: int | None = None) -> Keep:
    """The policy with N lowered to ``keep_last``, never raised and never below one."""
    last = keep.last if keep_last is None else min(keep.last, keep_last)
    return replace(keep, last=max(1, last))


def as_mapping(keep: Keep) -> dict[str, Any]:
    """The rules that are set, by the names and in the spelling of the configuration."""
    found: dict[str, Any] = {"last": keep.last, "every": keep.every}
    found["every_time"] = None if keep.every_time is None else format_duration(keep.every_time)
    found["within"] = None if keep.within is None else format_duration(keep.within)
    found |= {"hourly": keep.hourly, "daily": keep.daily, "weekly": keep.weekly}
    if keep.best is not None:
        found["best"] = {"metric": keep.best.metric, "mode": keep.best.mode, "count": keep.best.count}
    found["full"] = keep.full
    return {name: value for name, value in found.items() if value is not None}


def describe(keep: Keep) -> str:
    """The policy in one sentence."""
    parts = [f"the newest {keep.last} that restore on every required replica"]
    if keep.every is not None:
        parts.append(f"every multiple of {keep.every}")
    if keep.every_time is not None:
        parts.append(f"the oldest of each {format_duration(keep.every_time)}")
    if keep.within is not None:
        parts.append(f"all saved within {format_duration(keep.within)} of the newest that restores")
    for period, number in (("hour", keep.hourly), ("day", keep.daily), ("week", keep.weekly)):
        if number is not None:
            each = f"the newest {period}" if number == 1 else f"each of the newest {count(number, period)}"
            parts.append(f"the oldest of {each}")
    if keep.best is not None:
        extreme = "lowest" if keep.best.mode == "min" else "highest"
        parts.append(f"the {keep.best.count} with the {extreme} {keep.best.metric}")
    kept = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    thinned = "" if keep.full is None else f"; only the newest {keep.full} keep more than weights"
    return f"Keeps {kept}{thinned}."
