"""Ray Train: ``checkpoint_<date>_<time>.<µs>/`` listed in a snapshot (v2), or ``checkpoint_<6 digits>/`` (v1, Tune).

Names and files: ray-project/ray, ``train/v2/_internal/execution/storage.py``,
``train/v2/_internal/execution/checkpoint/checkpoint_manager.py`` (``_CheckpointManagerState``,
``_assert_checkpoints_exist``), ``train/_internal/storage.py`` (v1).

Names of v2 tell a time and no step. The step is the report index that the snapshot keeps for each checkpoint: it stays
the same when older ones go, and counts on every replica: a mirror has the snapshot last. Snapshots of older releases
keep none, and a run without a snapshot has nothing: there the time in the name, in microseconds since 1970, is the
number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from prune.layouts import markers, metric_files, ray_snapshot, trackers
from prune.layouts.around import Around
from prune.layouts.base import (
    Claim,
    Entry,
    Glance,
    Kind,
    Members,
    Part,
    Pick,
    Pointer,
    Reader,
    RootView,
    Verdict,
)
from prune.layouts.ray_snapshot import NAME as SNAPSHOT
from prune.layouts.ray_snapshot import Snapshot
from prune.model import EMPTY, PointerState

_COUNTED = re.compile(r"checkpoint_(0[0-9]{5}|[1-9][0-9]{5,17})")
_DATED = re.compile(
    r"checkpoint_([0-9]{4})-([0-9]{2})-([0-9]{2})_([0-9]{2})-([0-9]{2})-([0-9]{2})\.([0-9]{6})", re.ASCII
)
_V1, _V2 = "v1", "v2"
_RESULTS = "result.json"


class RayTrain(Around):
    """Every checkpoint that the snapshot lists is ``referenced``: Ray does not start when one of them is gone."""

    name = "ray-train"
    title = "Ray Train"
    weight = 3

    def __init__(self) -> None:
        self._first_root: str | None = None  # the primary's, which is listed before its mirrors
        self._told: dict[str, int] = {}  # steps by directory name, as that root's snapshot has them

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        if glance.has(SNAPSHOT):
            return f"{SNAPSHOT} is there"
        for claim in claims:
            name = claim.path
            if claim.part is Part.PAYLOAD and (_DATED.fullmatch(name) or re.fullmatch(r"checkpoint_0[0-9]{5}", name)):
                return f"{name} is named as Ray Train names its checkpoints"
        return None

    def own(self, entry: Entry) -> Claim | None:
        if entry.path == SNAPSHOT and entry.kind is Kind.FILE:
            return Claim(entry.path, entry.kind, Part.POINTER)
        if entry.kind is not Kind.DIR:
            return None
        counted = _COUNTED.fullmatch(entry.path)
        if counted:
            return Claim(entry.path, entry.kind, Part.PAYLOAD, int(counted[1]), _V1)
        dated = _microseconds(entry.path) is not None
        return Claim(entry.path, entry.kind, Part.PAYLOAD, series=_V2) if dated else None

    def claim(self, entry: Entry) -> Claim | None:
        """A script may name its checkpoints as it likes: then only the snapshot tells which directories are any."""
        found = super().claim(entry)
        if found is None and entry.kind is Kind.DIR and not entry.path.startswith("."):
            return Claim(entry.path, entry.kind, Part.PAYLOAD, series=_V2)
        return found

    def renumber(self, claims: Sequence[Claim], view: RootView) -> Sequence[Claim]:
        snapshot = ray_snapshot.read(view)
        steps = _steps(snapshot)
        if self._first_root in (None, view.reader.root):
            self._first_root, self._told = view.reader.root, steps
        steps = {**self._told, **steps}
        found = (_numbered(claim, steps, snapshot, view) if claim.series == _V2 else claim for claim in claims)
        return [claim for claim in found if claim is not None]

    def collisions(self, claims: Sequence[Claim]) -> str | None:
        return trackers.twice(claims)

    def examine(self, members: Members, reader: Reader) -> Verdict:
        return markers.empty(members) or super().examine(members, reader)

    def pointers(self, view: RootView) -> Sequence[Pointer]:
        path = view.at(SNAPSHOT)
        if path not in view.by_path:
            return []
        snapshot = ray_snapshot.read(view)
        if isinstance(snapshot, str):
            return [Pointer("", path, None, PointerState.UNREADABLE, snapshot)]
        if snapshot is None:
            return []
        gone = next((name for name in snapshot.listed if view.at(name) not in view.by_path), None)
        if gone is None:
            return [Pointer("", path, None, PointerState.OK, f"lists {len(snapshot.listed)} checkpoints")]
        return [Pointer("", path, None, PointerState.DANGLING, f"lists {gone}, which is gone: Ray would not start")]

    def trainer_pick(self, view: RootView) -> Pick | None:
        """The snapshot's latest; v1 is told by Tune, which takes the last that was reported to it. A worker that died
        in the middle of a report leaves a higher number, of which Tune knows nothing."""
        if any(claim.series == _V1 for claim in view.claims):
            return _last_reported(view) or super().trainer_pick(view)
        snapshot = ray_snapshot.read(view)
        if not isinstance(snapshot, Snapshot) or snapshot.latest is None:
            return None
        claim = view.by_path.get(view.at(snapshot.latest))
        return Pick(claim.step if claim else None, view.at(snapshot.latest), f"latest in {SNAPSHOT}")

    def metrics(self, view: RootView) -> Mapping[int, Mapping[str, float]]:
        snapshot = ray_snapshot.read(view)
        by_name = snapshot.metrics if isinstance(snapshot, Snapshot) else ray_snapshot.results(view, _RESULTS)
        claims = ((view.by_path.get(view.at(name)), row) for name, row in by_name.items())
        found = {claim.step: metric_files.numbers(row) for claim, row in claims if claim and claim.step is not None}
        return {step: row for step, row in found.items() if row}

    def best_recorded(self, view: RootView) -> int | None:
        snapshot = ray_snapshot.read(view)
        best = snapshot.best if isinstance(snapshot, Snapshot) else None
        claim = view.by_path.get(view.at(best)) if best else None
        return claim.step if claim else None

    def referenced(self, view: RootView) -> Mapping[int, str]:
        snapshot = ray_snapshot.read(view)
        if not isinstance(snapshot, Snapshot):
            return EMPTY
        claims = (view.by_path.get(view.at(name)) for name in snapshot.listed)
        why = f"{SNAPSHOT} lists it, and Ray does not start when it is gone: let num_to_keep drop it"
        return {claim.step: why for claim in claims if claim is not None and claim.step is not None}


def _last_reported(view: RootView) -> Pick | None:
    name = next((name for name in reversed(ray_snapshot.results(view, _RESULTS)) if _COUNTED.fullmatch(name)), None)
    if name is None:
        return None
    claim = view.by_path.get(view.at(name))
    return Pick(claim.step if claim else None, view.at(name), f"last reported in {_RESULTS}")


def _steps(snapshot: Snapshot | str | None) -> dict[str, int]:
    """The steps of what a snapshot lists, by name."""
    if not isinstance(snapshot, Snapshot):
        return {}
    found = {name: _microseconds(name) if index is None else index for name, index in snapshot.listed.items()}
    return {name: step for name, step in found.items() if step is not None}


def _numbered(claim: Claim, steps: Mapping[str, int], snapshot: Snapshot | str | None, view: RootView) -> Claim | None:
    """A v2 checkpoint with its step; one that Ray gave up as a temporary; None for what is nobody's."""
    name = claim.path.rpartition("/")[2]
    time = _microseconds(name)
    if name in steps:
        return replace(claim, step=steps[name])
    if time is None:
        return None
    if not isinstance(snapshot, Snapshot) or not snapshot.listed:
        return replace(claim, step=time)
    return replace(claim, part=Part.TEMPORARY) if _given_up(claim, view) else None


def _given_up(claim: Claim, view: RootView) -> bool:
    """Whether Ray wrote its snapshot after this directory and did not list it. Before that, it may yet list it, or
    the snapshot here may be an older copy than the directory."""
    try:
        return 0 < view.reader.stat(claim.path).mtime_ns < view.reader.stat(view.at(SNAPSHOT)).mtime_ns
    except OSError:
        return False


def _microseconds(name: str) -> int | None:
    """The time in a name, taken as UTC, in microseconds since 1970; None for a name without a real one."""
    found = _DATED.fullmatch(name)
    if found is None:
        return None
    year, month, day, hour, minute, second, micro = (int(part) for part in found.groups())
    try:
        when = datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)
    except ValueError:
        return None
    return max((when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1), 0)
