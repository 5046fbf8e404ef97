"""Accelerate's ``save_state``: ``checkpoints/checkpoint_<counter>``, or directories that a script names itself.

Names and files: huggingface/accelerate, ``src/accelerate/checkpointing.py`` (``save_accelerator_state`` writes
``random_states_<rank>.pkl`` after models, optimizers, schedulers and samplers; ``save_custom_state`` after that) and
``accelerator.py`` (``load_state`` without a path takes the entry of ``checkpoints/`` with the highest first number, and
stops at an entry without any). Numbers of automatic names count saves, not steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from prune.layouts import markers, metric_files, rank_grid, series
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
    Reader,
    RootView,
    Verdict,
)  # fmt: skip
from prune.layouts.trackers import DIGITS

AUTOMATIC = "checkpoints"  # the folder whose every entry ``load_state`` reads
_STEP = re.compile(rf"(?P<series>checkpoint[_-]|step[_-]|epoch[_-])(?P<step>{DIGITS})")
_RANDOM = re.compile(r"random_states_([0-9]{1,9})\.pkl")
_CUSTOM = re.compile(r"custom_checkpoint_([0-9]{1,9})\.pkl")
_MODEL = re.compile(
    r"(?:model|pytorch_model)[^/]*\.(?:safetensors|bin)(?:\.index\.json)?|pytorch_model(?:_fsdp)?(?:_[0-9]+)?/.+"
    r"|adapter_model\.(?:safetensors|bin)|(?:.+/)?[^/]+\.safetensors",
)
_OPTIMIZER = re.compile(r"optimizer[^/]*\.(?:bin|pt)|optimizer_[0-9]+/.+|pytorch_model/.+")
_DROPPED = re.compile(r"optimizer[^/]*\.(?:bin|pt)|optimizer_[0-9]+")
_DROPPED_TOO = re.compile(r"(?:scheduler|sampler|dl_state_dict)(?:_[0-9]+)?\.bin|scaler\.pt|random_states_[0-9]+\.pkl")
_FIRST_NUMBER = re.compile(r"[0-9]+")


class Accelerate(Around):
    name = "accelerate"
    title = "Accelerate"
    weight = 3
    reads_every_entry = True
    unthinnable = None

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        for claim in claims:
            inside = glance.inside(claim.path) if claim.part is Part.PAYLOAD else frozenset()
            found = next((name for name in sorted(inside) if _RANDOM.fullmatch(name)), None)
            if found is not None:
                return f"{claim.path} holds {found}, as Accelerate's save_state writes it"
        return None

    def own(self, entry: Entry) -> Claim | None:
        found = None if entry.kind is Kind.FILE else _STEP.fullmatch(entry.path)
        return found and Claim(entry.path, entry.kind, Part.PAYLOAD, int(found["step"]), found["series"])

    def settle(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        return series.settle(claims)

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        return series.collision(claims)

    def examine(self, members: Members, reader: Reader) -> Verdict:
        path, files = markers.top(members)
        if path not in members.dirs:
            return super().examine(members, reader)
        return (
            _unfinished(path, files, thinned=members.thinned)
            or _broken_tag(members, files, reader)
            or super().examine(members, reader)
        )

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        return metric_files.beside(view)

    def trainer_pick(self, view: RootView) -> Pick | None:
        """With automatic names ``load_state`` reads every entry, ours or not; else the script names one itself."""
        folder = view.base or view.reader.root.rstrip("/")
        if folder.rpartition("/")[2] != AUTOMATIC:
            return super().trainer_pick(view)
        best: tuple[int, str] | None = None
        for entry in view.reader.scan(view.base):
            number = _FIRST_NUMBER.search(entry.name)
            if number is None:
                return Pick(None, entry.path, "load_state stops at this entry, which has no number in its name")
            best = max(best or (-1, ""), (int(number[0][:18]), entry.path))
        if best is None:
            return None
        step = next((step for step, claims in view.steps.items() if claims[0].path == best[1]), None)
        return Pick(step, best[1], "highest number of all entries")

    def weights_only(self, members: Members) -> bool:
        _, files = markers.top(members)
        return not any(_OPTIMIZER.fullmatch(name) for name in files)

    def resume_only(self, members: Members) -> Sequence[str]:
        """Optimizers, schedulers, samplers and random states. What a script registered itself
        (``custom_checkpoint_*.pkl``) may be anything, and stays; under DeepSpeed all of it lies in one folder."""
        _, files = markers.top(members)
        if any(name.startswith("pytorch_model/") for name in files):
            return ()
        optimizer = markers.matching(members, _DROPPED)
        return [*optimizer, *markers.matching(members, _DROPPED_TOO)] if optimizer else ()


def _broken_tag(members: Members, files: Mapping[str, FileStat], reader: Reader) -> Verdict | None:
    """Under DeepSpeed the model's folder is one of its tags, in which every rank's files must be."""
    tags = {name.partition("/")[0] for name in files if name.endswith("_model_states.pt") and name.count("/") == 1}
    if not tags:
        return None
    from prune.layouts import deepspeed

    return next((bad for tag in sorted(tags) if (bad := deepspeed.unfinished_below(members, tag, reader))), None)


def _unfinished(path: str, files: Mapping[str, FileStat], *, thinned: bool) -> Verdict | None:
    """What is missing of the families that one save writes: models first, random states of every rank last."""
    if not files:
        return markers.broken(path, f"holds no file: {markers.UNFINISHED}")
    if not any(_MODEL.fullmatch(name) for name in files):
        return markers.missing(path, "every file of a model", "there is nothing to resume from")
    ranks = rank_grid.ranks(files, _RANDOM)
    if not ranks and not thinned:
        return markers.missing(path, "random_states_0.pkl")
    for found, what in ((ranks, "random_states_{}.pkl"), (rank_grid.ranks(files, _CUSTOM), "custom_checkpoint_{}.pkl")):
        gap = rank_grid.gap(found)
        if gap is not None:
            return Verdict(Health.BROKEN, f"{path}: {what.format(*gap)} is missing: another rank's save is there")
    return None
