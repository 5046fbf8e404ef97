"""A run's steps as columns of a timeline: pure, and bounded whatever the number of steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from prune.model import Copy, Decision, Health, RunPlan, StepPlan
from prune.report.lines import listed, printable
from prune.report.times import ago
from prune.settings.units import format_size

ALONE = 40  # so many of the newest steps each have a column of their own
TOGETHER = 32  # older ones share at most so many


class State(StrEnum):
    """What a cell shows, from the one to notice first to the one to notice last."""

    BROKEN = "broken"
    IN_FLIGHT = "in flight"
    UNSEEN = "not seen"  # its replica could not be listed
    MISSING = "missing"
    GUARDED = "guarded"
    WOULD_GO = "would go"
    KEPT = "kept"


_NOTICED_FIRST = {state: place for place, state in enumerate(State)}


@dataclass(frozen=True, slots=True)
class Cell:
    """One replica's copy, or copies where steps share a column."""

    replica: str
    state: State
    resume: bool = False

    @property
    def words(self) -> str:
        return f"{self.replica} {self.state}" + (", training would resume from it" if self.resume else "")


@dataclass(frozen=True, slots=True)
class Column:
    """One step, or neighbours that share a fate. ``why`` are sentences for who wants to know."""

    first: int
    last: int
    count: int
    cells: tuple[Cell, ...]
    why: tuple[str, ...]

    @property
    def label(self) -> str:
        return str(self.first) if self.count == 1 else f"{self.first}–{self.last}"

    @property
    def title(self) -> str:
        """Everything in one line, for the pointer's hint and for who listens."""
        name = f"Step {self.first}" if self.count == 1 else f"{self.count} steps, {self.first} to {self.last}"
        return f"{name}: {'; '.join(cell.words for cell in self.cells)}"


def columns(plan: RunPlan, *, now_ns: int, alone: int = ALONE, together: int = TOGETHER) -> list[Column]:
    """Oldest first. At most ``alone`` + ``together`` columns."""
    replicas = [replica.name for replica in plan.replicas]
    older, newest = plan.steps[: max(0, len(plan.steps) - alone)], plan.steps[-alone:]
    return [
        *(_shared(plan, steps, replicas) for steps in _groups(plan, older, replicas, together)),
        *(_single(plan, step, replicas, now_ns) for step in newest),
    ]


def _groups(plan: RunPlan, steps: Sequence[StepPlan], replicas: Sequence[str], most: int) -> list[Sequence[StepPlan]]:
    """Neighbours of one fate; where these are too many, equal stretches."""
    alike = [
        list(group) for _, group in groupby(steps, key=lambda step: (_cells(plan, step, replicas), step.reasons[:1]))
    ]
    if len(alike) <= most:
        return alike  # type: ignore[return-value]
    size = -(-len(steps) // most)
    return [steps[start : start + size] for start in range(0, len(steps), size)]


def _single(plan: RunPlan, step: StepPlan, replicas: Sequence[str], now_ns: int) -> Column:
    return Column(step.step, step.step, 1, _cells(plan, step, replicas), tuple(_why(plan, step, now_ns)))


def _shared(plan: RunPlan, steps: Sequence[StepPlan], replicas: Sequence[str]) -> Column:
    rows = [_cells(plan, step, replicas) for step in steps]
    cells = tuple(
        Cell(replica, min((row[place].state for row in rows), key=_NOTICED_FIRST.__getitem__),
             any(row[place].resume for row in rows))
        for place, replica in enumerate(replicas)
    )  # fmt: skip
    if len(steps) == 1:
        return Column(steps[0].step, steps[0].step, 1, cells, tuple(_fate(plan, steps[0])))
    return Column(steps[0].step, steps[-1].step, len(steps), cells, tuple(_sums(plan, steps)))


def _cells(plan: RunPlan, step: StepPlan, replicas: Sequence[str]) -> tuple[Cell, ...]:
    there = {copy.replica: copy for copy in step.copies}
    candidate = plan.resume_candidate
    unlisted = {replica.name for replica in plan.replicas if not replica.listed}
    return tuple(
        Cell(
            replica,
            State.UNSEEN if replica in unlisted - there.keys() else _state(step, there.get(replica)),
            candidate is not None and (candidate.step, candidate.replica) == (step.step, replica),
        )
        for replica in replicas
    )


def _state(step: StepPlan, copy: Copy | None) -> State:
    if copy is None:
        return State.MISSING
    if copy.health in (Health.BROKEN, Health.SUSPECT, Health.UNKNOWN):
        return State.BROKEN
    if copy.health is Health.IN_FLIGHT:
        return State.IN_FLIGHT
    return {Decision.DELETE: State.WOULD_GO, Decision.GUARDED: State.GUARDED, Decision.KEEP: State.KEPT}[step.decision]


def _why(plan: RunPlan, step: StepPlan, now_ns: int) -> Iterable[str]:
    yield from _fate(plan, step)
    for copy in step.copies:
        yield _copy_words(copy, now_ns)


def _fate(plan: RunPlan, step: StepPlan) -> Iterable[str]:
    if step.decision is Decision.KEEP:
        yield f"Kept by {listed(list(step.reasons)) or 'policy'}."
    elif step.decision is Decision.DELETE:
        yield f"Would go: no rule keeps it, and it is below the cutoff {plan.cutoff}."
    for hold in step.guards:
        where = f" on {hold.replica}" if hold.replica else ""
        yield f"Guarded, {hold.guard}{where}: {printable(hold.detail)}."
    if plan.resume_candidate is not None and plan.resume_candidate.step == step.step:
        yield f"Training would resume from it, on {plan.resume_candidate.replica}."


def _copy_words(copy: Copy, now_ns: int) -> str:
    size = format_size(copy.size) if copy.size is not None else "size not measured"
    detail = f" ({printable(copy.detail)})" if copy.detail else ""
    health = copy.health.value if copy.health else "not looked at"
    return f"{copy.replica}: {health}{detail}, {size}, written {ago(copy.mtime_ns, now_ns)}, {printable(copy.paths[0])}"


def _sums(plan: RunPlan, steps: Sequence[StepPlan]) -> Iterable[str]:
    for decision, words in ((Decision.KEEP, "kept"), (Decision.DELETE, "would go"), (Decision.GUARDED, "guarded")):
        chosen = [step for step in steps if step.decision is decision]
        if not chosen:
            continue
        why = {*(step.reasons[0] for step in chosen if step.reasons), *(h.guard for s in chosen for h in s.guards)}
        yield f"{len(chosen)} {words}" + (f": {listed(sorted(why))}." if why else ".")
    bad = [f"{copy.step} on {copy.replica}" for step in steps for copy in step.copies
           if copy.health in (Health.BROKEN, Health.SUSPECT, Health.UNKNOWN)]  # fmt: skip
    if bad:
        yield f"Broken: {', '.join(bad[:12])}{f' and {len(bad) - 12} more' if len(bad) > 12 else ''}."
