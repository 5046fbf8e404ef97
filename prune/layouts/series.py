"""Which of several series of names in one directory is the run's: the whole listing tells, one name cannot.

``model_10.pt`` beside ``optim_10.pt``, and so at every step, is one set of files per step. ``best_7.pt`` beside a
dozen ``step_N.pt`` is a stranger. Two series that go their own ways are a question for a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from prune.layouts.base import Claim, Part

ONE_SET = ""  # the series of claims that belong to one step whatever their own names


def settle(claims: Sequence[Claim]) -> Sequence[Claim]:
    """Claims of the run's series, as one set of files per step; strangers left out.

    Where it cannot be told, every claim stays under its own series, and :func:`collision` says so.
    """
    steps = _steps_by_series(claims)
    if not steps:
        return claims
    longer = {name: found for name, found in steps.items() if len(found) > 1}
    chosen = longer or steps
    if not _one_family(chosen):
        return claims
    ours = [claim for claim in claims if claim.series in chosen or _of_no_series(claim)]
    return ours if len(chosen) == 1 else [replace(claim, series=ONE_SET) for claim in ours]


def collision(claims: Iterable[Claim]) -> str | None:
    """A sentence when two payloads claim one step and are no set, or when two series stand side by side."""
    first_of: dict[str, Claim] = {}
    seen: dict[tuple[int | None, str, str], Claim] = {}
    for claim in claims:
        if claim.part is not Part.PAYLOAD:
            continue
        first_of.setdefault(claim.series, claim)
        twin = seen.setdefault((claim.step, claim.series, _shape(claim)), claim)
        if twin is not claim:
            return f"{min(twin.path, claim.path)} and {max(twin.path, claim.path)} are both step {claim.step}"
    if len(first_of) < 2:
        return None
    one, other = sorted(claim.path for claim in first_of.values())[:2]
    return f"{one} and {other} belong to different series of names, and nothing tells which one is the run's"


def _of_no_series(claim: Claim) -> bool:
    """Pointers, and temporaries whose name tells too little (``.tmpX1y2Z3``, ``.staging-000400``)."""
    return claim.part is Part.POINTER or (claim.part is Part.TEMPORARY and not claim.series)


def _steps_by_series(claims: Iterable[Claim]) -> dict[str, set[int]]:
    steps: dict[str, set[int]] = {}
    for claim in claims:
        if claim.part is Part.PAYLOAD and claim.step is not None:
            steps.setdefault(claim.series, set()).add(claim.step)
    return steps


def _one_family(steps: Mapping[str, set[int]]) -> bool:
    """Whether these series are saved together: the same steps, but for the newest, which may be half saved, and
    for one in ten, where a save was killed between two files."""
    everything = set().union(*steps.values())
    newest = max(everything)
    for found in steps.values():
        missing = everything - found - {newest}
        if len(missing) * 10 > len(everything) or not found & everything:
            return False
    return len(everything) > 1 or all(found == everything for found in steps.values())


def _shape(claim: Claim) -> str:
    """The name with its numbers taken out: members of one set differ in it, twins of one step do not."""
    return re.sub("[0-9]+", "", claim.path)
