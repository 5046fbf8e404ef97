"""Keep rules: what each names is kept, and the union of them stays. One small class a rule, no clock, no disk."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from prune.evidence import Evidence, known_to_differ
from prune.settings.schema import DAY, HOUR, WEEK, Best, Keep


class Rule(Protocol):
    """One keep rule; ``reason`` is the word that a kept step shows for it."""

    @property
    def reason(self) -> str: ...

    def keeps(self, evidence: Evidence) -> Collection[int]:
        """The steps that the rule wants, whatever other rules say."""
        ...


@dataclass(frozen=True, slots=True)
class Every:
    """Multiples of ``stride``, whatever their health: a number is wanted for what it is."""

    stride: int
    reason: str = "every"

    def keeps(self, evidence: Evidence) -> Collection[int]:
        return {step for step in evidence.steps if step % self.stride == 0}


@dataclass(frozen=True, slots=True)
class Ladder:
    """The oldest aligned step of each fixed stretch of time; with ``count``, of the newest that many stretches.

    A stretch without an aligned step keeps the oldest that restores anywhere, or else all it has, and takes no place
    in the count: what failed or was not mirrored must not push out what was. What could not be looked at stays where
    it would have been chosen.
    """

    reason: str
    period: int  # nanoseconds
    count: int | None = None

    def keeps(self, evidence: Evidence) -> Collection[int]:
        stretches: dict[int, list[int]] = {}
        for step, time in evidence.times(evidence.steps).items():
            stretches.setdefault(time // self.period, []).append(step)
        kept: set[int] = set()
        places = math.inf if self.count is None else self.count
        for stretch in sorted(stretches, reverse=True):
            if places < 1:
                break
            aligned = _oldest_aligned(evidence, stretches[stretch])
            chosen = _second_best(evidence, stretches[stretch]) if aligned is None else [aligned]
            kept.update(chosen, _doubtful_before(evidence, stretches[stretch], chosen[0]))
            places -= aligned is not None
        return kept


def _oldest_aligned(evidence: Evidence, steps: list[int]) -> int | None:
    return next((step for step in steps if evidence.aligned(step)), None)


def _doubtful_before(evidence: Evidence, steps: list[int], chosen: int) -> list[int]:
    return [step for step in steps[: steps.index(chosen)] if evidence.doubtful(step)]


def _second_best(evidence: Evidence, steps: list[int]) -> list[int]:
    restorable = next((step for step in steps if evidence.restorable_anywhere(step)), None)
    return steps if restorable is None else [restorable]


@dataclass(frozen=True, slots=True)
class Within:
    """What was saved at most ``length`` nanoseconds before the newest restorable step.

    It counts from that step and not from now, so that a run that stopped loses nothing by waiting. Where that
    step's time is unknown the window has no end, and all stays.
    """

    length: int
    reason: str = "within"

    def keeps(self, evidence: Evidence) -> Collection[int]:
        newest = evidence.candidate
        end = evidence.time(newest.step) if newest is not None else None
        if end is None:
            return evidence.steps
        return {step for step, time in evidence.times(evidence.steps).items() if time >= end - self.length}


@dataclass(frozen=True, slots=True)
class BestBy:
    """The best restorable steps by a metric; ties to the newer, and what is no finite number is never best.

    Where no step has the metric at all (a misspelt name, no evaluation yet) nobody can tell which is best, and all
    stay until it is known. A better one that could not be looked at stays beside them.
    """

    best: Best
    reason: str = "best"

    def keeps(self, evidence: Evidence) -> Collection[int]:
        if not self.known(evidence):
            return evidence.steps
        chosen: list[int] = []
        doubtful: list[int] = []
        for step in self._ranked(evidence):
            if len(chosen) >= self.best.count:
                break
            if evidence.restorable_anywhere(step):
                chosen.append(step)
            elif evidence.doubtful(step):
                doubtful.append(step)
        return [*chosen, *doubtful]

    def known(self, evidence: Evidence) -> bool:
        """Whether any step has the metric."""
        metrics = evidence.inventory.metrics
        return any(self.best.metric in metrics.get(step, {}) for step in evidence.steps)

    def _ranked(self, evidence: Evidence) -> Iterator[int]:
        values = {
            step: _number(evidence.inventory.metrics.get(step, {}).get(self.best.metric)) for step in evidence.steps
        }
        sign = -1 if self.best.mode == "max" else 1
        scores = [(sign * value, -step) for step, value in values.items() if value is not None]
        return (-newer for _, newer in sorted(scores))


def _number(value: object) -> float | None:
    """A finite number, or None; ``math.isfinite`` alone would refuse whole numbers too large for a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def rules(keep: Keep) -> tuple[Rule, ...]:
    """The rules that add to the newest N, in the order in which a step shows its reasons."""
    found: list[Rule] = []
    if keep.every is not None and keep.every > 0:
        found.append(Every(keep.every))
    if keep.every_time is not None and keep.every_time > 0:
        found.append(Ladder("every-time", keep.every_time))
    if keep.within is not None:
        found.append(Within(keep.within))
    for reason, period, count in (
        ("hourly", HOUR, keep.hourly),
        ("daily", DAY, keep.daily),
        ("weekly", WEEK, keep.weekly),
    ):
        if count is not None:
            found.append(Ladder(reason, period, count))
    if keep.best is not None:
        found.append(BestBy(keep.best))
    return tuple(found)


def goes_by_time(keep: Keep) -> bool:
    """Whether any rule needs to know when a step was saved."""
    return any(value is not None for value in (keep.every_time, keep.within, keep.hourly, keep.daily, keep.weekly))


