"""Hugging Face Trainer: ``checkpoint-<global_step>`` directories, ``trainer_state.json`` written last.

Names and order: huggingface/transformers 5.24, ``trainer.py`` (``_save_checkpoint``, ``_load_best_model``),
``trainer_utils.py`` (``get_last_checkpoint``: the highest number, whole or not), ``trainer_jit_checkpoint.py`` (the
marker of an incomplete save). Older releases staged in ``tmp-checkpoint-<N>`` and ``tmp-checkpoint-<random>``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from prune.layouts import markers, metric_files
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
    Reader,
    RootView,
    Verdict,
)  # fmt: skip
from prune.layouts.rotation import Rotation
from prune.layouts.trackers import DIGITS, NUMBER
from prune.model import EMPTY
from prune.stores.base import read_text

STATE = "trainer_state.json"
ARGUMENTS, LIMIT = "training_args.bin", "save_total_limit"
JIT_MARKER = "checkpoint-is-incomplete.txt"
LONG_STATE = 16 << 20  # a longer log is not parsed to learn one number
_STEP = re.compile(rf"checkpoint-(?P<step>{DIGITS})")
_UNPADDED = re.compile(rf"checkpoint-{NUMBER}")
_STAGED = re.compile(rf"\.?tmp-checkpoint-(?:(?P<step>{DIGITS})|[A-Za-z0-9_]+)")
_GLOBAL_STEP = re.compile(r'"global_step":\s*(?P<step>[0-9]{1,18})\b')
_DEEPSPEED = re.compile(r"global_step[0-9]+")
_RANK = re.compile(r"rng_state_([0-9]{1,9})\.pth")
_OPTIMIZER = re.compile(r"optimizer(?:_[0-9]+)?(?:/.+|\.(?:pt|bin|safetensors))|rank[0-9]+-of-[0-9]+-optimizer\.pt")
_DEEPSPEED_OPTIMIZER = re.compile(r"global_step[0-9]+/[^/]*optim_states\.pt")
_DROPPED = re.compile(r"optimizer_[0-9]+|optimizer\.(?:pt|bin|safetensors)|rank[0-9]+-of-[0-9]+-optimizer\.pt")
_DROPPED_TOO = re.compile(r"(?:scheduler|scaler)\.(?:pt|bin)|rng_state(?:_[0-9]+)?\.pth")
_NO_WEIGHTS = re.compile(
    r"(?:optimizer|scheduler|scaler|rng_state|random_states|training_args|trainer_state|dl_state_dict|sampler)"
    r"[^/]*|optimizer_[0-9]+/.*|(?:[^/]*/)*[^/]*tokenizer[^/]*",
)
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".distcp", ".h5", ".msgpack", ".npz", ".gguf")


class HfTrainer(Around):
    name = "hf-trainer"
    title = "Hugging Face Trainer"
    weight = 3
    unthinnable: str | None = None

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        for claim in claims:
            inside = glance.inside(claim.path) if claim.part is Part.PAYLOAD else frozenset()
            for name in (STATE, ARGUMENTS):
                if name in inside:
                    return f"{claim.path} holds {name}, as the Hugging Face Trainer writes it"
        return None

    def own(self, entry: Entry) -> Claim | None:
        if entry.kind is Kind.FILE:
            return None  # the Trainer looks at directories only
        found = _STEP.fullmatch(entry.path)
        if found is not None:
            padded = "" if _UNPADDED.fullmatch(entry.path) else entry.path
            return Claim(entry.path, entry.kind, Part.PAYLOAD, int(found["step"]), padded)
        staged = _STAGED.fullmatch(entry.path) if entry.kind is Kind.DIR else None
        if staged is None:
            return None
        step = staged["step"]
        return Claim(entry.path, entry.kind, Part.TEMPORARY, int(step) if step else None)

    def examine(self, members: Members, reader: Reader) -> Verdict:
        path, files = markers.top(members)
        if path not in members.dirs:
            return super().examine(members, reader)
        unfinished = _unfinished(path, files, members, reader)
        if unfinished is not None and unfinished.health is Health.BROKEN:
            return unfinished
        verdict = super().examine(members, reader)
        return unfinished if unfinished is not None and verdict.health.restorable else verdict

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        """What the newest state that can be parsed logged at each step that is here."""
        found: dict[int, dict[str, float]] = {}
        history = newest_state(view).get("log_history")
        for row in history if isinstance(history, list) else ():
            step = row.get("step") if isinstance(row, dict) else None
            if isinstance(step, int) and step in view.steps:
                found.setdefault(step, {}).update(metric_files.numbers(row))
        return found

    def best_recorded(self, view: RootView) -> int | None:
        state = newest_state(view)
        step, path = state.get("best_global_step"), state.get("best_model_checkpoint")
        if isinstance(path, str) and (named := _STEP.fullmatch(path.rstrip("/").rpartition("/")[2])):
            return int(named["step"])
        return step if isinstance(step, int) and not isinstance(step, bool) and step in view.steps else None

    def referenced(self, view: RootView) -> Mapping[int, str]:
        best = self.best_recorded(view)
        return {best: f"{STATE} names it as best"} if best in view.steps and best is not None else EMPTY

    def rotation(self, view: RootView) -> Rotation | None:
        """``save_total_limit`` out of the newest ``training_args.bin`` that can be read, which every save holds."""
        from prune.layouts import torch_state

        for step in sorted(view.steps, reverse=True):
            path = f"{view.steps[step][0].path}/{ARGUMENTS}"
            try:
                limit = torch_state.value(view.reader, path, LIMIT)
            except (LookupError, OSError):
                continue
            return Rotation(limit if isinstance(limit, int) and limit > 0 else None, LIMIT, path)
        return None

    def weights_only(self, members: Members) -> bool:
        """``save_only_model`` leaves out optimizer, scheduler and random states."""
        _, files = markers.top(members)
        return not any(_OPTIMIZER.fullmatch(name) or _DEEPSPEED.match(name) for name in files)

    def resume_only(self, members: Members) -> Sequence[str]:
        """Optimizer, scheduler, scaler and random states; ``trainer_state.json``, by which a save is told whole, stays.

        Under DeepSpeed the optimizer's files may be the only ones that hold all weights, so they go only where the
        model was saved beside them.
        """
        _, files = markers.top(members)
        if not any("/" not in name and _is_weights(name) for name in files) and not _fsdp_model(files):
            return ()
        optimizer = [*markers.matching(members, _DROPPED), *markers.matching(members, _DEEPSPEED_OPTIMIZER)]
        return [*optimizer, *markers.matching(members, _DROPPED_TOO)] if optimizer else ()


def newest_state(view: RootView) -> Mapping[str, Any]:
    """The newest ``trainer_state.json`` that can be read and parsed; each carries the history of the earlier ones.

    One that cannot be read makes its own checkpoint unknown; the next older tells nearly as much.
    """
    if "trainer_state" not in view.memo:
        view.memo["trainer_state"] = EMPTY
        for step in sorted(view.steps, reverse=True):
            try:
                state = metric_files.read_json(view.reader, f"{view.steps[step][0].path}/{STATE}")
            except (OSError, ValueError):
                continue
            if isinstance(state, dict):
                view.memo["trainer_state"] = state
                break
    found: Mapping[str, Any] = view.memo["trainer_state"]
    return found


def _unfinished(path: str, files: Mapping[str, FileStat], members: Members, reader: Reader) -> Verdict | None:
    """What the Trainer's own files say against this checkpoint."""
    if not files:
        return markers.broken(path, f"holds no file: {markers.UNFINISHED}")
    if STATE not in files:
        return markers.missing(path, STATE)
    if JIT_MARKER in files:
        return markers.broken(path, f"{JIT_MARKER} is there: the save on a signal was cut off")
    if not any(_is_weights(name) for name in files):
        return markers.missing(path, "every file of weights", "there is nothing to resume from")
    if (lost := _lost_rank(files)) is not None:
        return markers.missing(path, lost, "ranks below and above it wrote theirs")
    if (tag := _broken_tag(path, files, members, reader)) is not None:
        return tag
    return _state_against(f"{path}/{STATE}", files[STATE].size, members.step, reader)


