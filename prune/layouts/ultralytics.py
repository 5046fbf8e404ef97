"""ultralytics: ``weights/epoch<E>.pt``, numbered from zero, beside ``last.pt`` and ``best.pt``.

Names and files: ultralytics, ``engine/trainer.py`` (``save_model``: the same bytes under each name; ``save_metrics``;
``strip_optimizer`` at the end of a run), ``utils/files.py`` (``get_latest_run``: the newest ``last*.pt`` by ctime).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from prune.layouts import csv_metrics, torch_state, trackers, twins
from prune.layouts.around import Around
from prune.layouts.base import Claim, Entry, Glance, Kind, Part, Pick, Pointer, RootView
from prune.model import PointerState

_EPOCH = re.compile(rf"epoch(?P<step>{trackers.NUMBER})\.pt")
_FIXED = ("last.pt", "best.pt")
_RESULTS = "results.csv"


class Ultralytics(Around):
    name = "ultralytics"
    title = "ultralytics"
    weight = 3

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        found = next((claim for claim in claims if claim.part is Part.PAYLOAD), None)
        if found and (glance.has("last.pt") or glance.has("best.pt")):
            return f"{found.path} stands beside last.pt or best.pt"
        return None

    def own(self, entry: Entry) -> Claim | None:
        if entry.path in _FIXED and entry.kind in (Kind.FILE, Kind.LINK):
            return Claim(entry.path, entry.kind, Part.POINTER)
        found = _EPOCH.fullmatch(entry.path) if entry.kind is Kind.FILE else None
        return Claim(entry.path, entry.kind, Part.PAYLOAD, int(found["step"])) if found else None

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        """``last.pt`` and ``best.pt`` are copies, each of the epoch whose bytes it holds, or that it tells: between
        two periods no other file has it."""
        claims = (view.by_path.get(view.at(name)) for name in _FIXED)
        return [_copy(view, claim.path) for claim in claims if claim is not None and claim.kind is Kind.FILE]

    def stands_in(self, path: str) -> bool:
        return path.rpartition("/")[2] in _FIXED

    def trainer_pick(self, view: RootView) -> Pick | None:
        last = next((one for one in self.pointers(view) if one.path == view.at("last.pt")), None)
        return Pick(last.step, last.path, "last.pt, the newest by ctime") if last else None

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        """``results.csv`` lies in the run's directory, above ``weights``, and counts epochs from one."""
        for place in dict.fromkeys((view.base.rpartition("/")[0], view.base)):
            rows = csv_metrics.by_epoch(view.reader, f"{place}/{_RESULTS}" if place else _RESULTS)
            if rows:
                return {epoch - 1: row for epoch, row in rows.items() if epoch - 1 in view.steps}
        return {}

    def best_recorded(self, view: RootView) -> int | None:
        best = (one for one in self.pointers(view) if one.path == view.at("best.pt"))
        return next((one.step for one in best if one.step in view.steps), None)


def _copy(view: RootView, path: str) -> Pointer:
    try:
        step = twins.step_of(view, path)
        epoch = step if step is not None else torch_state.number(view.reader, path, "epoch")
    except OSError as error:
        return Pointer("", path, None, PointerState.UNREADABLE, f"cannot be read: {error}")
    if epoch == -1:
        return Pointer("", path, None, PointerState.OK, "stripped of its optimizer: its run is finished")
    if epoch is None:
        return Pointer("", path, None, PointerState.OK, "of an epoch that it does not tell")
    own = epoch in view.steps
    return Pointer("", path, epoch, PointerState.OK, None if own else f"of epoch {epoch}, which has no file of its own")
