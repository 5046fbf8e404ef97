"""Copies against one another: sizes among siblings of a run, and of one step between replicas. Pure.

Only a copy that nothing has decided about (``unverified``) can become suspect here; what its own format or manifest
proves whole is whole at any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from prune.model import Copy, Health

Copies = Mapping[int, Mapping[str, Copy]]  # step -> replica -> copy

NEAR = 3  # siblings looked at on either side
_CLOSE = 0.9  # sizes agree when the smaller is at least this share of the larger
_HALF = 0.5
_SIDECARS = 4096  # bytes by which copies with other numbers of files may differ: sidecars on one side


def suspects(copies_by_step: Copies) -> Mapping[tuple[int, str], str]:
    """The sentence for each copy that stands out, by step and replica, with expected and found size.

    Copies that were not measured are passed over. Thinned ones are smaller by right, and have only one another.
    """
    found: dict[tuple[int, str], str] = {}
    for thinned in (False, True):
        alike = {step: _of_kind(held, thinned=thinned) for step, held in copies_by_step.items()}
        found.update(_suspects(alike))
    return found


def _of_kind(held: Mapping[str, Copy], *, thinned: bool) -> Mapping[str, Copy]:
    return {replica: copy for replica, copy in held.items() if bool(copy.thinned) is thinned}


def _suspects(copies_by_step: Copies) -> Mapping[tuple[int, str], str]:
    siblings = _siblings(copies_by_step)
    found = dict(_between_replicas(copies_by_step, siblings))
    for replica, line in siblings.items():
        for place, copy in enumerate(line):
            key = (copy.step, replica)
            if copy.health is Health.UNVERIFIED and key not in found and (sentence := _stands_out(line, place)):
                found[key] = sentence
    return found


def _siblings(copies_by_step: Copies) -> dict[str, list[Copy]]:
    """Measured, restorable copies of each replica, by ascending step."""
    lines: dict[str, list[Copy]] = {}
    for step in sorted(copies_by_step):
        for replica, copy in copies_by_step[step].items():
            if _size(copy) is not None and copy.health is not None and copy.health.restorable:
                lines.setdefault(replica, []).append(copy)
    return lines


def _size(copy: Copy) -> int | None:
    return copy.size if copy.measured else None


def _near(line: Sequence[Copy], place: int) -> list[int]:
    """Sizes of the nearest siblings, in order, without the copy itself."""
    first = max(0, min(place - NEAR, len(line) - 1 - 2 * NEAR))
    around = range(first, min(len(line), first + 2 * NEAR + 1))
    return [size for other in around if other != place and (size := _size(line[other])) is not None]


def _stands_out(line: Sequence[Copy], place: int) -> str | None:
    """The sentence for a copy far smaller than its siblings, or None."""
    own = _size(line[place])
    near = _near(line, place)
    if own is None or sum(_agree(own, size) for size in near) >= 2 or _grows(line, place):
        return None
    group = _largest_group(near)
    if len(group) >= 2 and own < _CLOSE * min(group):
        return f"{own} bytes found, expected about {_middle(group)}: far smaller than its siblings"
    if len(group) < 2 and len(near) >= 3 and own < _HALF * _middle(near):
        return f"{own} bytes found, expected about {_middle(near)}: less than half of its siblings"
    return None


def _agree(one: int, other: int) -> bool:
    return min(one, other) >= _CLOSE * max(one, other)


def _middle(sizes: Sequence[int]) -> int:
    """The median."""
    ordered = sorted(sizes)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2


def _largest_group(sizes: Sequence[int]) -> list[int]:
    """The most sizes that agree with one another; of equally many the larger ones."""
    ordered = sorted(sizes)
    groups = [[s for s in ordered[: end + 1] if _agree(s, ordered[end])] for end in range(len(ordered))]
    return max(groups, key=lambda group: (len(group), group[-1]), default=[])


def _grows(line: Sequence[Copy], place: int) -> bool:
    """Whether sizes only ever grow around this copy, itself included, as those of a filling replay buffer do."""
    around = [_size(copy) or 0 for copy in line[max(0, place - NEAR) : place + NEAR + 1]]
    return len(around) > 2 and all(earlier < later for earlier, later in pairwise(around))


# --- one step on several replicas --------------------------------------------------------------------------------


def _between_replicas(
    copies_by_step: Copies, siblings: Mapping[str, list[Copy]]
) -> Iterator[tuple[tuple[int, str], str]]:
    places = {r: {copy.step: place for place, copy in enumerate(line)} for r, line in siblings.items()}
    for step, by_replica in sorted(copies_by_step.items()):
        group = [c for r, c in sorted(by_replica.items()) if step in places.get(r, {})]
        open_ones = [copy for copy in group if copy.health is Health.UNVERIFIED]
        if not open_ones or not any(_differ(one, other) for one in open_ones for other in group):
            continue
        near = {c.replica: _near(siblings[c.replica], places[c.replica][step]) for c in group}
        reference = _reference(group, near)
        for copy in open_ones:
            if reference is not None and _differ(copy, reference):
                found, expected = _size(copy), _size(reference)
                word = "shorter" if (found or 0) < (expected or 0) else "longer"
                yield (
                    (step, copy.replica),
                    f"{found} bytes found, expected {expected}: {word} than the same step on {reference.replica}",
                )


def _differ(one: Copy, other: Copy) -> bool:
    mine, theirs = _size(one) or 0, _size(other) or 0
    allowed = _SIDECARS if one.files != other.files else 0
    return abs(mine - theirs) > allowed


def _reference(group: Sequence[Copy], near: Mapping[str, Sequence[int]]) -> Copy | None:
    """The copy whose length is the right one: proven by its format, else at its siblings' size, else the longest.

    None where proven ones differ among themselves.
    """
    decided = [copy for copy in group if copy.health is not Health.UNVERIFIED]
    if decided:
        agreed = not any(_differ(decided[0], other) for other in decided[1:])
        return decided[0] if agreed else None

    def standing(copy: Copy) -> tuple[bool, bool, int]:
        size = _size(copy) or 0
        siblings = _largest_group(near[copy.replica])
        at_their_size = bool(siblings) and size in near[copy.replica]
        return at_their_size, bool(siblings) and size >= _CLOSE * min(siblings), size

    return max(group, key=standing)
