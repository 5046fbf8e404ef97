"""Megatron-Bridge: Megatron-LM's directories with a train state in each, and two trackers beside them.

Names and files: NVIDIA-NeMo/Megatron-Bridge, ``training/utils/checkpoint_utils.py``, ``training/checkpointing.py``
(the loader follows ``latest_train_state.pt`` and looks at the text only without it; ``run_config.yaml`` is written
last), ``training/state.py`` (the state is a dict of tensors, ``step`` one of them).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from prune.layouts import torch_state, trackers
from prune.layouts.base import (
    Claim,
    Entry,
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
from prune.layouts.megatron_lm import TRACKER, MegatronLM, written_by_bridge
from prune.layouts.rotation import Rotation, in_plain_text
from prune.model import PointerState

STATE_TRACKER = "latest_train_state.pt"
_LOADER_STATE = "energon"
_MARKERS = ("train_state.pt", "run_config.yaml")


class MegatronBridge(MegatronLM):
    """``energon/iter_N`` holds the data loader's state of step N and goes with it."""

    name = "megatron-bridge"
    title = "Megatron-Bridge"
    weight = 4
    pointer_names: Collection[str] = (STATE_TRACKER, TRACKER)

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        found = next((claim for claim in claims if claim.part is Part.PAYLOAD), None)
        if found is None or not written_by_bridge(glance, found.path):
            return None
        return f"{found.path} or {STATE_TRACKER} holds a train state as Megatron-Bridge writes it"

    def own(self, entry: Entry) -> Claim | None:
        if entry.path == _LOADER_STATE and entry.kind is Kind.DIR:
            return Claim(entry.path, entry.kind, Part.CONTAINER)
        head, _, name = entry.path.partition("/")
        if head == _LOADER_STATE and name:
            beside = super().own(Entry(name, entry.kind))
            is_step = beside is not None and beside.part is Part.PAYLOAD
            return Claim(entry.path, entry.kind, Part.SIDECAR, beside.step) if beside and is_step else None
        return super().own(entry)

    def withdraw_order(self, paths: Iterable[str]) -> list[str]:
        """The model first: without it the loader's state is nothing, with it alone a run would see its data anew."""
        return sorted(paths, key=lambda path: (path.rpartition("/")[0].endswith(_LOADER_STATE), path))

    def examine(self, members: Members, reader: Reader) -> Verdict:
        inside = members.below(members.paths[0])
        for name in _MARKERS:
            if name not in inside:
                return Verdict(Health.BROKEN, f"{name} missing: the save was not finalised")
        return super().examine(members, reader)

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        state = _state_pointer(view)
        return [*([state] if state else []), *super().pointers(view)]

    def rotation(self, view: RootView) -> Rotation | None:
        """The newest step's own configuration."""
        steps = sorted(view.steps, reverse=True)[:1]
        return next((in_plain_text(replace(view, base=view.steps[step][0].path), ("run_config.yaml",), "most_recent_k")
                     for step in steps), None)  # fmt: skip

    def trainer_pick(self, view: RootView) -> Pick | None:
        """The train state decides wherever it is there, the text only without it."""
        state = _state_pointer(view)
        return super().trainer_pick(view) if state is None else trackers.followed(view, state, STATE_TRACKER)


def _state_pointer(view: RootView) -> Pointer | None:
    path = view.at(STATE_TRACKER)
    claim = view.by_path.get(path)
    if claim is None or claim.kind is not Kind.FILE:
        return None
    try:
        step = torch_state.number(view.reader, path, "step")
    except OSError as error:
        return Pointer("", path, None, PointerState.UNREADABLE, f"cannot be read: {error}")
    if step is None or step < 0:
        return Pointer("", path, None, PointerState.UNREADABLE, "holds no step")
    return trackers.pointing(view, path, trackers.Named(step, view.at(f"iter_{step:07d}")))
