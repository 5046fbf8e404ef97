"""Megatron-LM: ``iter_<N>/`` with at least seven digits, and a tracker that names the one to resume from.

Names and files: NVIDIA/Megatron-LM, ``megatron/training/checkpointing.py`` (``get_checkpoint_name``,
``read_metadata``, ``_load_base_checkpoint``), ``core/dist_checkpointing/core.py`` (``metadata.json`` is written
after ``.metadata``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence

from prune.integrity import sidecar
from prune.layouts import rank_grid, trackers
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
from prune.stores.base import read_text

TRACKER = "latest_checkpointed_iteration.txt"
NON_PERSISTENT = "non_persistent"
_ITERATION = re.compile(r"iter_(0[0-9]{6}|[1-9][0-9]{6,17})")
_RANK_DIR = re.compile(r"mp_rank_([0-9]{2,9})(?:_([0-9]{3,9}))?(?:_([0-9]{3,9}))?")
_MODEL_FILES = ("model_optim_rng.pt", "model_rng.pt")
_SEARCHED = 1 << 26  # bytes of a .metadata looked through for marks


class MegatronLM(Around):
    """``release`` and ``non_persistent`` carry no step of this series: foreign, and never touched."""

    name = "megatron-lm"
    title = "Megatron-LM"
    weight = 3

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        found = next((claim for claim in claims if claim.part is Part.PAYLOAD), None)
        if found is None or written_by_bridge(glance, found.path):
            return None
        if glance.has(TRACKER):
            return f"{TRACKER} stands beside {found.path}"
        inside = glance.inside(found.path)
        if "metadata.json" in inside or any(_RANK_DIR.fullmatch(name) for name in inside):
            return f"{found.path} holds what Megatron-LM writes"
        return None

    def own(self, entry: Entry) -> Claim | None:
        if entry.path in self.pointer_names and entry.kind in (Kind.FILE, Kind.LINK):
            return Claim(entry.path, entry.kind, Part.POINTER)
        found = _ITERATION.fullmatch(entry.path) if entry.kind is Kind.DIR else None
        return Claim(entry.path, entry.kind, Part.PAYLOAD, int(found[1])) if found else None

    pointer_names: Collection[str] = (TRACKER,)

    def examine(self, members: Members, reader: Reader) -> Verdict:
        problem = incomplete(members, reader)
        return Verdict(Health.BROKEN, problem) if problem else super().examine(members, reader)

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        pointer = trackers.tracker(view, TRACKER, lambda text: named_iteration(view, text))
        return [pointer] if pointer else []

    def trainer_pick(self, view: RootView) -> Pick | None:
        """What the tracker names, unless a non-persistent checkpoint is as new: Megatron then takes that one."""
        pointer = next((one for one in self.pointers(view) if one.path == view.at(TRACKER)), None)
        persistent = trackers.followed(view, pointer, TRACKER)
        passing = non_persistent_iteration(view)
        if passing is not None and (persistent is None or persistent.step is None or passing >= persistent.step):
            path = view.at(f"{NON_PERSISTENT}/iter_{passing:07d}")
            return Pick(passing, path, f"{NON_PERSISTENT}/{TRACKER}")
        return persistent

    def referenced(self, view: RootView) -> Mapping[int, str]:
        return trackers.named_by(self.pointers(view))


class MegatronNonPersistent(MegatronLM):
    """The folder of non-persistent checkpoints as a root of its own. Megatron globs it recursively for ``iter_*`` and
    turns every name it finds into a number, so nothing of ours may stand in it."""

    name = "megatron-non-persistent"
    title = "Megatron-LM, non-persistent"
    reads_every_entry = True
    weight = 4

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        place = (glance.base or glance.reader.root).rstrip("/").rpartition("/")[2]
        why = super().recognise(glance, claims) if place == NON_PERSISTENT else None
        return f"{why}, in a folder named {NON_PERSISTENT}" if why else None


def named_iteration(view: RootView, text: str) -> trackers.Named:
    """What a tracker's text names: a number, or ``release``."""
    if text == "release":
        return trackers.Named(None, view.at("release"))
    if not re.fullmatch(DIGITS, text):
        raise ValueError(f"holds neither a number nor 'release': {text[:80]!a}")
    return trackers.Named(int(text), view.at(f"iter_{int(text):07d}"))


