"""fairseq: ``checkpoint_<E>_<U>.pt`` within epochs, ``checkpoint<E>.pt`` at their ends, and copies by fixed names.

Names and files: facebookresearch/fairseq, ``fairseq/checkpoint_utils.py`` (``save_checkpoint``), ``trainer.py``
(``checkpoint_suffix``), ``distributed/utils.py`` (``-model_part-<r>``). U counts updates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from prune.errors import UsageError
from prune.layouts import markers, rank_grid, trackers, twins
from prune.layouts.around import Around
from prune.layouts.base import (
    Claim,
    Entry,
    Glance,
    Kind,
    Members,
    Part,
    Pick,
    Pointer,
    Reader,
    RootView,
    Verdict,
)
from prune.layouts.naming import DIGITS
from prune.model import PointerState

_PARTS = r"(?:-model_part-(?P<part>[0-9]{1,9}))?(?:-shard(?P<shard>[0-9]{1,9}))?"
_UPDATES = re.compile(rf"checkpoint_[0-9]{{1,18}}_(?P<step>{DIGITS}){_PARTS}\.pt")
_EPOCHS = re.compile(rf"checkpoint(?P<step>{DIGITS}){_PARTS}\.pt")
_FIXED = re.compile(rf"checkpoint_(?:last|best){_PARTS}\.pt")
_BEST = re.compile(rf"checkpoint\.best_(?P<metric>[A-Za-z0-9_-]+)_(?P<value>-?[0-9]+\.[0-9]{{3}})[0-9]*{_PARTS}\.pt")
_RANKS = re.compile(rf"(?:.*/)?checkpoint(?:_[0-9]+_)?[0-9]+{_PARTS}\.pt", re.DOTALL)
_PART_NUMBERS = re.compile(rf".*?{_PARTS}\.pt", re.DOTALL)
SERIES = ("updates", "epochs")


class Fairseq(Around):
    """Numbers of epochs and of updates cannot be ordered among each other: one of the two series is the run's.

    It is ``updates`` wherever there are any; the option ``series`` says otherwise. The other's files are foreign.
    """

    name = "fairseq"
    title = "fairseq"
    weight = 3

    def __init__(self, series: str | None = None) -> None:
        self.series = series

    @classmethod
    def configured(cls, options: Mapping[str, Any]) -> Self:
        rest = dict(options)
        series = rest.pop("series", None)
        if series is not None and series not in SERIES:
            raise UsageError(f"fairseq has no series {series!r}", mend=f"Choose one of {', '.join(SERIES)}.")
        super().configured(rest)
        return cls(series)

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        found = [claim for claim in claims if claim.part is Part.PAYLOAD]
        updates = next((claim.path for claim in found if claim.series == "updates"), None)
        if updates:
            return f"{updates} is named as fairseq names its checkpoints"
        if found and (glance.has("checkpoint_last.pt") or glance.has("checkpoint_best.pt")):
            return f"{found[0].path} stands beside checkpoint_last.pt or checkpoint_best.pt"
        return None

    def own(self, entry: Entry) -> Claim | None:
        if entry.kind is Kind.LINK and _FIXED.fullmatch(entry.path):
            return Claim(entry.path, entry.kind, Part.POINTER)
        if entry.kind is not Kind.FILE:
            return None
        if _FIXED.fullmatch(entry.path) or _BEST.fullmatch(entry.path):
            return Claim(entry.path, entry.kind, Part.POINTER)
        for series, pattern in zip(SERIES, (_UPDATES, _EPOCHS), strict=True):
            found = pattern.fullmatch(entry.path)
            if found:
                return Claim(entry.path, entry.kind, Part.PAYLOAD, int(found["step"]), series)
        return None

    def settle(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        there = trackers.series_of(claims)
        chosen = self.series or next((series for series in SERIES if series in there), SERIES[0])
        return trackers.only_series(claims, chosen)

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        """One update can stand under two epochs only when two runs share the directory."""
        seen: dict[int, str] = {}
        for claim in claims:
            if claim.part is Part.PAYLOAD and claim.step is not None:
                stem = _stem(claim.path)
                if seen.setdefault(claim.step, stem) != stem:
                    return f"{seen[claim.step]}*.pt and {claim.path} are both step {claim.step}"
        return None

    def withdraw_order(self, paths: Iterable[str]) -> list[str]:
        """Shard 0 first: it is what a loader opens to learn of the others."""
        return sorted(paths, key=lambda path: (not path.endswith(".pt"), _numbers(path), path))

    def examine(self, members: Members, reader: Reader) -> Verdict:
        missing = rank_grid.gap(rank_grid.ranks(members.paths, _RANKS))
        if missing is not None:
            part = f"-model_part-{missing[0]}" if any("-model_part-" in path for path in members.paths) else ""
            return markers.missing(f"step {members.step}", f"{part}-shard{missing[1]}".removeprefix("-"))
        return super().examine(members, reader)

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        """Copies under fixed names; each names the step whose bytes it holds."""
        return [_copy(view, claim) for claim in view.claims if claim.part is Part.POINTER and claim.kind is Kind.FILE]

    def stands_in(self, path: str) -> bool:
        """Of a step in one file; a lone shard of several is none."""
        name = path.rpartition("/")[2]
        return name.endswith(".pt") and "-shard" not in name and "-model_part-" not in name

    def trainer_pick(self, view: RootView) -> Pick | None:
        """``checkpoint_last``, of which every rank loads its own shard; without it fairseq starts anew."""
        last = [pointer for pointer in self.pointers(view) if "checkpoint_last" in pointer.path]
        first = min(last, key=lambda pointer: _numbers(pointer.path), default=None)
        return Pick(first.step, first.path, "checkpoint_last.pt") if first else None

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        """The score in ``checkpoint.best_<metric>_<score>.pt``; digits that only break ties are left out."""
        found: dict[int, dict[str, float]] = {}
        for pointer in self.pointers(view):
            match = _BEST.fullmatch(pointer.path.rpartition("/")[2])
            if match and pointer.step is not None:
                found.setdefault(pointer.step, {})[match["metric"]] = float(match["value"])
        return found

    def best_recorded(self, view: RootView) -> int | None:
        best = (pointer for pointer in self.pointers(view) if "checkpoint_best" in pointer.path)
        return next((pointer.step for pointer in best if pointer.step is not None), None)


def _copy(view: RootView, claim: Claim) -> Pointer:
    try:
        step = twins.step_of(view, claim.path)
    except OSError as error:
        return Pointer("", claim.path, None, PointerState.UNREADABLE, f"cannot be read: {error}")
    detail = None if step is not None else "holds the bytes of no numbered checkpoint"
    return Pointer("", claim.path, step, PointerState.OK, detail)


def _numbers(path: str) -> tuple[int, ...]:
    found = _PART_NUMBERS.fullmatch(path)
    return tuple(int(number or 0) for number in found.groups()) if found else (-1,)


def _stem(path: str) -> str:
    return re.sub(r"(?:-model_part-[0-9]+)?(?:-shard[0-9]+)?\.pt\Z", "", path)
