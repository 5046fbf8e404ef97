"""LLaMA-Factory v1: ``checkpoint-<N>`` directories, complete with an empty file ``CHECKPOINT_COMPLETE``.

Names and order: hiyouga/LLaMA-Factory, ``src/llamafactory/v1/core/utils/checkpoint.py`` (``metadata.json`` first, the
marker last; its rotation removes every ``checkpoint-*`` that has no marker). The older engine is the Hugging Face
Trainer's, layout ``hf-trainer``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from prune.layouts import markers, metric_files, rank_grid
from prune.layouts.base import (
    Claim,
    FileStat,
    Glance,
    Health,
    Layout,
    Members,
    Part,
    Pick,
    Reader,
    RootView,
    Verdict,
)
from prune.layouts.hf_trainer import HfTrainer
from prune.layouts.rotation import Rotation
from prune.model import EMPTY

MARKER = "CHECKPOINT_COMPLETE"
METADATA = "metadata.json"
_RANKS = {
    "dataloader": re.compile(r"dataloader/rank_([0-9]{1,9})\.pt"),
    "rng_state": re.compile(r"rng_state/rank_([0-9]{1,9})\.pt"),
}


class LlamaFactory(HfTrainer):
    name = "llama-factory"
    title = "LLaMA-Factory v1"
    weight = 4
    unthinnable: str | None = Layout.unthinnable

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        for claim in claims:
            if claim.part is Part.PAYLOAD and MARKER in glance.inside(claim.path):
                return f"{claim.path} holds {MARKER}, as LLaMA-Factory v1 writes it"
        return None

    def examine(self, members: Members, reader: Reader) -> Verdict:
        path, files = markers.top(members)
        return _unfinished(path, files, members.step, reader) or Layout.examine(self, members, reader)

    def trainer_pick(self, view: RootView) -> Pick | None:
        """The highest number that has the marker; without any training starts anew."""
        for step in sorted(view.steps, reverse=True):
            path = view.steps[step][0].path
            try:
                view.reader.stat(f"{path}/{MARKER}")
            except OSError:
                continue  # the trainer, too, takes what it cannot see for incomplete
            return Pick(step, path, f"highest number with {MARKER}")
        return None

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        return EMPTY

    def best_recorded(self, view: RootView) -> int | None:
        return None

    def referenced(self, view: RootView) -> Mapping[int, str]:
        return EMPTY

    def weights_only(self, members: Members) -> bool:
        _, files = markers.top(members)
        return bool(files) and not any(name.startswith(("optimizer", "global_step", "__")) for name in files)

    def resume_only(self, members: Members) -> Sequence[str]:
        return ()

    def rotation(self, view: RootView) -> Rotation | None:
        return None


def _unfinished(path: str, files: Mapping[str, FileStat], step: int, reader: Reader) -> Verdict | None:
    """What the trainer's own files say against this checkpoint."""
    for name in (MARKER, METADATA):
        if name not in files:
            return markers.missing(path, name)
    found = {folder: rank_grid.ranks(files, pattern) for folder, pattern in _RANKS.items()}
    for folder, ranks in found.items():
        gap = rank_grid.gap(ranks)
        if gap is not None:
            return markers.missing(path, f"{folder}/rank_{gap[0]}.pt")
    if found["rng_state"] and found["rng_state"] != found["dataloader"]:
        return markers.broken(path, "rng_state and dataloader are of different numbers of ranks")
    return _metadata_against(f"{path}/{METADATA}", step, reader)


def _metadata_against(path: str, step: int, reader: Reader) -> Verdict | None:
    try:
        told = metric_files.read_json(reader, path, 1 << 20)
    except OSError as error:
        return Verdict(Health.UNKNOWN, f"{path}: cannot be read: {error.strerror or error}")
    except ValueError as error:
        return markers.broken(path, f"cannot be parsed ({error}): {markers.UNFINISHED}")
    if isinstance(told, dict) and told.get("global_step") == step:
        return None
    return Verdict(Health.SUSPECT, f"{path}: its global_step is not the {step} of the directory")
