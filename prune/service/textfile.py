"""The metrics of one pass in a file, for node_exporter's textfile collector.

A pass of a cron job has no memory of its own, so what it counts comes from history: the counters go on rising from
pass to pass, as counters must.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from prune import engine
from prune.errors import Failed
from prune.forecast import Forecast, forecast, recent_saves
from prune.journal import Journal, open_journal
from prune.model import Outcome, RunPlan
from prune.service.board import Board, RunView, after_apply, after_plan
from prune.service.metrics import Metrics
from prune.settings.schema import Settings


def write_metrics(path: str, settings: Settings, outcome: Outcome, *, now_ns: int) -> None:
    """Looks at every run once more and writes how it stands. Raises Failed when the file cannot be written."""
    board = Board()
    journal = open_journal(settings.state, write=False)
    outcomes = {run.run: run for run in outcome.runs}
    for run in settings.runs:
        plan = engine.plan_run(run, now_ns=now_ns, journal=journal)
        view = after_plan(RunView(run.name), plan, now_ns=now_ns, forecasts=_forecasts(plan, now_ns))
        if run.name in outcomes:
            view = after_apply(view, outcomes[run.name], now_ns=now_ns)
        board.put(_with_history(view, journal))
    journal.close()
    try:
        Metrics(board).write_textfile(path)
    except OSError as error:
        raise Failed(f"--metrics-file {path}: cannot be written: {error.strerror}") from None


def _forecasts(plan: RunPlan, now_ns: int) -> dict[str, Forecast]:
    return {
        replica.name: forecast(recent_saves(plan, replica.name), free_bytes=replica.free_bytes, now_ns=now_ns)
        for replica in plan.replicas
    }


def _with_history(view: RunView, journal: Journal) -> RunView:
    """The view with all that history counts, this pass included; unchanged where there is no history."""
    deleted = journal.history(view.run, kinds=("deleted",))
    failed = journal.history(view.run, kinds=("failed",))
    good = next(
        (event for event in journal.history(view.run, kinds=("pass",), limit=200) if event.data.get("ok")), None
    )
    freed: Counter[str] = Counter()
    for event in deleted:
        freed[event.replica or ""] += int(event.data.get("bytes") or 0)
    return replace(
        view,
        last_success_ns=good.at_ns if good else view.last_success_ns,
        last_delete_ns=deleted[0].at_ns if deleted else view.last_delete_ns,
        deleted_steps=len({(event.plan, event.step) for event in deleted}) or view.deleted_steps,
        deleted_bytes=dict(freed) or view.deleted_bytes,
        failed_steps=len({(event.plan, event.step) for event in failed}) or view.failed_steps,
        fallbacks=len(journal.history(view.run, kinds=("fallback",))),
    )
