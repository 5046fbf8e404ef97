"""NeMo 2: directories named by a free template, with a sibling file ``<name>-unfinished`` while one is not whole.

Names and files: NVIDIA/NeMo, ``nemo/lightning/pytorch/callbacks/model_checkpoint.py`` (marker, top-k),
``nemo/lightning/resume.py`` (``_find_trainer_ckpt_path``), ``nemo/lightning/nemo_logger.py`` (templates).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from prune.layouts import links, trackers
from prune.layouts.around import Around
from prune.layouts.base import (
    PEEK_LIMIT,
    Claim,
    Entry,
    Glance,
    Health,
    Kind,
    Members,
    Part,
    Pick,
    Reader,
    RootView,
    Verdict,
)
from prune.layouts.megatron_lm import incomplete
from prune.layouts.naming import DIGITS

UNFINISHED = "-unfinished"
_COUNTERS = ("global_step", "step", "consumed_samples", "epoch")  # the first that a name has is its number
_VALUE = r"[-+]?(?:[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?|nan|inf)"
_PAIR = rf"[A-Za-z][A-Za-z0-9_./]*={_VALUE}"
_NAME = re.compile(rf"(?:[^=\n]*-)?(?P<pairs>{_PAIR}(?:--?{_PAIR})*)(?:-v[0-9]+|-last|-end)*")
_WHOLE = re.compile(rf"(?P<number>{DIGITS})(?:\.0+)?")
_LAST = re.compile(r".*-(?:last|end)", re.DOTALL)
_EMA = "-EMA.ckpt"
_OURS = frozenset({"weights", "context", "metadata.json", ".metadata", "common.pt"})


class NeMo(Around):
    """All directories of the root are checkpoints to NeMo's own clean-up, so nothing of ours may stand in it.

    ``X`` and ``X-last`` of one step are one copy: whole when both are.
    """

    name = "nemo"
    title = "NeMo 2"
    weight = 4
    reads_every_entry = True

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        for claim in claims:
            if claim.path.endswith(UNFINISHED):
                return f"{claim.path} marks an unfinished checkpoint as NeMo does"
            if (
                claim.part is Part.PAYLOAD
                and claim.kind is Kind.DIR
                and {"weights", "context"} & glance.inside(claim.path)
            ):
                return f"{claim.path} holds weights and context as NeMo writes them"
        return None

    def own(self, entry: Entry) -> Claim | None:
        if entry.kind is Kind.FILE and entry.path.endswith(UNFINISHED):
            return self._numbered(entry, entry.path[: -len(UNFINISHED)], Part.SIDECAR)
        if entry.kind is Kind.FILE and entry.path.endswith(_EMA):
            return self._numbered(entry, entry.path[: -len(_EMA)], Part.SIDECAR)
        if entry.kind is Kind.FILE and entry.path.endswith(".ckpt"):
            return self._numbered(entry, entry.path[: -len(".ckpt")], Part.PAYLOAD)
        return self._numbered(entry, entry.path, Part.PAYLOAD) if entry.kind is Kind.DIR else None

    def settle(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """One counter orders a run: the one that most names have. A marker whose checkpoint is gone is a temporary."""
        payload = [claim.series for claim in claims if claim.part is Part.PAYLOAD]
        if not payload:
            return claims
        kept = trackers.only_series(claims, max(sorted(set(payload)), key=payload.count))
        there = {claim.step for claim in kept if claim.part is Part.PAYLOAD}
        return [_orphaned(claim) if _is_marker(claim) and claim.step not in there else claim for claim in kept]

    def renumber(self, claims: Sequence[Claim], view: RootView) -> Sequence[Claim]:
        """Templates are free, so a name is not proof: a directory with only strange things in it is no checkpoint."""
        return [claim for claim in claims if not _strange(claim, view)]

    def withdraw_order(self, paths: Iterable[str]) -> list[str]:
        """Markers last: a checkpoint that goes stays marked as unfinished until all of it is gone."""
        return sorted(paths, key=lambda path: (path.endswith(UNFINISHED), path))

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        """Checkpoints of one step that differ by more than ``-v1`` and ``-last``: two runs in one place."""
        seen: dict[tuple[int, bool], Claim] = {}
        for claim in claims:
            if claim.part is Part.PAYLOAD and claim.step is not None:
                other = seen.setdefault((claim.step, _is_last(claim)), claim)
                if _stem(other.path) != _stem(claim.path):
                    return f"{other.path} and {claim.path} are both step {claim.step}"
        return None

    def examine(self, members: Members, reader: Reader) -> Verdict:
        marker = next((path for path in members.paths if path.endswith(UNFINISHED)), None)
        if marker is not None:
            return Verdict(Health.BROKEN, f"{marker} says that it is unfinished")
        for path in members.paths:
            if path in members.dirs:
                problem = _broken_directory(path, members, reader)
                if problem:
                    return Verdict(Health.BROKEN, f"{path}: {problem}")
        return super().examine(members, reader)

    def trainer_pick(self, view: RootView) -> Pick | None:
        """The newest by mtime of the unmarked ``*-last`` and ``*-end``; without one NeMo starts anew."""
        marked = {claim.path.removesuffix(UNFINISHED) for claim in view.claims if _is_marker(claim)}
        last = [Pick(claim.step, claim.path, "newest *-last") for claims in view.steps.values() for claim in claims]
        last += [Pick(link.step, link.path, "newest *-last") for link in links.pointers(self, view)]
        candidates = [one for one in last if _LAST.fullmatch(_bare(one.path)) and _bare(one.path) not in marked]
        return max(candidates, key=lambda one: (_mtime(view, one.path), one.step or 0), default=None)

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        """The monitored value stands in the name."""
        found: dict[int, dict[str, float]] = {}
        for step, claims in view.steps.items():
            for claim in claims:
                values = {key: value for key, value in _pairs(_bare(claim.path)).items() if key not in _COUNTERS}
                found.setdefault(step, {}).update({key: float(value) for key, value in values.items()})
        return {step: values for step, values in found.items() if values}

    def _numbered(self, entry: Entry, stem: str, part: Part) -> Claim | None:
        pairs = _pairs(stem) if "/" not in stem else {}
        for counter in _COUNTERS:
            whole = _WHOLE.fullmatch(pairs.get(counter, ""))
            if whole:
                return Claim(entry.path, entry.kind, part, int(whole["number"]), counter)
        return None


def _pairs(path: str) -> dict[str, str]:
    """The ``key=value`` pairs of a name that is made of nothing else but a model's name and an ending."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return dict(pair.split("=") for pair in re.findall(_PAIR, found["pairs"])) if found else {}


