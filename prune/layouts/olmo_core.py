"""OLMo-core: ``step<N>/`` with ``model_and_optim/`` (DCP), ``train/rank<R>.pt`` and ``.metadata.json`` last.

Names and files: allenai/OLMo-core, ``src/olmo_core/train/checkpoint.py`` (``dir_is_checkpoint``,
``latest_checkpoint``; a save is staged in ``step<N>-tmp``), ``train/callbacks/checkpointer.py`` (its own removal
takes ``.metadata.json`` first).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from prune.layouts import markers, rank_grid, trackers
from prune.layouts.around import Around
from prune.layouts.base import Claim, Entry, Glance, Kind, Members, Part, Pick, Reader, RootView, Verdict

METADATA = ".metadata.json"
_STEP = re.compile(rf"step(?P<step>{trackers.NUMBER})")
_MODEL_ONLY = ".metadata"
_REQUIRED = (METADATA, "train/rank0.pt", "model_and_optim/.metadata")
_RANK = re.compile(r"train/rank([0-9]{1,9})\.pt")


class OlmoCore(Around):
    name = "olmo-core"
    title = "OLMo-core"
    weight = 3

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        for claim in claims:
            if claim.part is Part.PAYLOAD and glance.inside(claim.path) & {"model_and_optim", METADATA}:
                return f"{claim.path} holds what OLMo-core writes"
        return None

    def own(self, entry: Entry) -> Claim | None:
        found = _STEP.fullmatch(entry.path) if entry.kind is Kind.DIR else None
        return Claim(entry.path, entry.kind, Part.PAYLOAD, int(found["step"])) if found else None

    def examine(self, members: Members, reader: Reader) -> Verdict:
        path, files = markers.top(members)
        if _MODEL_ONLY not in files:
            for name in _REQUIRED:
                if name not in files:
                    return markers.missing(path, name)
            gap = rank_grid.gap(rank_grid.ranks(files, _RANK))
            if gap is not None:
                return markers.missing(path, f"train/rank{gap[0]}.pt")
        return super().examine(members, reader)

    def trainer_pick(self, view: RootView) -> Pick | None:
        """The highest number that OLMo-core takes for a checkpoint."""
        for step in sorted(view.steps, reverse=True):
            path = view.steps[step][0].path
            if _there(view, f"{path}/{_MODEL_ONLY}") or all(_there(view, f"{path}/{name}") for name in _REQUIRED):
                return Pick(step, path, f"highest number with {METADATA}")
        return None

    def weights_only(self, members: Members) -> bool:
        """A bare model, without the trainer's state."""
        _, files = markers.top(members)
        return _MODEL_ONLY in files and not any(_RANK.fullmatch(name) for name in files)


def _there(view: RootView, path: str) -> bool:
    """As OLMo-core sees it: what cannot be looked at is not there."""
    try:
        view.reader.stat(path)
    except OSError:
        return False
    return True
