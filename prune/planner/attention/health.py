"""Attention for copies that are not what they should be, at or above the cutoff: what lies below is on its way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prune.evidence import Evidence, known_to_differ
from prune.guards import Scene
from prune.model import Attention, Copy, Health, StepPlan
from prune.planner.attention.holds import MENDS
from prune.planner.words import listed


def damaged(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """Broken and suspect copies, grouped by what mends them."""
    found: dict[tuple[str, str], list[str]] = {}
    for copy in _standing(scene):
        if copy.health in (Health.BROKEN, Health.SUSPECT):
            told = f"{copy.step} ({copy.health}{f': {copy.detail}' if copy.detail else ''})"
            found.setdefault((copy.replica, _mend(scene.evidence, copy)), []).append(told)
    for (replica, mend), copies in found.items():
        yield Attention("damaged", replica, listed(copies, "step"), mend)


def _mend(evidence: Evidence, copy: Copy) -> str:
    others = [other for name, other in evidence.copies[copy.step].items() if name != copy.replica]
    good = any(other.health is not None and other.health.restorable for other in others)
    if good and copy.replica == evidence.primary:
        return "prune resume --restore (a mirror holds a good copy)"
    if good:
        return "prune mirror (another replica holds a good copy)"
    return "no replica is known to hold a good copy: prune verify tells more; training resumes from an older step"


def unreadable(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """Copies that could not be examined: nobody knows whether they are good."""
    found: dict[tuple[str, str], list[str]] = {}
    for copy in _standing(scene):
        if copy.health is Health.UNKNOWN:
            mend = _mend_of_unknown(copy)
            found.setdefault((copy.replica, mend), []).append(f"{copy.step} ({copy.detail or 'no reason told'})")
    for (replica, mend), copies in found.items():
        yield Attention(
            "unreadable", replica, f"could not be examined, so it counts for nothing: {listed(copies, 'step')}", mend
        )


def _mend_of_unknown(copy: Copy) -> str:
    if copy.leans_on:
        return "put what its links lead to into the step itself, then: prune verify"
    return MENDS["linked"] if copy.link is not None else "let this user read it, then: prune verify"


def differing(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """Steps that restore on two required replicas and are not the same there."""
    evidence = scene.evidence
    found: dict[str, list[tuple[Copy, Copy]]] = {}
    for held in (evidence.copies[step] for step in _at_or_above_cutoff(scene)):
        copies = [held[name] for name in evidence.required if name in held and _restores(held[name])]
        for other in copies[1:]:
            if known_to_differ(copies[0], other):
                found.setdefault(other.replica, []).append((copies[0], other))
    for replica, pairs in found.items():
        steps = [str(other.step) for _, other in pairs]
        first = pairs[0][0].replica
        differ = f"{listed(steps, 'step')} {'differ' if len(steps) > 1 else 'differs'} from what {first} holds"
        mend = f"prune mirror --from {first} {' '.join(steps)}, or --from the replica whose copies are right: what they"
        yield Attention(
            "differs", replica, f"{differ}, and nothing tells which is right{_later(pairs)}",
            f"{mend} replace waits in the trash",
        )  # fmt: skip


def _later(pairs: Sequence[tuple[Copy, Copy]]) -> str:
    """Whose copies were saved later, where all were: as when training went back and saved the same steps again."""
    sides = {_saved_later(one, other) for one, other in pairs}
    side = sides.pop() if len(sides) == 1 else None
    return f"; {side} holds the later save{'s' if len(pairs) > 1 else ''}" if side is not None else ""


def _saved_later(one: Copy, other: Copy) -> str | None:
    if one.created_at_ns is None or other.created_at_ns is None or one.created_at_ns == other.created_at_ns:
        return None
    return (one if one.created_at_ns > other.created_at_ns else other).replica


def damaged_pick(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """The trainer would resume from a copy that does not restore."""
    evidence = scene.evidence
    for replica, pick in sorted(evidence.inventory.picks.items(), key=lambda item: item[0]):
        named = pick.step if not pick.apart else None
        copy = evidence.copies.get(named, {}).get(replica) if named is not None else None
        if copy is not None and copy.health in (Health.BROKEN, Health.SUSPECT):
            detail = f"the trainer would resume from {pick.path} ({pick.how}), which is {copy.health}"
            yield Attention(
                "damaged-pick", replica, detail, "resume from what `prune resume` names, or run prune resume --restore"
            )


def _standing(scene: Scene) -> Iterator[Copy]:
    return (copy for step in _at_or_above_cutoff(scene) for copy in scene.evidence.copies[step].values())


def _at_or_above_cutoff(scene: Scene) -> list[int]:
    cutoff = scene.kept.cutoff
    return [step for step in scene.evidence.steps if cutoff is None or step >= cutoff]


def _restores(copy: Copy) -> bool:
    return copy.health is not None and copy.health.restorable
