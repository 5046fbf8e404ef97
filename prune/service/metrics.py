"""The metrics, by names that dashboards and alerts rely on, made from the board each time they are asked for.

Made afresh, a run that left the settings leaves no stale series. Label values are bounded: health, guard, block
and kind come from our own words, and where there are more runs than ``MAX_RUNS`` the rest stand together as one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from prune.model import SECOND, Replica
from prune.report.lines import in_utf8
from prune.service.board import Board, RunView
from prune.stores.base import Space

MAX_RUNS = 1000
THE_REST = "_other"
PASS_BUCKETS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400)

BLOCKS = (
    "replica-unreachable",
    "replica-vanished",
    "volume-changed",
    "free-space-unknown",
    "read-only",
    "locked",
    "layout-ambiguous",
    "listing-incomplete",
    "pointer-unreadable",
    "pins-unreadable",
    "clock-jumped",
    "control-unusable",
    "too-many",
)

GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "prune_free_bytes": ("Bytes free on the replica's volume for an ordinary user.", ("run", "replica")),
    "prune_total_bytes": ("Size of the replica's volume in bytes.", ("run", "replica")),
    "prune_free_inodes": (
        "Inodes free on the replica's volume; absent where they are not counted.",
        ("run", "replica"),
    ),
    "prune_trash_bytes": ("Bytes withdrawn and waiting to be purged.", ("run", "replica")),
    "prune_steps": ("Checkpoints on a replica by health.", ("run", "replica", "health")),
    "prune_resume_candidate_step": ("The step that training would resume from.", ("run",)),
    "prune_guarded_steps": ("Steps that policy would delete and a guard holds.", ("run", "guard")),
    "prune_blocked": ("1 while the block keeps the run from deleting anything.", ("run", "block")),
    "prune_attention": ("Things a person should know, by kind.", ("run", "kind")),
    "prune_last_success_timestamp_seconds": ("When the last good pass over the run ended.", ("run",)),
    "prune_seconds_to_full": ("Until a save does not fit, if nothing is deleted.", ("run", "replica")),
    "prune_next_save_bytes": ("Foretold size of the next save.", ("run", "replica")),
    "prune_next_save_timestamp_seconds": ("Foretold time of the next save.", ("run", "replica")),
}
COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "prune_deleted_steps_total": ("Steps deleted.", ("run",)),
    "prune_deleted_bytes_total": ("Bytes of deleted copies.", ("run", "replica")),
    "prune_failed_steps_total": ("Steps that could not be deleted.", ("run",)),
    "prune_resume_fallbacks_total": ("Checkpoints that a resume passed over for an older one.", ("run",)),
}
HISTOGRAMS: dict[str, str] = {"prune_pass_seconds": "How long passes over a run took."}

_SMALLEST = ("prune_free_bytes", "prune_free_inodes", "prune_last_success_timestamp_seconds", "prune_seconds_to_full")
_LARGEST = ("prune_blocked", "prune_total_bytes", "prune_next_save_bytes")
_OF_ONE_RUN = ("prune_resume_candidate_step", "prune_next_save_timestamp_seconds")

Sample = tuple[str, tuple[str, ...], float]
Room = Callable[[str, str], Space | None]


class Metrics:
    """A registry of its own over one board."""

    def __init__(self, board: Board, *, max_runs: int = MAX_RUNS) -> None:
        self._board = board
        self._max_runs = max_runs
        self.registry = CollectorRegistry()
        self.pass_seconds = Histogram(
            "prune_pass_seconds", HISTOGRAMS["prune_pass_seconds"], buckets=PASS_BUCKETS, registry=self.registry
        )
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """All families, for the registry."""
        views = self._board.views()
        values = _folded(views, self._board.room, self._max_runs)
        for name, (text, labels) in GAUGES.items():
            yield _filled(GaugeMetricFamily(name, text, labels=labels), values.get(name, {}))
        for name, (text, labels) in COUNTERS.items():
            yield _filled(CounterMetricFamily(name, text, labels=labels), values.get(name, {}))

    def text(self) -> bytes:
        """Everything in the Prometheus text format."""
        return generate_latest(self.registry)

    def write_textfile(self, path: str) -> None:
        """Replaces ``path`` atomically, for a textfile collector. Raises OSError."""
        write_atomic(path, self.text())


def write_atomic(path: str, data: bytes) -> None:
    """Writes under another name beside ``path``, readable by others, then renames. Raises OSError."""
    folder = os.path.dirname(os.path.abspath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=".prune-", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: dict[tuple[str, ...], float]) -> Metric:
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    return family


def _folded(views: list[RunView], room: Room, max_runs: int) -> dict[str, dict[tuple[str, ...], float]]:
    """Samples by name and labels; runs beyond the bound are folded into one."""
    values: dict[str, dict[tuple[str, ...], float]] = {}
    for place, view in enumerate(views):
        alone = place < max_runs
        for name, labels, value in _samples(view, room):
            if not alone and name in _OF_ONE_RUN:
                continue
            of_name = values.setdefault(name, {})
            key = tuple(map(in_utf8, labels if alone else (THE_REST, *labels[1:])))
            of_name[key] = _fold(name)(of_name[key], value) if key in of_name else value
    return values


def _fold(name: str) -> Callable[[float, float], float]:
    if name in _SMALLEST:
        return min
    return max if name in _LARGEST else lambda one, other: one + other


def _samples(view: RunView, room: Room) -> Iterator[Sample]:
    run = view.run
    yield "prune_deleted_steps_total", (run,), view.deleted_steps
    yield "prune_failed_steps_total", (run,), view.failed_steps
    yield "prune_resume_fallbacks_total", (run,), view.fallbacks
    for replica, freed in view.deleted_bytes.items():
        yield "prune_deleted_bytes_total", (run, replica), freed
    if view.last_success_ns is not None:
        yield "prune_last_success_timestamp_seconds", (run,), view.last_success_ns / SECOND
    held = {block.block for block in view.blocks}
    for block in (*BLOCKS, *sorted(held - set(BLOCKS))):
        yield "prune_blocked", (run, block), float(block in held)
    for kind in sorted({attention.kind for attention in view.attention}):
        yield "prune_attention", (run, kind), sum(attention.kind == kind for attention in view.attention)
    for guard, steps in view.counts.guards.items():
        yield "prune_guarded_steps", (run, guard), steps
    for replica, by_health in view.counts.health.items():
        for health, copies in by_health.items():
            yield "prune_steps", (run, replica, health), copies
    yield from _forecast_samples(view)
    if view.plan is not None:
        yield from _replica_samples(run, view.plan.replicas, room)
        if view.plan.resume_candidate is not None:
            yield "prune_resume_candidate_step", (run,), view.plan.resume_candidate.step


def _replica_samples(run: str, replicas: Iterable[Replica], room: Room) -> Iterator[Sample]:
    for replica in replicas:
        labels = (run, replica.name)
        yield "prune_trash_bytes", labels, replica.trash_bytes
        now = room(run, replica.name)
        seen = replica if now is None else now
        for name, value in (
            ("prune_free_bytes", seen.free_bytes),
            ("prune_total_bytes", seen.total_bytes),
            ("prune_free_inodes", seen.free_inodes),
        ):
            if value is not None:
                yield name, labels, value


def _forecast_samples(view: RunView) -> Iterator[Sample]:
    for replica, told in view.forecasts.items():
        labels = (view.run, replica)
        if told.seconds_to_full is not None:
            yield "prune_seconds_to_full", labels, told.seconds_to_full
        if told.next_save_bytes is not None:
            yield "prune_next_save_bytes", labels, told.next_save_bytes
        if told.next_save_at_ns is not None:
            yield "prune_next_save_timestamp_seconds", labels, told.next_save_at_ns / SECOND
