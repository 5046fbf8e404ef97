"""Attention that a replica as a whole calls for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prune.evidence import Evidence
from prune.guards import Scene
from prune.guards.blocks import troubles_of_optional
from prune.model import Attention, Copy, PointerState, Replica, StepPlan
from prune.planner.words import count, name_steps
from prune.settings.schema import DAY, MINUTE, SECOND, ReplicaSettings
from prune.settings.units import format_duration, format_size

SKEW_SECONDS = MINUTE / SECOND  # up to this much is not worth a word
SKEW_SHOWN = 100 * 365 * DAY / SECOND  # beyond this the number says nothing more


def troubled_optional(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """What would block if the mirror were required; of an optional one it is told, once."""
    told = {(a.kind, a.replica) for a in scene.evidence.inventory.attention}
    for trouble in troubles_of_optional(scene.evidence):
        if (trouble.block, trouble.replica) not in told:
            mend = "mend it when you can: an optional mirror holds nothing back, and nothing is deleted on it meanwhile"
            yield Attention(trouble.block, trouble.replica, trouble.detail, mend)


def mirror_behind(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """An optional mirror that lags by more than its budget."""
    for settings in scene.evidence.run.replicas:
        if settings.optional and settings.name in scene.evidence.optional:
            lag = _lag(scene.evidence, settings)
            if lag is not None:
                yield Attention("mirror-behind", settings.name, lag, "prune mirror")


def _lag(evidence: Evidence, settings: ReplicaSettings) -> str | None:
    """By how much too much it lags, in words; None within its budget, or without one."""
    if settings.max_lag_steps is None and settings.max_lag_ns is None:
        return None
    there = _newest(evidence.on(evidence.primary))
    here = _newest(evidence.on(settings.name))
    if there is None or (here is not None and here.step >= there.step):
        return None
    if here is None:
        return f"it holds nothing that restores, and {evidence.primary} is at step {there.step}"
    steps = there.step - here.step
    if settings.max_lag_steps is not None and steps > settings.max_lag_steps:
        return f"it is at step {here.step}, {count(steps, 'step')} behind; its budget is {settings.max_lag_steps}"
    if settings.max_lag_ns is not None:
        return _lag_in_time(evidence, here, there, settings.max_lag_ns)
    return None


def _lag_in_time(evidence: Evidence, here: Copy, there: Copy, budget_ns: int) -> str | None:
    times = [evidence.time(here.step), evidence.time(there.step)]
    if times[0] is None or times[1] is None:
        return f"it is at step {here.step} and {evidence.primary} at {there.step}; by how long it lags cannot be told"
    lag = times[1] - times[0]
    return (
        f"it is {format_duration(lag)} behind; its budget is {format_duration(budget_ns)}" if lag > budget_ns else None
    )


def _newest(copies: list[Copy]) -> Copy | None:
    """The newest that nothing is known against."""
    return next((c for c in reversed(copies) if c.health is None or c.health.restorable), None)


def pointer_dangling(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """A pointer that names what is not there: the trainer may start from nothing."""
    inventory, candidate = scene.evidence.inventory, scene.evidence.candidate
    dangling = [pointer for pointer in inventory.pointers if pointer.state is PointerState.DANGLING]
    for pointer in sorted(dangling, key=lambda p: (p.replica, p.path, str(p.step), str(p.detail))):
        named = "a checkpoint" if pointer.step is None else f"step {pointer.step}"
        mend = "prune mirror, or prune resume --restore, brings it back if a replica holds it"
        if candidate is not None and candidate.step != pointer.step:
            mend = f"point it at step {candidate.step}, the newest that restores"
        detail = f"{pointer.path} names {named}, which is not there"
        yield Attention(
            "pointer-dangling", pointer.replica, f"{detail}{f': {pointer.detail}' if pointer.detail else ''}", mend
        )


def clock_skew(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """The volume's clock and ours are more than a minute apart."""
    skew = scene.evidence.inventory.skew_seconds
    if skew is not None and abs(skew) > SKEW_SECONDS:
        apart = format_duration(round(min(abs(skew), SKEW_SHOWN) * SECOND))
        detail = (
            f"the clock of the volume is {apart} {'ahead of' if skew > 0 else 'behind'} ours; the smaller age counts"
        )
        yield Attention("clock-skew", None, detail, "set both clocks by NTP")


def trainer_rotates(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """The primary holds fewer than N, and a mirror holds older ones: somebody else deletes on the primary."""
    evidence, last = scene.evidence, scene.keep.last
    primary = [copy.step for copy in evidence.on(evidence.primary)]
    if not primary or len(primary) >= last or evidence.primary not in evidence.listed:
        return
    older = [step for step in evidence.steps if step < primary[0]]
    if older:
        stand = f"the primary holds {len(primary)} of the wanted {last}, and mirrors still hold {name_steps(older)}"
        mend = f"let the trainer keep at least {last + 1}, or all of them, and leave deleting to this policy"
        yield Attention("trainer-rotates", evidence.primary, f"{stand}: the trainer seems to rotate", mend)


def too_small(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """A volume that cannot hold N + 1 checkpoints: the next save comes before the oldest may go."""
    evidence, last = scene.evidence, scene.keep.last
    size = max((copy.size or copy.bytes or 0 for held in evidence.copies.values() for copy in held.values()), default=0)
    for replica in evidence.replicas:
        total = _total(evidence, replica)
        if size and total is not None and total < (last + 1) * size:
            kind = "primary-too-small" if replica.name == evidence.primary else "mirror-too-small"
            room = f"{format_size(total)} hold {count(total // size, 'checkpoint')} of {format_size(size)}"
            detail = f"{room}, and keep.last = {last} needs room for {last + 1}"
            yield Attention(kind, replica.name, detail, f"keep.last = {max(1, total // size - 1)}, or a larger volume")


def _total(evidence: Evidence, replica: Replica) -> int | None:
    capacity = next((s.capacity for s in evidence.run.replicas if s.name == replica.name), None)
    return capacity if capacity is not None else replica.total_bytes or None
