"""Who may keep how much, where runs share a budget. Pure: bytes and ages in, a lowered N for some runs out.

Nobody gives anything while a budget is kept to. Over it, the run of the lowest priority gives first, among equals the
one that stood still the longest, and each as far as its own settings allow, one step at a time, before the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prune.model import nothing

Pool = str  # a volume or a group, by its name


@dataclass(frozen=True, slots=True)
class Level:
    """What a run keeps in each pool, with N lowered to ``keep_last``."""

    keep_last: int
    kept: Mapping[Pool, int]


@dataclass(frozen=True, slots=True)
class Holding:
    """One run's part. ``lower`` descends from the N below its own to the least its settings and guards allow."""

    run: str
    kept: Mapping[Pool, int]  # bytes by its policy as it stands
    priority: int = 0
    newest_ns: int | None = None  # when its newest step was written; None, as nobody knows, counts as just now
    lower: tuple[Level, ...] = ()
    has_floor: bool = True  # whether its settings say how few steps will do; else it gives nothing

    @property
    def gives(self) -> tuple[object, ...]:
        """Sorts the run that gives first before the others."""
        return self.priority, self.newest_ns is None, self.newest_ns or 0, self.run


@dataclass(frozen=True, slots=True)
class Division:
    """The outcome: the lowered N by run, bytes by pool, and by how much a pool is still over its budget."""

    lowered: Mapping[str, int] = field(default_factory=nothing)
    kept: Mapping[Pool, int] = field(default_factory=nothing)
    over: Mapping[Pool, int] = field(default_factory=nothing)


def divide(budgets: Mapping[Pool, int], holdings: Iterable[Holding]) -> Division:
    """Lowers N here and there until every pool fits its budget, or nobody can give more."""
    ordered = sorted(holdings, key=lambda holding: holding.gives)
    level = dict.fromkeys((holding.run for holding in ordered), -1)  # -1: as its policy stands
    totals = _totals(budgets, ordered)
    for pool in sorted(budgets):
        for holding in ordered:
            while totals[pool] > budgets[pool] and _gives(holding, level[holding.run], pool):
                before = _kept(holding, level[holding.run])
                level[holding.run] += 1
                after = _kept(holding, level[holding.run])
                for other in budgets:
                    totals[other] += after.get(other, 0) - before.get(other, 0)
    return Division(
        {holding.run: holding.lower[level[holding.run]].keep_last for holding in ordered if level[holding.run] >= 0},
        totals,
        {pool: totals[pool] - budget for pool, budget in budgets.items() if totals[pool] > budget},
    )


def _gives(holding: Holding, level: int, pool: Pool) -> bool:
    """Whether any further lowering frees anything there."""
    now = _kept(holding, level).get(pool, 0)
    return any(below.kept.get(pool, 0) < now for below in holding.lower[level + 1 :])


def _kept(holding: Holding, level: int) -> Mapping[Pool, int]:
    return holding.kept if level < 0 else holding.lower[level].kept


def _totals(budgets: Mapping[Pool, int], holdings: Sequence[Holding]) -> dict[Pool, int]:
    return {pool: sum(holding.kept.get(pool, 0) for holding in holdings) for pool in budgets}
