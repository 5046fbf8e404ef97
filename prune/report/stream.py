"""Documents of many runs, piece by piece: what was written is not held, so that memory does not grow with the fleet.

One run stands on one line. What only the end knows (a plan's id, sums over all runs) stands at the end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prune.model import RunPlan
from prune.report.json import PLAN_SCHEMA, run_to_json
from prune.report.times import iso
from prune.settings.schema import Settings


def plan_pieces(settings: Settings, plans: Iterable[RunPlan], now_ns: int) -> Iterator[str]:
    """The same document as ``plan_to_json`` makes, with the same id: the hash of its content."""
    named = {run.name: run for run in settings.runs}
    clock = {"source": "local", "skew_seconds": None}
    head = {"schema": PLAN_SCHEMA, "created_at": iso(now_ns), "clock": clock, "config": settings.source}
    content = _ContentHash({**head, "runs": []})

    def documents() -> Iterator[dict[str, Any]]:
        for plan in plans:
            document = run_to_json(plan, named.get(plan.run))
            content.add(document)
            yield document

    yield from pieces(head, documents(), lambda: {"id": content.id()})


def pieces(
    head: Mapping[str, Any], runs: Iterable[Mapping[str, Any]], tail: Callable[[], Mapping[str, Any]]
) -> Iterator[str]:
    """A document with ``head``'s keys, the runs, and the keys that ``tail`` gives once the last run is told."""
    yield _one_line(head)[:-1] + ', "runs": ['
    first = True
    for run in runs:
        yield ("\n" if first else ",\n") + _one_line(run)
        first = False
    end = _one_line(tail())[1:-1]
    yield f"\n]{f', {end}' if end else ''}}}\n"


class _ContentHash:
    """The hash over a plan's sorted, compact JSON, taken run by run."""

    def __init__(self, without_runs: Mapping[str, Any]) -> None:
        before, self._after = _compact(without_runs).split('"runs":[]')
        self._hash = hashlib.sha256(f'{before}"runs":['.encode("ascii"))
        self._first = True

    def add(self, run: Mapping[str, Any]) -> None:
        self._hash.update((_compact(run) if self._first else f",{_compact(run)}").encode("ascii"))
        self._first = False

    def id(self) -> str:
        done = self._hash.copy()
        done.update(f"]{self._after}".encode("ascii"))
        return done.hexdigest()[:16]


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _one_line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)
