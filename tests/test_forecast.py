"""What the forecast promises, on round numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prune.forecast import Demand, Forecast, Save, forecast, recent_saves, seconds_to_full, usual_interval
from prune.model import Copy, Decision, Health, Identity, RunPlan, StepPlan

MINUTE = 60 * 1_000_000_000
NOW = 1_000_000 * MINUTE


def saves(*, every: int = 10, count: int = 6, size: int = 100, last_ago: int = 4) -> list[Save]:
    """``count`` saves, ``every`` minutes apart, the newest ``last_ago`` minutes ago."""
    return [Save(NOW - (last_ago + every * back) * MINUTE, size) for back in range(count)]


def test_the_next_save_comes_one_usual_interval_after_the_newest() -> None:
    told = forecast(saves(), free_bytes=1000, now_ns=NOW)
    assert told.next_save_at_ns == NOW + 6 * MINUTE
    assert told.next_save_bytes == 100


def test_one_long_pause_does_not_move_the_usual_interval() -> None:
    assert usual_interval([0, 10 * MINUTE, 20 * MINUTE, 500 * MINUTE, 510 * MINUTE]) == 10 * MINUTE


def test_times_set_by_a_copier_all_at_once_are_no_interval() -> None:
    assert usual_interval([NOW, NOW + 5, NOW + 9]) is None


def test_the_next_save_is_as_big_as_the_biggest_recent_one() -> None:
    growing = [Save(NOW - back * 10 * MINUTE, 100 - back) for back in range(1, 6)]
    assert forecast(growing, free_bytes=None, now_ns=NOW).next_save_bytes == 99


def test_seconds_to_full_counts_to_the_first_save_that_does_not_fit() -> None:
    # 250 bytes free: saves in 6 and 16 minutes fit, the one in 26 minutes does not.
    assert forecast(saves(), free_bytes=250, now_ns=NOW).seconds_to_full == 26 * 60


def test_a_next_save_larger_than_what_is_free_does_not_fit() -> None:
    told = forecast(saves(), free_bytes=99, now_ns=NOW)
    assert not told.next_save_fits
    assert told.seconds_to_full == 6 * 60


def test_a_next_save_of_exactly_what_is_free_fits() -> None:
    assert forecast(saves(), free_bytes=100, now_ns=NOW).next_save_fits


def test_a_run_that_stopped_saving_foretells_no_time_and_no_trouble() -> None:
    told = forecast(saves(last_ago=60), free_bytes=1, now_ns=NOW)
    assert told.next_save_bytes == 100
    assert told.next_save_at_ns is None
    assert told.seconds_to_full is None
    assert told.next_save_fits


def test_a_save_that_is_late_is_expected_now() -> None:
    assert forecast(saves(last_ago=15), free_bytes=1000, now_ns=NOW).next_save_at_ns == NOW


def test_without_saves_nothing_is_foretold() -> None:
    assert forecast([], free_bytes=5, now_ns=NOW) == Forecast(free_bytes=5)


def test_one_save_tells_a_size_and_no_time() -> None:
    told = forecast(saves(count=1), free_bytes=1, now_ns=NOW)
    assert (told.next_save_bytes, told.next_save_at_ns) == (100, None)


def test_unknown_free_space_is_neither_full_nor_fine() -> None:
    told = forecast(saves(), free_bytes=None, now_ns=NOW)
    assert told.seconds_to_full is None
    assert told.next_save_fits


def test_runs_on_one_volume_fill_it_together() -> None:
    one = Demand(NOW, 10 * MINUTE, 100)
    two = Demand(NOW + 5 * MINUTE, 10 * MINUTE, 100)
    assert seconds_to_full([one], free_bytes=400, now_ns=NOW) == 40 * 60
    assert seconds_to_full([one, two], free_bytes=400, now_ns=NOW) == 20 * 60


def test_nobody_saving_never_fills_a_volume() -> None:
    assert seconds_to_full([], free_bytes=0, now_ns=NOW) is None


def test_ten_thousand_years_of_room_is_never() -> None:
    assert seconds_to_full([Demand(NOW, 10 * MINUTE, 1)], free_bytes=1 << 60, now_ns=NOW) is None


def copy_of(step: int, *, size: int | None = 100, health: Health | None = Health.WHOLE) -> Copy:
    return Copy(
        step=step,
        replica="primary",
        paths=(f"step_{step}.pt",),
        identity=Identity(1, step, size or 0, step * MINUTE, 0, 1),
        mtime_ns=step * MINUTE,
        oldest_mtime_ns=step * MINUTE,
        measured=size is not None,
        size=size,
        health=health,
    )


def plan_of(*copies: Copy) -> RunPlan:
    steps = tuple(StepPlan(copy.step, Decision.KEEP, (), (), (copy,)) for copy in copies)
    return RunPlan("tiny", "step-file", {}, (), steps, None, None)


def test_only_restorable_saves_speak_for_the_next_one() -> None:
    plan = plan_of(copy_of(1), copy_of(2, health=Health.BROKEN), copy_of(3, size=7))
    assert recent_saves(plan, "primary") == [Save(1 * MINUTE, 100), Save(3 * MINUTE, 7)]


def test_a_listed_copy_is_measured_only_when_asked() -> None:
    plan = plan_of(copy_of(1, size=None))
    assert recent_saves(plan, "primary") == []
    assert recent_saves(plan, "primary", lambda _: 42) == [Save(MINUTE, 42)]


@pytest.mark.parametrize("mtime", [None, 0, -5])
def test_a_save_without_a_trustworthy_time_is_left_out(mtime: int | None) -> None:
    assert recent_saves(plan_of(replace(copy_of(1), mtime_ns=mtime)), "primary") == []