def _broken_directory(path: str, members: Members, reader: Reader) -> str | None:
    """Why a checkpoint directory is not whole: the distributed checkpoint in it is Megatron's own, under ``weights``
    since NeMo 2 and bare before."""
    for top in (f"{path}/weights", path):
        inside = replace(members, paths=(top,))
        if {"metadata.json", ".metadata"} & inside.below(top).keys() or (top != path and top in members.dirs):
            return incomplete(inside, reader)
    return "no weights in it"


def _strange(claim: Claim, view: RootView) -> bool:
    if claim.part is not Part.PAYLOAD or claim.kind is not Kind.DIR:
        return False
    try:
        inside = {entry.name for entry in islice(view.reader.scan(claim.path), PEEK_LIMIT)}
    except OSError:
        return False  # not seen is not strange: it is judged, and then found unknown
    return bool(inside) and not inside & _OURS and not any(name.startswith("mp_rank_") for name in inside)


def _is_marker(claim: Claim) -> bool:
    return claim.part is not Part.PAYLOAD and claim.path.endswith(UNFINISHED)


def _is_last(claim: Claim) -> bool:
    return _LAST.fullmatch(_bare(claim.path)) is not None


def _orphaned(marker: Claim) -> Claim:
    return replace(marker, part=Part.TEMPORARY)


def _bare(path: str) -> str:
    return path.removesuffix(".ckpt")


def _stem(path: str) -> str:
    """The name without what tells the checkpoints of one step apart."""
    return re.sub(r"(?:-v[0-9]+)?(?:-(?:last|end))?(?:-v[0-9]+)?\Z", "", _bare(path))


def _mtime(view: RootView, path: str) -> int:
    """For the choice between several only: one that cannot be looked at is not what NeMo would find newest."""
    try:
        return view.reader.stat(path).mtime_ns
    except OSError:
        return -1
