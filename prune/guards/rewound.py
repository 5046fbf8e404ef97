"""A run begun anew in a used folder: its numbers no longer tell what is new, so what it writes is held."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from prune.evidence import Evidence
from prune.model import Copy
from prune.retention import Kept


@dataclass(frozen=True, slots=True)
class Rewind:
    """``since_ns`` is to be remembered: all that was written since is held."""

    since_ns: int | None
    held: frozenset[int] = frozenset()


def rewind(evidence: Evidence, kept: Kept, *, last: int) -> Rewind:
    """What is held as rewound, and since when.

    It begins with a step that no rule keeps, written on the primary after every step that one does. It ends when
    ``last`` restorable steps written since stand at or above the cutoff.
    """
    remembered = evidence.inventory.rewound_since_ns
    if kept.cutoff is None or not kept.unwanted:
        return Rewind(remembered)
    if remembered is not None and _caught_up(evidence, kept.cutoff, remembered, last=last):
        remembered = None
    unwanted = frozenset(kept.unwanted)
    written = {copy.step: evidence.known_written(copy) for copy in _primary(evidence) if copy.step in unwanted}
    times = {step: time for step, time in written.items() if time is not None}
    late = _after_all_kept(evidence, unwanted, times)
    since = min(_begins(evidence, unwanted, [times[step] for step in late], remembered), default=None)
    held = {step for step, time in times.items() if step in late or (since is not None and time >= since)}
    return Rewind(since, frozenset(held))


def _primary(evidence: Evidence) -> list[Copy]:
    return evidence.on(evidence.primary)


def _after_all_kept(evidence: Evidence, unwanted: Collection[int], times: dict[int, int]) -> set[int]:
    """Steps written after every kept step whose time can be trusted.

    One kept step that was looked into and is as new says no. Else those that were only listed may be newer than they
    seem, and are leaned on.
    """
    kept_time = _newest_kept(evidence, unwanted)
    late = {step for step, time in times.items() if kept_time is None or time > kept_time}
    if late:
        for copy in _primary(evidence):
            if copy.step in late or copy.step not in unwanted:
                evidence.look_into(copy)
    return late


def _newest_kept(evidence: Evidence, unwanted: Collection[int]) -> int | None:
    kept = (copy for copy in _primary(evidence) if copy.step not in unwanted and copy.measured)
    return max((time for copy in kept if (time := evidence.known_written(copy)) is not None), default=None)


def _begins(evidence: Evidence, unwanted: Collection[int], late: list[int], remembered: int | None) -> list[int]:
    """Times at which a rewind began. Where no kept step has a time, steps are held for now but nothing has begun."""
    begun = [] if remembered is None else [remembered]
    return begun if _newest_kept(evidence, unwanted) is None else [*begun, *late]


def _caught_up(evidence: Evidence, cutoff: int, since_ns: int, *, last: int) -> bool:
    """Whether N restorable steps written since then stand at or above the cutoff."""
    count = 0
    for copy in reversed(_primary(evidence)):
        if copy.step < cutoff or count >= last:
            break
        time = evidence.written(copy)
        count += time is not None and time >= since_ns and evidence.restorable(copy)
    return count >= last
