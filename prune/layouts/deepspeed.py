"""DeepSpeed: ``global_step<N>/`` tags beside a text file ``latest`` that names the one to resume from.

Names and files: deepspeedai/DeepSpeed, ``runtime/engine.py`` (``save_checkpoint``, ``_get_zero_ckpt_name``),
``utils/zero_to_fp32.py`` (``parse_optim_states`` asks for as many optimizer files as there are partitions).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from prune.layouts import markers, rank_grid, torch_state, trackers
from prune.layouts.around import Around
from prune.layouts.base import (
    Claim,
    Entry,
    FileStat,
    Glance,
    Health,
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

_TAG = re.compile(rf"(?P<series>[A-Za-z](?:[A-Za-z0-9_.=-]*[A-Za-z_.=-])?)(?P<step>{DIGITS})")
_OPTIMIZER = re.compile(r"(?:bf16_)?zero_pp_rank_([0-9]{1,9})_mp_rank_([0-9]{1,9})_optim_states\.pt")
_OPTIMIZER_STATES = re.compile(r"[^/]*_optim_states\.pt")
_SHARDED_MODEL = re.compile(r"zero_pp_rank_([0-9]{1,9})_mp_rank_([0-9]{1,9})_model_states\.pt")
_MODEL = re.compile(r"mp_rank_([0-9]{1,9})_model_states\.pt")
_DEFAULT = "global_step"
_LOOKED_INTO = 16  # tags of free names, when only looking what a directory is
_POINTERS = ("latest", "latest_universal")


class DeepSpeed(Around):
    """Tags are free text: beside ``global_step<N>`` a series of tags counts as steps only where ``latest`` names one
    of it. A tag without a number is never a step, and never touched."""

    name = "deepspeed"
    title = "DeepSpeed"
    weight = 3
    unthinnable = None

    def __init__(self) -> None:
        self._series: str | None = None  # named by the latest of a root listed before: a mirror has its own last

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        tags = [claim for claim in claims if claim.part is Part.PAYLOAD]
        usual = [claim for claim in tags if claim.series == _DEFAULT]
        for claim in usual or (tags[:_LOOKED_INTO] if glance.has("latest") else ()):
            if any(name.endswith("_states.pt") for name in glance.inside(claim.path)):
                return f"{claim.path} holds *_states.pt files as DeepSpeed writes them"
        return None

    def own(self, entry: Entry) -> Claim | None:
        if entry.path in _POINTERS and entry.kind in (Kind.FILE, Kind.LINK):
            return Claim(entry.path, entry.kind, Part.POINTER)
        tag = _TAG.fullmatch(entry.path) if entry.kind is Kind.DIR else None
        if tag is None:
            return None
        return Claim(entry.path, entry.kind, Part.PAYLOAD, int(tag["step"]), tag["series"])

    def renumber(self, claims: Sequence[Claim], view: RootView) -> Sequence[Claim]:
        """Numbers of two series cannot be ordered: ``global_step`` it is, else the series that ``latest`` names."""
        if _DEFAULT in trackers.series_of(claims):
            return trackers.only_series(claims, _DEFAULT)
        tag = _TAG.fullmatch(trackers.text(view, "latest") or "")
        self._series = tag["series"] if tag else self._series
        return trackers.only_series(claims, self._series or _DEFAULT)

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        return trackers.twice(claims)

    def examine(self, members: Members, reader: Reader) -> Verdict:
        path, files = markers.top(members)
        verdict = missing_ranks(path, files) or super().examine(members, reader)
        if members.thinned or not verdict.health.restorable:
            return verdict
        return fewer_than_recorded(path, files, reader) or verdict

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        found = (trackers.tracker(view, name, lambda text: _named(view, text)) for name in _POINTERS)
        return [pointer for pointer in found if pointer is not None]

    def trainer_pick(self, view: RootView) -> Pick | None:
        """Whatever ``latest`` names; without it DeepSpeed starts anew, however many tags there are."""
        pointer = next((one for one in self.pointers(view) if one.path == view.at("latest")), None)
        return trackers.followed(view, pointer, "latest")

    def referenced(self, view: RootView) -> Mapping[int, str]:
        return trackers.named_by(self.pointers(view))

    def weights_only(self, members: Members) -> bool:
        names = members.below(members.paths[0])
        return any(name.endswith("_model_states.pt") for name in names) and not any(
            "optim_states" in name for name in names
        )

    def resume_only(self, members: Members) -> Sequence[str]:
        """The optimizer's files of ZeRO 1 and 2, which keep the weights in the precision of training beside them.

        Under ZeRO 3 the weights themselves are in there (``zero_pp_rank_*_model_states.pt`` tell it), so nothing goes.
        """
        _, files = markers.top(members)
        if rank_grid.ranks(files, _SHARDED_MODEL) or not rank_grid.ranks(files, _MODEL):
            return ()
        return markers.matching(members, _OPTIMIZER_STATES)


def _named(view: RootView, text: str) -> trackers.Named:
    """The tag in a pointer. Its step counts only where tags of its series are steps here."""
    if not text.isprintable():
        raise ValueError(f"names no tag: {text[:80]!a}")
    tag = _TAG.fullmatch(text)
    known = tag is not None and tag["series"] in trackers.series_of(view.claims)
    return trackers.Named(int(tag["step"]) if tag and known else None, view.at(text))


def missing_ranks(path: str, files: Mapping[str, FileStat]) -> Verdict | None:
    """What is wrong with the set of files in one tag directory; None when every rank's are there."""
    optimizer, models = rank_grid.ranks(files, _OPTIMIZER), rank_grid.ranks(files, _MODEL)
    sharded = rank_grid.ranks(files, _SHARDED_MODEL)
    if not (models or sharded or any(name.endswith("model_states.pt") for name in files)):
        return markers.missing(path, "every *_model_states.pt")
    for found, what in (
        (optimizer, "zero_pp_rank_{}_mp_rank_{:02d}_optim_states.pt"),
        (sharded, "zero_pp_rank_{}_mp_rank_{:02d}_model_states.pt"),
        (models, "mp_rank_{:02d}_model_states.pt"),
    ):
        gap = rank_grid.gap(found)
        if gap is not None:
            return markers.missing(path, what.format(*gap))
    if optimizer and sharded and optimizer != sharded:
        return markers.broken(path, f"{len(sharded)} files of model states beside {len(optimizer)} of optimizer states")
    return None


