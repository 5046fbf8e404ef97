"""MosaicML Composer: ``ep<E>-ba<B>-rank<R>.pt`` for each rank, or a sharded directory ``ep<E>-ba<B>/``.

Names and files: mosaicml/composer, ``callbacks/checkpoint_saver.py`` (names, links, ``_rotate_checkpoints``),
``trainer/trainer.py`` (autoresume follows ``latest-rank<R>.pt``). B counts all batches and orders the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from prune.errors import UsageError
from prune.layouts import links, markers, rank_grid, trackers
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
from prune.model import EMPTY

_STEM = rf"(?:ep[0-9]{{1,18}}-)?ba(?P<step>{DIGITS})"
_ENDING = r"\.(?:pt|tar)(?:\.(?:gz|bz2|xz|lzma|lz4|lzo|zst))?|\.tgz"
_FILE = re.compile(rf"{_STEM}(?:-rank(?P<rank>[0-9]{{1,9}}))?(?:{_ENDING})")
_DIRECTORY = re.compile(_STEM)
_LATEST = re.compile(rf"latest(?:-rank[0-9]{{1,9}})?(?:{_ENDING})?(?:\.symlink)?")
_RANK = re.compile(rf"(?:.*/)?(?:ep[0-9]+-)?ba[0-9]+-rank([0-9]{{1,9}})(?:{_ENDING})", re.DOTALL)


class Composer(Around):
    """Composer's own rotation removes what it remembers without looking, and stops the run where that is gone.

    What it remembers is on no disk. Say ``num_checkpoints_to_keep`` as the trainer has it, and that many of the
    newest steps are ``referenced``; -1, the default of Composer, rotates nothing.
    """

    name = "composer"
    title = "Composer"
    weight = 3

    def __init__(self, tracked: int = 0) -> None:
        self.tracked = tracked

    @classmethod
    def configured(cls, options: Mapping[str, Any]) -> Self:
        rest = dict(options)
        keep = rest.pop("num_checkpoints_to_keep", -1)
        if not isinstance(keep, int) or isinstance(keep, bool) or keep < -1:
            raise UsageError(
                f"num_checkpoints_to_keep = {keep!r} is no number of checkpoints",
                mend="Give the CheckpointSaver's own value: -1 keeps all.",
            )
        super().configured(rest)
        return cls(max(keep, 0))

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        found = next((claim for claim in claims if claim.part is Part.PAYLOAD), None)
        return f"{found.path} is named as Composer names its checkpoints" if found else None

    def own(self, entry: Entry) -> Claim | None:
        if _LATEST.fullmatch(entry.path) and entry.kind in (Kind.FILE, Kind.LINK):
            return Claim(entry.path, entry.kind, Part.POINTER)
        pattern = {Kind.FILE: _FILE, Kind.DIR: _DIRECTORY}.get(entry.kind)
        found = pattern.fullmatch(entry.path) if pattern else None
        return Claim(entry.path, entry.kind, Part.PAYLOAD, int(found["step"])) if found else None

    def withdraw_order(self, paths: Iterable[str]) -> list[str]:
        """Rank 0 first: every rank looks for its own file, and rank 0's tells the others what to load."""
        return sorted(paths, key=lambda path: (_rank(path), path))

    def examine(self, members: Members, reader: Reader) -> Verdict:
        for stem, paths in _by_save(members.paths).items():
            missing = rank_grid.gap(rank_grid.ranks(paths, _RANK))
            if missing is not None:
                return markers.missing(stem, f"rank {missing[0]}'s file")
        empty = next((path for path in members.paths if path in members.dirs and not members.below(path)), None)
        return markers.broken(empty, "holds no file") if empty else super().examine(members, reader)

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        """Links, and the text objects that stand for them where links cannot be."""
        texts = (
            trackers.tracker(view, claim.path.rpartition("/")[2], lambda text: _named(view, text))
            for claim in view.claims
            if claim.part is Part.POINTER and claim.kind is Kind.FILE and claim.path.endswith(".symlink")
        )
        return [*links.pointers(self, view), *(pointer for pointer in texts if pointer is not None)]

    def trainer_pick(self, view: RootView) -> Pick | None:
        """What ``latest-rank0.pt`` leads to; without it autoresume starts anew."""
        leads = [one for one in self.pointers(view) if one.path.rpartition("/")[2].startswith("latest")]
        first = min(leads, key=lambda one: (".symlink" in one.path, one.path), default=None)
        return trackers.followed(view, first, first.path) if first else None

    def referenced(self, view: RootView) -> Mapping[int, str]:
        if not self.tracked:
            return EMPTY
        why = f"Composer keeps the newest {self.tracked} itself and stops when one of them is gone"
        return dict.fromkeys(sorted(view.steps)[-self.tracked :], why)


def _rank(path: str) -> int:
    found = _RANK.fullmatch(path)
    return int(found[1]) if found else -1


def _by_save(paths: Iterable[str]) -> dict[str, list[str]]:
    """Rank files by the save they belong to: one batch can be saved twice, within an epoch and at its end."""
    saves: dict[str, list[str]] = {}
    for path in paths:
        if _RANK.fullmatch(path):
            saves.setdefault(path.rpartition("-rank")[0], []).append(path)
    return saves


def _named(view: RootView, text: str) -> trackers.Named:
    name = text.rstrip("/").rpartition("/")[2]
    found = _FILE.fullmatch(name) or _DIRECTORY.fullmatch(name)
    if found is None:
        raise ValueError(f"names no checkpoint: {text[:80]!a}")
    return trackers.Named(int(found["step"]), view.at(name))
