"""What Ray Train keeps of a run beside its checkpoints: ``checkpoint_manager_snapshot.json``, Tune's results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prune.layouts import metric_files
from prune.layouts.base import RootView

NAME = "checkpoint_manager_snapshot.json"
_MOST_RESULTS = 64 << 20  # bytes of Tune's results that are looked through


@dataclass(frozen=True)
class Snapshot:
    """``listed`` gives each checkpoint's report index by directory name, in the snapshot's own order; None where this
    release of Ray recorded none."""

    listed: Mapping[str, int | None]
    metrics: Mapping[str, Any]
    latest: str | None
    best: str | None


def read(view: RootView) -> Snapshot | str | None:
    """The snapshot in the base directory; None when there is none; a sentence when it cannot be read."""
    path = view.at(NAME)
    if path not in view.by_path:
        return None
    try:
        return parse(metric_files.read_json(view.reader, path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return f"cannot be read: {error}"


def parse(document: Any) -> Snapshot:
    """Raises ValueError when this is no snapshot."""
    if not isinstance(document, dict) or not isinstance(document.get("checkpoint_results"), list):
        raise ValueError("it has no checkpoint_results")
    rows = document["checkpoint_results"]
    names = [_name(row) for row in rows]
    if len(set(names)) < len(names):
        raise ValueError("it lists one checkpoint twice")
    indices = _indices(document.get("checkpoint_report_indices"), len(rows))
    latest = document.get("latest_checkpoint_result")
    return Snapshot(
        dict(zip(names, indices, strict=True)),
        {name: row.get("metrics") for name, row in zip(names, rows, strict=True)},
        _name(latest) if latest is not None else None,
        names[-1] if _sorted_by_score(names, indices) else None,
    )


def results(view: RootView, name: str) -> dict[str, Any]:
    """Tune's rows by the checkpoint each names, in the order of reports, from a file of JSON lines; empty where there
    is none. Of a checkpoint that was reported again after a restore the last row counts."""
    try:
        with view.reader.open(view.at(name)) as file:
            file.seek(max(0, file.seek(0, 2) - _MOST_RESULTS))  # of a longer file the newest rows
            data = file.read(_MOST_RESULTS)
    except FileNotFoundError:
        return {}
    found: dict[str, Any] = {}
    for row in map(_row, data.splitlines()):
        reported = row.get("checkpoint_dir_name")
        if isinstance(reported, str):
            found.pop(reported, None)
            found[reported] = row
    return found


def _row(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}  # the last line may be half written, the first one half read
    return row if isinstance(row, dict) else {}


def _name(row: Any) -> str:
    name = row.get("checkpoint_dir_name") if isinstance(row, dict) else None
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError("it lists a checkpoint without a directory's name")
    return name


def _indices(found: Any, length: int) -> Sequence[int | None]:
    """One number for each checkpoint, all different; otherwise none at all."""
    if not isinstance(found, list) or len(found) != length or len(set(map(str, found))) != length:
        return [None] * length
    if not all(isinstance(index, int) and not isinstance(index, bool) and 0 <= index < 10**18 for index in found):
        return [None] * length
    return found


def _sorted_by_score(names: Sequence[str], indices: Sequence[int | None]) -> bool:
    """With a score attribute Ray keeps its list from worst to best, without one in the order of reports."""
    known = [index for index in indices if index is not None]
    order = known if len(known) == len(names) else names
    if order is names and not all(name.startswith("checkpoint_") for name in names):
        return False  # names that tell no time
    return list(order) != sorted(order)