def unfinished_below(members: Members, tag: str, reader: Reader) -> Verdict | None:
    """What is wrong with a tag that another stack keeps inside a checkpoint of its own, by its path in that."""
    path = f"{members.paths[0]}/{tag}"
    files = members.below(path)
    gap = missing_ranks(path, files)
    return gap if gap is not None or members.thinned else fewer_than_recorded(path, files, reader)


def fewer_than_recorded(path: str, files: Mapping[str, FileStat], reader: Reader) -> Verdict | None:
    """The model states record how many partitions there are, which the names of a short set cannot tell."""
    states = next((name for name in sorted(files) if _MODEL.fullmatch(name) or _SHARDED_MODEL.fullmatch(name)), None)
    if states is None:
        return None
    found = len({numbers[0] for numbers in rank_grid.ranks(files, _OPTIMIZER)})
    try:
        partitions = torch_state.number(reader, f"{path}/{states}", "dp_world_size")
        stage = torch_state.number(reader, f"{path}/{states}", "ds_config", "zero_optimization", "stage")
    except OSError as error:
        return Verdict(Health.UNKNOWN, f"{path}/{states}: could not be read: {error.strerror or error}")
    if partitions is None or (found == 0 and not stage) or found >= partitions:
        return None
    return markers.missing(path, f"*_optim_states.pt of {partitions - found} of {partitions} partitions")
