"""Days and hours on which clocks change, and cron's own rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from prune.service.schedule import TICK, comes, gap_of, trigger_of


def ticks(schedule: str, zone: str, start: str, *, days: float) -> list[str]:
    """UTC times of all ticks from a local start on, for so many real days."""
    trigger = trigger_of(schedule, zone)
    now = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    end = now + timedelta(days=days)
    previous, found = None, []
    while True:
        tick = trigger.get_next_fire_time(previous, now)
        assert tick is not None
        if tick > end:
            return found
        assert previous is None or tick > previous
        found.append(f"{tick.astimezone(UTC):%d %H:%M}")
        previous, now = tick, tick + TICK


def test_a_night_in_spring_whose_hour_is_leapt_over_has_exactly_one_pass() -> None:
    assert ticks("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", days=2) == ["29 01:30", "30 00:30"]


def test_a_night_in_autumn_whose_hour_comes_twice_has_exactly_one_pass() -> None:
    assert ticks("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", days=2) == ["25 00:30", "26 01:30"]
    assert ticks("30 1 * * *", "America/New_York", "2026-10-31T12:00", days=2) == ["01 05:30", "02 06:30"]


def test_half_an_hour_of_change_is_no_exception() -> None:
    assert len(ticks("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", days=3)) == 3
    assert len(ticks("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", days=3)) == 3


def test_every_ten_minutes_goes_by_real_minutes_on_both_days() -> None:
    for start in ("2026-03-29T00:00", "2026-10-25T00:00"):
        assert len(ticks("*/10 * * * *", "Europe/Berlin", start, days=0.5)) == 73


def test_hours_given_as_a_list_come_once_each_in_autumn() -> None:
    assert ticks("0 1,2,3 * * *", "Europe/Berlin", "2026-10-25T00:30", days=0.25) == [
        "24 23:00",
        "25 00:00",
        "25 02:00",
    ]


@pytest.mark.parametrize("day", ["0", "7", "sun", "SUN"])
def test_sunday_is_cron_s_sunday(day: str) -> None:
    assert ticks(f"0 0 * * {day}", "UTC", "2026-11-25T00:00", days=7) == ["29 00:00"]


def test_a_range_of_weekdays_may_pass_the_end_of_the_week() -> None:
    assert ticks("0 0 * * fri-mon", "UTC", "2026-11-23T12:00", days=6) == ["27 00:00", "28 00:00", "29 00:00"]
    assert ticks("0 0 * * 1-5/2", "UTC", "2026-11-22T12:00", days=6) == ["23 00:00", "25 00:00", "27 00:00"]


def test_a_day_of_the_month_and_a_weekday_mean_either() -> None:
    assert ticks("0 0 13 * fri", "UTC", "2026-11-05T12:00", days=9) == ["06 00:00", "13 00:00"]
    assert ticks("0 0 12 * fri", "UTC", "2026-11-05T12:00", days=9) == ["06 00:00", "12 00:00", "13 00:00"]


def test_an_interval_is_kept_from_tick_to_tick() -> None:
    trigger = trigger_of("10m", "UTC")
    first = datetime(2026, 11, 29, 12, tzinfo=UTC)
    assert trigger.get_next_fire_time(first, first + timedelta(minutes=3)) == first + timedelta(minutes=10)


@pytest.mark.parametrize(
    "schedule",
    ["", "* * *", "61 * * * *", "0 0 * * 8", "0 0 * * funday", "ten minutes", "0s", "0 0 * * 1/0", "99999999d"],
)
def test_a_schedule_nobody_can_follow_is_refused_in_a_sentence(schedule: str) -> None:
    with pytest.raises(ValueError, match=r".+ .+"):
        trigger_of(schedule, "UTC")


def test_an_unknown_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="Mars/Olympus"):
        trigger_of("0 0 * * *", "Mars/Olympus")


def test_the_longest_gap_of_a_schedule_is_what_missing_a_tick_is_measured_by() -> None:
    hour = 3600 * 10**9
    assert gap_of("0 9,17 * * *", "UTC", now_ns=0) == 16 * hour
    assert gap_of("10m", "UTC", now_ns=0) == hour // 6


def test_a_schedule_that_never_comes_ends_the_search() -> None:
    assert trigger_of("0 0 31 2 *", "UTC").get_next_fire_time(None, datetime(2026, 1, 1, tzinfo=UTC)) is None
    with pytest.raises(ValueError, match="never comes"):
        comes("0 0 31 2 *", "UTC")
    comes("0 0 29 2 *", "UTC")
