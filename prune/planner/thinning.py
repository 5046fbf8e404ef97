"""Thinning: of kept steps older than the newest K full ones, what only resuming needs may go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from prune.guards import Scene, vetoes
from prune.model import Copy, Decision, GuardHold, StepPlan, Thin

REASON = "thin"


def thinned(scene: Scene, steps: tuple[StepPlan, ...]) -> tuple[StepPlan, ...]:
    """The same steps, with what goes of those that are kept for their weights alone.

    Only where ``keep.full`` is set and K aligned steps that are kept are full. Each copy of a step must restore; the
    same guards hold it as hold it from being deleted, and what an optional mirror needs to resume by itself stays.
    """
    newest = _newest_full(scene, steps)
    if not newest:
        return steps
    spared = _newest_full_of_optional(scene)
    return tuple(
        _thinned(scene, step, newest)
        if step.decision is Decision.KEEP and step.step < newest[-1] and step.step not in spared
        else step
        for step in steps
    )


def nothing_goes(step: StepPlan, hold: GuardHold) -> StepPlan:
    """The same kept step, with one more veto on thinning it."""
    if step.thin is None:
        return step
    reasons = tuple(reason for reason in step.reasons if reason != REASON)
    return replace(step, reasons=reasons, thin=replace(step.thin, guards=(*step.thin.guards, hold)))


def _newest_full(scene: Scene, steps: Sequence[StepPlan]) -> list[int]:
    """The newest K aligned and full steps that stay, newest first; empty where there are fewer, or nobody asked."""
    full, evidence = scene.keep.full, scene.evidence
    if full is None or evidence.inventory.unthinnable is not None:
        return []
    found: list[int] = []
    for step in reversed(steps):
        if len(found) >= full:
            break
        if step.decision is Decision.KEEP and evidence.aligned(step.step) and evidence.full(step.step):
            found.append(step.step)
    return found if len(found) >= full else []


def _newest_full_of_optional(scene: Scene) -> set[int]:
    """On each optional mirror its own newest K full steps: it may lag, and must still bring a run back."""
    evidence, full = scene.evidence, scene.keep.full or 0
    spared: set[int] = set()
    for name in evidence.optional:
        copies = (copy for copy in reversed(evidence.on(name)) if not copy.weights_only)
        restorable = (copy.step for copy in copies if evidence.restorable(copy))
        spared.update(step for _, step in zip(range(full), restorable, strict=False))
    return spared


def _thinned(scene: Scene, step: StepPlan, newest: Sequence[int]) -> StepPlan:
    evidence = scene.evidence
    if all(copy.weights_only for copy in step.copies) or not all(map(evidence.restorable, step.copies)):
        return step
    going = list(_going(scene, step))
    if not going:
        return step
    paths = dict.fromkeys(path for copy in going if copy.spare for path in copy.spare.paths)
    sizes = {copy.replica: copy.spare.bytes for copy in going if copy.spare}
    guards = (*vetoes(scene, step.step), *_rewound(scene, step.step, newest))
    reasons = step.reasons if guards else (*step.reasons, REASON)
    return replace(step, reasons=reasons, thin=Thin(tuple(paths), sizes, guards))


def _going(scene: Scene, step: StepPlan) -> Iterator[Copy]:
    read_only = {replica.name for replica in scene.evidence.replicas if replica.read_only}
    for copy in step.copies:
        if copy.spare is not None and copy.replica not in read_only:
            yield copy


def _rewound(scene: Scene, step: int, newest: Sequence[int]) -> Iterator[GuardHold]:
    """The step was written after every one that stays full: a run begun anew, whose numbers do not tell what is new.

    Steps that are kept are no matter to the guard of deleting, so this one looks for itself.
    """
    evidence = scene.evidence
    if scene.allow_rewound:
        return
    on_primary = {copy.step: copy for copy in evidence.on(evidence.primary)}
    written = evidence.known_written(on_primary.get(step))
    full = [evidence.written(on_primary[one]) for one in newest if one in on_primary]
    since = scene.rewind.since_ns
    if written is not None and (
        all(time is None or written > time for time in full) or (since is not None and written >= since)
    ):
        detail = "written after the steps that stay full: a run begun anew, whose numbers do not tell what is new"
        yield GuardHold("rewound", evidence.primary, None, detail)