@dataclass(frozen=True, slots=True)
class CountBack:
    """Aligned steps from the newest down, until N of them stand."""

    counted: tuple[int, ...]  # newest first
    complete: bool

    @property
    def cutoff(self) -> int | None:
        """The N-th newest aligned step, None with fewer than N."""
        return self.counted[-1] if self.complete else None


def count_back(evidence: Evidence, keep: Keep) -> CountBack:
    """Finds the cutoff.

    Weights alone do not bring a run back, so they do not count: but for thinned ones where thinning was asked for
    (``keep.full`` of the N must then be full), and where a run has nothing else.
    """
    full_needed = keep.last if keep.full is None else max(1, min(keep.full, keep.last))
    counted: list[int] = []
    weights: list[int] = []
    full = 0
    for step in reversed(evidence.steps):
        if not evidence.aligned(step):
            continue
        is_full = evidence.full(step)
        full += is_full
        (counted if is_full or keep.full is not None else weights).append(step)
        if len(counted) >= keep.last and full >= full_needed:
            return CountBack(tuple(counted), complete=True)
    if not full and not evidence.anything_full:
        counted = sorted({*counted, *weights}, reverse=True)[: keep.last]
        return CountBack(tuple(counted), complete=len(counted) >= keep.last)
    return CountBack(tuple(counted), complete=False)


def floor(evidence: Evidence, keep: Keep) -> dict[str, set[int]]:
    """What each optional mirror's own N newest restorable steps are.

    Required replicas need no floor of their own: the N aligned steps at or above the cutoff restore on each of them.
    """
    return {name: _newest_of(evidence, name, keep) for name in evidence.optional}


def _newest_of(evidence: Evidence, replica: str, keep: Keep) -> set[int]:
    full_needed = keep.last if keep.full is None else max(1, min(keep.full, keep.last))
    newest: list[int] = []
    full: list[int] = []
    for copy in reversed(evidence.on(replica)):
        if len(newest) >= keep.last and len(full) >= full_needed:
            break
        if evidence.restorable(copy):
            newest.append(copy.step)
            full += [] if copy.weights_only else [copy.step]
    return {*newest[: keep.last], *full[:full_needed]}


@dataclass(frozen=True, slots=True)
class Kept:
    """What the policy keeps. Steps that stand in ``reasons`` with none are those it would delete."""

    cutoff: int | None
    counted: tuple[int, ...]  # the aligned steps that count, newest first
    reasons: Mapping[int, tuple[str, ...]]  # every step, ascending
    floor: Mapping[str, frozenset[int]]  # replica -> steps that only its floor keeps

    @property
    def unwanted(self) -> tuple[int, ...]:
        """Steps that no rule keeps, ascending."""
        return tuple(step for step, reasons in self.reasons.items() if not reasons)


def kept(evidence: Evidence, keep: Keep) -> Kept:
    """Applies the policy to a run: nothing is deleted with N steps or fewer, nor with fewer than N aligned."""
    if len(evidence.steps) <= keep.last:
        return _everything(evidence, keep, _presumed(evidence, keep))
    back = count_back(evidence, keep)
    if back.cutoff is None:
        return _everything(evidence, keep, back)
    named: dict[str, Collection[int]] = {
        "last": set(back.counted),
        "newer-than-cutoff": {step for step in evidence.steps if step >= back.cutoff} - set(back.counted),
    }
    for rule in rules(keep):
        named[rule.reason] = set(rule.keeps(evidence))
    below = {step for step in evidence.steps if step < back.cutoff}
    floors = {name: steps & below for name, steps in floor(evidence, keep).items()}
    named["floor"] = set().union(*floors.values())
    reasons = _reasons(evidence, named)
    alone = {name: frozenset(s for s in steps if reasons[s] == ("floor",)) for name, steps in floors.items()}
    return Kept(back.cutoff, back.counted, reasons, alone)


def _presumed(evidence: Evidence, keep: Keep) -> CountBack:
    """The count where N steps or fewer stand: nothing can go, so what nobody judged is not asked for, but believed."""
    believed = [step for step in reversed(evidence.steps) if _may_be_aligned(evidence, step)]
    return CountBack(tuple(believed), complete=len(believed) >= keep.last)


def _may_be_aligned(evidence: Evidence, step: int) -> bool:
    held = evidence.copies[step]
    copies = [held.get(name) for name in evidence.required]
    if not copies or not all(copy is not None and (copy.health is None or copy.health.restorable) for copy in copies):
        return False
    return not any(known_to_differ(copies[0], other) for other in copies[1:] if copies[0] and other)


def _everything(evidence: Evidence, keep: Keep, back: CountBack) -> Kept:
    """All steps stay, so only the reasons that cost nothing to know are shown."""
    rest = "fewer-than-last" if back.cutoff is None else "newer-than-cutoff"
    named: dict[str, Collection[int]] = {"last": set(back.counted)}
    named[rest] = set(evidence.steps) if back.cutoff is None else set(evidence.steps) - set(back.counted)
    if keep.every is not None and keep.every > 0:
        named["every"] = Every(keep.every).keeps(evidence)
    return Kept(back.cutoff, back.counted, _reasons(evidence, named), {})


def _reasons(evidence: Evidence, named: Mapping[str, Collection[int]]) -> dict[int, tuple[str, ...]]:
    return {step: tuple(reason for reason, steps in named.items() if step in steps) for step in evidence.steps}
