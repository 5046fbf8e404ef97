"""Directories with a step number, whatever is inside: ``step-100``, ``global_step_100``, ``iter_0000100``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prune.layouts import markers, metric_files, naming, series, text_pointers
from prune.layouts.around import Around
from prune.layouts.base import Claim, Entry, Glance, Kind, Members, Part, Pointer, Reader, RootView, Verdict

# A number in a directory's name often counts runs, folds or ranks; only these words make it a step.
_WORDS = (
    r"global[-_]?steps?|train[-_]?steps?|steps?|iters?|iterations?|epochs?|ep|checkpoints?|ckpts?|chkpts?|"
    r"batch|batches|updates?|samples?|tokens|snapshots?|save|state"
)
_NAME = re.compile(
    rf"(?P<prefix>(?:[^.].*[-_.=@+, ])?(?:{_WORDS})[-_.=]?)(?P<step>{naming.DIGITS})",
    re.DOTALL | re.IGNORECASE,
)
_NUMBER = re.compile(naming.DIGITS)
_EPOCH = re.compile(r"(?<![A-Za-z])(e(?:p|pochs?)?[-_=]?)[0-9]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StepName:
    step: int
    series: str


def read(name: str) -> StepName | None:
    """Reads a directory's name as ``<words><number>`` or a bare number; None when it is not one, in full."""
    if _NUMBER.fullmatch(name):
        return StepName(int(name), "")
    match = None if naming.prefixed(name) else _NAME.fullmatch(name)
    return match and StepName(int(match["step"]), _EPOCH.sub(r"\1#", match["prefix"]))


class StepDir(Around):
    name = "step-dir"
    title = "a plain training loop"
    weight = 1

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        """Bare numbers alone are no evidence: folders of years and of samples are named so."""
        found = next((claim for claim in claims if claim.part is Part.PAYLOAD and claim.series), None)
        return f"{found.path} is a directory with a step number" if found else None

    def own(self, entry: Entry) -> Claim | None:
        if entry.path in text_pointers.NAMES:
            return text_pointers.claim(entry)
        found = None if entry.kind is Kind.FILE else read(entry.path)
        if found is None:
            return None
        return Claim(entry.path, entry.kind, Part.PAYLOAD, found.step, found.series)

    def settle(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Beside names that say ``step``, bare numbers are years, samples, anything."""
        payload = [claim for claim in claims if claim.part is Part.PAYLOAD]
        if any(claim.series for claim in payload):
            claims = [claim for claim in claims if claim.series or claim.part is not Part.PAYLOAD]
        return series.settle(claims)

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        return series.collision(claims)

    def examine(self, members: Members, reader: Reader) -> Verdict:
        return markers.empty(members) or super().examine(members, reader)

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        return text_pointers.pointers(self, view)

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        return metric_files.beside(view)
