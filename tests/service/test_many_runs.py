"""The page and the metrics of a fleet: the worst first, bounded whatever the number of runs."""

from __future__ import annotations

from dataclasses import replace

from prune.model import Attention, Block, Decision
from prune.service.board import Board, RunView, after_plan
from prune.service.health import Health
from prune.service.metrics import MAX_RUNS, Metrics
from prune.service.page import NOTES, ROWS, page
from prune.service.totals import totals
from prune.settings.schema import ReplicaSettings, RunSettings, Settings
from tests.report.plans import GIB, NOW, copy, run_plan, step

RUNS = 3000
WELL = Health(())
NOTE = Attention("mirror-behind", "mirror", "three steps", "prune mirror")


def board() -> Board:
    """Many runs: one blocked, many in need of attention, one with most to win."""
    found = Board()
    for number in range(RUNS):
        name = f"run-{number:05}"
        fate = Decision.DELETE if number % 10 == 0 else Decision.KEEP
        plan = replace(run_plan(step(10, fate, copies=(copy(10),)), step(20, copies=(copy(20),))), run=name)
        plan = replace(plan, replicas=plan.replicas[:1])
        if number == 2345:
            plan = replace(plan, blocks=(Block("read-only", "primary", "so"),))
        if number % 20 == 1:
            plan = replace(plan, attention=(NOTE,))
        found.put(after_plan(RunView(name), plan, now_ns=NOW, forecasts={}))
    return found


def settings() -> Settings:
    primary = (ReplicaSettings("primary", "/data/tiny", "primary"),)
    return Settings(tuple(RunSettings(f"run-{number:05}", primary) for number in range(RUNS)))


def shown(**asked) -> str:
    return page(settings(), board(), WELL, [], now_ns=NOW, **asked)


def test_the_worst_run_stands_first_and_then_those_with_most_to_win():
    text = shown()
    assert text.index('href="runs/run-02345"') < text.index('href="runs/run-00001"')
    assert f"Page 1 of {RUNS // ROWS}" in text
    last = shown(number=RUNS // ROWS)
    assert 'href="runs/run-02999"' in last
    assert 'href="runs/run-02345"' not in last


def test_the_page_is_bounded_and_says_how_much_it_leaves_out():
    text = shown()
    assert text.count("<tr") <= ROWS + 2
    assert f"and {RUNS // 20 + 1 - NOTES} more" in text
    assert len(text) < 200_000


def test_volumes_are_summed_over_all_runs_whatever_is_asked_for():
    (volume,) = totals(board().views())
    assert (volume.runs, volume.held, volume.freed) == (RUNS, 2 * RUNS * GIB, RUNS // 10 * GIB)
    assert f"{RUNS} runs, " in shown(query="run-000")


def test_a_filter_shows_the_runs_that_fit():
    text = shown(query="0234")
    assert "run-02345" in text
    assert "run-00001" not in text


def test_metrics_have_no_more_label_sets_than_runs_that_may_stand_alone():
    text = Metrics(board()).text().decode()
    lines = [line for line in text.splitlines() if line.startswith("prune_trash_bytes{")]
    assert len(lines) == MAX_RUNS + 1
    assert 'run="_other"' in lines[0]