def _lost_rank(files: Mapping[str, FileStat]) -> str | None:
    """The random state of a rank between others. Where each node has a disk of its own, its ranks begin anywhere."""
    ranks = sorted(int(found[1]) for name in files if (found := _RANK.fullmatch(name)))
    hole = next((one + 1 for one, other in pairwise(ranks) if other > one + 1), None)
    return None if hole is None else f"rng_state_{hole}.pth"


def _fsdp_model(files: Mapping[str, FileStat]) -> bool:
    """FSDP keeps sharded weights in a folder of their own, apart from ``optimizer_0``."""
    return any(name.startswith("pytorch_model_fsdp") for name in files)


def _is_weights(name: str) -> bool:
    return name.endswith(_WEIGHTS) and _NO_WEIGHTS.fullmatch(name) is None


def _broken_tag(path: str, files: Mapping[str, FileStat], members: Members, reader: Reader) -> Verdict | None:
    """Under DeepSpeed a text file ``latest`` in the checkpoint names its folder ``global_step<N>``, in which every
    rank's files must be."""
    if "latest" not in files or not any(_DEEPSPEED.match(name) for name in markers.at_top(files)):
        return None
    try:
        tag = read_text(reader, f"{path}/latest", limit=4096).strip()
    except (OSError, ValueError) as error:
        return Verdict(Health.UNKNOWN, f"{path}/latest: cannot be read: {error}")
    if tag in markers.at_top(files):
        from prune.layouts import deepspeed

        return deepspeed.unfinished_below(members, tag, reader)
    return markers.broken(f"{path}/latest", f"names {tag!r}, which is not there")


def _state_against(path: str, size: int, step: int, reader: Reader) -> Verdict | None:
    """The state must parse and tell the step of its directory."""
    try:
        told = _long_step(path, size, reader) if size > LONG_STATE else _told_step(path, reader)
    except OSError as error:
        return Verdict(Health.UNKNOWN, f"{path}: cannot be read: {error.strerror or error}")
    except ValueError as error:
        return markers.broken(path, f"cannot be parsed ({error}): {markers.UNFINISHED}")
    if told == step:
        return None
    return Verdict(Health.SUSPECT, f"{path}: its global_step is {told}, the directory says {step}")


def _told_step(path: str, reader: Reader) -> Any:
    state = metric_files.read_json(reader, path)
    if not isinstance(state, dict):
        raise ValueError("no JSON object")
    return state.get("global_step")


def _long_step(path: str, size: int, reader: Reader) -> int | None:
    """The step from the head of a long state, whose keys are sorted, when its last byte closes the object."""
    with reader.open(path) as file:
        head = file.read(1 << 16).decode("utf-8", "replace")
        file.seek(max(0, size - 64))
        tail = file.read(64).rstrip()
    if not tail.endswith(b"}"):
        raise ValueError("its end is missing")
    found = _GLOBAL_STEP.search(head)
    return int(found["step"]) if found else None
