"""nanoGPT: one file ``ckpt.pt``, rewritten in place. Nothing to prune; it is verified, mirrored and resumed from.

Source: karpathy/nanoGPT, ``train.py`` (``torch.save`` of a dict with ``iter_num``). A kill in the middle of a save
leaves nothing to go back to, unless a mirror holds an older one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prune.layouts import torch_state
from prune.layouts.around import Around
from prune.layouts.base import Claim, Entry, Glance, Kind, Part, Pick, RootView

FILE = "ckpt.pt"


class NanoGPT(Around):
    """The step is the ``iter_num`` that the file holds; 0 where that cannot be read."""

    name = "nanogpt"
    title = "nanoGPT"
    weight = 2

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        try:
            number = torch_state.number(glance.reader, glance.at(FILE), "iter_num")
        except OSError:
            return None
        return f"{FILE} holds an iter_num, as nanoGPT writes it" if number is not None else None

    def own(self, entry: Entry) -> Claim | None:
        is_file = entry.path == FILE and entry.kind is Kind.FILE
        return Claim(entry.path, entry.kind, Part.PAYLOAD, 0) if is_file else None

    def renumber(self, claims: Sequence[Claim], view: RootView) -> Sequence[Claim]:
        """What stands around the file goes under the same number."""
        if not any(claim.part is Part.PAYLOAD for claim in claims):
            return claims
        try:
            number = torch_state.number(view.reader, view.at(FILE), "iter_num")
        except OSError:
            number = None
        step = number if number is not None and 0 <= number < 10**18 else 0
        return [replace(claim, step=step) if claim.step == 0 else claim for claim in claims]

    def trainer_pick(self, view: RootView) -> Pick | None:
        found = super().trainer_pick(view)
        return Pick(found.step, found.path, FILE) if found else None
