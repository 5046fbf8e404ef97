"""What training would resume from, by our reckoning: what ``resume`` gives on any replica, what was written last."""

from __future__ import annotations

from collections.abc import Collection

from prune.evidence import Evidence
from prune.model import Copy


def resumed_from(evidence: Evidence) -> dict[int, list[Copy]]:
    """By step, the copies that ``resume`` would give: over all replicas, and on each one alone."""
    found: dict[int, list[Copy]] = {}
    newest = [evidence.candidate, *(evidence.newest_restorable([replica]) for replica in evidence.listed)]
    for copy in newest:
        if copy is not None and copy not in found.setdefault(copy.step, []):
            found[copy.step].append(copy)
    return found


def written_last(evidence: Evidence, unwanted: Collection[int]) -> Copy | None:
    """The most recently written restorable copy of the primary, by times that can be trusted; ties to the newer step.

    A copy that was only listed may turn out to have been written later. That matters for the one found here, and
    where that one is to go for all the others too; what is to go is measured anyway.
    """
    copies = evidence.on(evidence.primary)
    timed = [(time, copy.step) for copy in copies if (time := evidence.known_written(copy)) is not None]
    by_step = {copy.step: copy for copy in copies}
    ordered = (by_step[step] for _, step in sorted(timed, reverse=True))
    last = next(filter(evidence.restorable, ordered), None)
    if last is not None:
        for copy in copies if last.step in unwanted else [last]:
            evidence.look_into(copy)
    return last


def newest_verified(evidence: Evidence, unwanted: Collection[int]) -> Copy | None:
    """A copy of the newest step whose content was checked.

    That one was checked shows once it is measured, so where this step is to go all newer ones are leaned on.
    """
    newer: list[Copy] = []
    for step in reversed(evidence.steps):
        held = evidence.copies[step].values()
        verified = next((copy for copy in held if copy.verified_ns is not None), None)
        if verified is not None:
            for copy in newer if step in unwanted else ():
                evidence.look_into(copy)
            return verified
        newer += held
    return None