def non_persistent_iteration(view: RootView) -> int | None:
    """The iteration that the tracker of non-persistent checkpoints names; None when there is none to follow."""
    try:
        text = read_text(view.reader, view.at(f"{NON_PERSISTENT}/{TRACKER}"), limit=1 << 10).strip()
    except (OSError, ValueError):
        return None
    return int(text) if re.fullmatch(DIGITS, text) else None


def incomplete(members: Members, reader: Reader) -> str | None:
    """Why Megatron could not load this directory; None when every part that must be there is."""
    top = members.paths[0]
    files = members.below(top)
    if "metadata.json" in files:
        return _broken_distributed(f"{top}/metadata.json", files, reader) or _missing_by_hashes(top, files, reader)
    if ".metadata" in files:
        if _is_torch_dist(f"{top}/.metadata", reader):
            return "metadata.json missing: the save was not finalised"
        return None
    if any(name.endswith(".distcp") for name in files):
        return "neither .metadata nor metadata.json: the save was not finalised"
    dirs = {name[len(top) + 1 :] for name in members.dirs if name.startswith(top + "/")}
    return _broken_ranks(files, dirs)


def _broken_distributed(path: str, files: Mapping[str, FileStat], reader: Reader) -> str | None:
    try:
        backend = json.loads(read_text(reader, path))["sharded_backend"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "metadata.json cannot be parsed"
    if backend != "zarr" and ".metadata" not in files:
        return ".metadata missing"
    return None


def _missing_by_hashes(top: str, files: Mapping[str, FileStat], reader: Reader) -> str | None:
    """What ``integrity.json``, which a save may write last, has a hash for and is not there."""
    if sidecar.INTEGRITY not in files:
        return None
    try:
        named = sidecar.parse_integrity(read_text(reader, f"{top}/{sidecar.INTEGRITY}", sidecar.LONGEST).encode())
    except ValueError:
        return f"{sidecar.INTEGRITY} cannot be parsed"
    gone = next((name for name in sorted(named) if name not in files), None)
    return f"{gone} missing, for which {sidecar.INTEGRITY} has a hash" if gone is not None else None


def _is_torch_dist(path: str, reader: Reader) -> bool:
    """Whether a ``.metadata`` is Megatron's own kind, which needs ``metadata.json`` beside it; PyTorch's plain kind
    (``torch_dcp``, ``fsdp_dtensor``) does not. Megatron keeps objects as ``key/shard_0.0_1.1``."""
    with reader.open(path) as file:
        data = file.read(_SEARCHED)
    return b"/shard_" in data or b"mcore_data" in data or b"MCoreMetadata" in data


def _broken_ranks(files: Mapping[str, FileStat], dirs: Collection[str]) -> str | None:
    """What is missing of the older format, a directory for each model-parallel rank."""
    ranks = rank_grid.ranks(dirs, _RANK_DIR)
    if not ranks:
        return "no rank's files in it"
    missing = rank_grid.gap(ranks)
    if missing is not None:
        return f"the directory of model-parallel rank {'/'.join(map(str, missing))} is missing"
    holders = sorted(name for name in dirs if _RANK_DIR.fullmatch(name))
    for name in holders:
        if not any(f"{name}/{file}" in files for file in _MODEL_FILES):
            return f"{name}/{_MODEL_FILES[0]} missing"
    with_optimizer = [name for name in holders if f"{name}/distrib_optim.pt" in files]
    if with_optimizer and len(with_optimizer) < len(holders):
        without = next(name for name in holders if name not in with_optimizer)
        return f"{without}/distrib_optim.pt missing"
    return None


def written_by_bridge(glance: Glance, step: str) -> bool:
    return glance.has("latest_train_state.pt") or bool(glance.inside(step) & {"train_state.pt", "run_config.yaml"})
