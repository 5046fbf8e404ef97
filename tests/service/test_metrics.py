"""Names that dashboards rely on, and bounded labels."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from prune.forecast import Forecast
from prune.model import Attention, Block, FailedCopy
from prune.service.board import Board, RunView, after_apply, after_plan
from prune.service.metrics import BLOCKS, COUNTERS, GAUGES, HISTOGRAMS, THE_REST, Metrics
from tests.service.sights import GIB, NOW, outcome, tiny

PROMISED = {
    "prune_free_bytes", "prune_free_inodes", "prune_trash_bytes", "prune_steps", "prune_resume_candidate_step",
    "prune_guarded_steps", "prune_blocked", "prune_attention", "prune_deleted_steps_total", "prune_deleted_bytes_total",
    "prune_failed_steps_total", "prune_last_success_timestamp_seconds", "prune_seconds_to_full", "prune_pass_seconds",
}  # fmt: skip


def seen(board: Board, run: str = "tiny", **sight: object) -> RunView:
    view = after_plan(
        RunView(run),
        tiny(run, **sight),  # type: ignore[arg-type]
        now_ns=NOW,
        forecasts={"primary": Forecast(GIB, NOW, 600, 7200.0, 20 * GIB)},
    )
    board.put(view)
    return view


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.text().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return samples(metrics).get((name, tuple(sorted(labels.items()))))


def test_every_promised_name_is_there() -> None:
    assert GAUGES.keys() | COUNTERS.keys() | HISTOGRAMS.keys() >= PROMISED


def test_a_scrape_shows_what_the_plan_saw() -> None:
    board = Board()
    seen(board)
    metrics = Metrics(board)
    assert value(metrics, "prune_free_bytes", run="tiny", replica="primary") == 20 * GIB
    assert value(metrics, "prune_steps", run="tiny", replica="mirror", health="broken") == 1
    assert value(metrics, "prune_steps", run="tiny", replica="mirror", health="whole") == 6
    assert value(metrics, "prune_guarded_steps", run="tiny", guard="pinned") == 1
    assert value(metrics, "prune_resume_candidate_step", run="tiny") == 700
    assert value(metrics, "prune_seconds_to_full", run="tiny", replica="primary") == 7200
    assert value(metrics, "prune_last_success_timestamp_seconds", run="tiny") is None


def test_a_block_is_one_while_it_holds_and_zero_otherwise() -> None:
    board = Board()
    seen(board, blocks=[Block("replica-unreachable", "mirror", "no answer")])
    metrics = Metrics(board)
    assert value(metrics, "prune_blocked", run="tiny", block="replica-unreachable") == 1
    assert value(metrics, "prune_blocked", run="tiny", block="locked") == 0
    assert len([key for key in samples(metrics) if key[0] == "prune_blocked"]) == len(BLOCKS)


def test_attention_is_counted_by_kind() -> None:
    board = Board()
    seen(board, attention=[Attention("not-aligned", None, f"step {n}", "mirror it") for n in (1, 2)])
    assert value(Metrics(board), "prune_attention", run="tiny", kind="not-aligned") == 2


def test_deleted_and_failed_steps_add_up_over_passes() -> None:
    board = Board()
    view = after_apply(seen(board), outcome(), now_ns=NOW)
    view = after_apply(view, outcome(failed=[FailedCopy(300, "mirror", "EIO")]), now_ns=NOW + 1)
    board.put(view)
    metrics = Metrics(board)
    assert value(metrics, "prune_deleted_steps_total", run="tiny") == 4
    assert value(metrics, "prune_deleted_bytes_total", run="tiny", replica="mirror") == 4 * GIB
    assert value(metrics, "prune_failed_steps_total", run="tiny") == 1
    assert value(metrics, "prune_last_success_timestamp_seconds", run="tiny") == NOW / 1e9


def test_a_run_that_left_the_settings_leaves_no_series() -> None:
    board = Board()
    seen(board)
    board.only([])
    assert not [key for key in samples(Metrics(board)) if ("run", "tiny") in key[1]]


def test_runs_beyond_the_bound_stand_together_and_hide_no_block() -> None:
    board = Board()
    for number in range(10):
        blocks = [Block("locked", None, "held")] if number == 9 else []
        seen(board, f"run-{number}", blocks=blocks)
    metrics = Metrics(board, max_runs=4)
    runs = {dict(key[1])["run"] for key in samples(metrics) if "run" in dict(key[1])}
    assert runs == {"run-0", "run-1", "run-2", "run-3", THE_REST}
    assert value(metrics, "prune_blocked", run=THE_REST, block="locked") == 1
    assert value(metrics, "prune_steps", run=THE_REST, replica="primary", health="whole") == 6 * 6
    assert value(metrics, "prune_free_bytes", run=THE_REST, replica="primary") == 20 * GIB


def test_pass_times_are_a_histogram() -> None:
    metrics = Metrics(Board())
    metrics.pass_seconds.observe(2.0)
    assert value(metrics, "prune_pass_seconds_count") == 1
    assert value(metrics, "prune_pass_seconds_bucket", le="5.0") == 1


def test_the_textfile_appears_whole_and_readable_by_the_collector(tmp_path: Path) -> None:
    board = Board()
    seen(board)
    target = tmp_path / "prune.prom"
    target.write_text("old")
    Metrics(board).write_textfile(str(target))
    assert "prune_free_bytes{" in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["prune.prom"]


def test_a_textfile_that_cannot_be_written_is_an_error_and_leaves_the_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "prune.prom").mkdir()
    with pytest.raises(OSError):
        Metrics(Board()).write_textfile(str(tmp_path / "prune.prom"))
    assert os.listdir(tmp_path) == ["prune.prom"]


def test_a_run_whose_name_is_not_utf8_hides_no_other_s_metrics() -> None:
    board = Board()
    seen(board)
    seen(board, "\udcff\nname")
    metrics = Metrics(board)
    assert value(metrics, "prune_resume_candidate_step", run="tiny") == 700
    assert value(metrics, "prune_resume_candidate_step", run="\\xff\nname") == 700
