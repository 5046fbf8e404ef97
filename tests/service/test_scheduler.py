"""The scheduler on a frozen clock: nothing lost, nothing doubled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

from apscheduler.executors.base import BaseExecutor
from freezegun import freeze_time

from prune.service.schedule import trigger_of
from prune.service.scheduler import Job, Ticker


class ByHand(BaseExecutor):  # type: ignore[misc]
    """Holds submitted ticks until they are run, in this thread, so that a frozen clock suffices."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Any] = []

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        self.waiting.append(job)

    def run_waiting(self) -> None:
        while self.waiting:
            job = self.waiting.pop(0)
            job.func()
            self._run_job_success(job.id, [])


class Frozen:
    """A ticker whose clock moves only when told."""

    def __init__(self, clock: Any) -> None:
        self.clock = clock
        self.failures: list[str] = []
        self.executor = ByHand()
        self.ticker = Ticker(lambda name, error: self.failures.append(f"{name}: {error}"), self.executor)
        self.ticker.scheduler._event = Event()
        start_without_thread(self.ticker)

    def go_to(self, moment: datetime) -> None:
        self.clock.move_to(moment)
        self.ticker.scheduler._process_jobs()
        self.executor.run_waiting()

    def walk(self, *, hours: float, by: timedelta) -> None:
        moment = datetime.now(UTC)
        end = moment + timedelta(hours=hours)
        while moment < end:
            moment += by
            self.go_to(moment)


def start_without_thread(ticker: Ticker) -> None:
    """What APScheduler's start does, but for the thread that waits for real time."""
    from apscheduler.schedulers.base import STATE_RUNNING, BaseScheduler

    BaseScheduler.start(ticker.scheduler, paused=True)
    ticker.scheduler.state = STATE_RUNNING


@contextmanager
def frozen(start: str) -> Iterator[Frozen]:
    with freeze_time(start) as clock:
        yield Frozen(clock)


def counting(passes: list[datetime]) -> Callable[[], None]:
    return lambda: passes.append(datetime.now(UTC))


def test_a_day_of_ten_minute_ticks_is_a_hundred_and_forty_four_passes() -> None:
    passes: list[datetime] = []
    with frozen("2026-11-29T00:00:30") as world:
        world.ticker.put("apply", trigger_of("*/10 * * * *", "UTC"), counting(passes), at_once=False)
        world.walk(hours=24, by=timedelta(seconds=30))
    assert len(passes) == 144


def test_the_days_of_both_clock_changes_have_exactly_one_nightly_pass() -> None:
    for day, zone, schedule in (
        ("2026-03-28T20:00", "Europe/Berlin", "30 2 * * *"),
        ("2026-10-24T20:00", "Europe/Berlin", "30 1 * * *"),
        ("2026-10-31T20:00", "America/New_York", "30 1 * * *"),
    ):
        passes: list[datetime] = []
        with frozen(day) as world:
            world.ticker.put("apply", trigger_of(schedule, zone), counting(passes), at_once=False)
            world.walk(hours=24, by=timedelta(minutes=5))
        assert len(passes) == 1, (day, passes)


def test_a_tick_that_is_five_seconds_late_still_runs() -> None:
    passes: list[datetime] = []
    with frozen("2026-11-29T11:59:59") as world:
        world.ticker.put("apply", trigger_of("0 12 * * *", "UTC"), counting(passes), at_once=False)
        world.go_to(datetime(2026, 11, 29, 12, 0, 5, tzinfo=UTC))
    assert len(passes) == 1


def test_a_host_that_slept_four_days_runs_one_pass_on_waking() -> None:
    passes: list[datetime] = []
    with frozen("2026-11-29T12:00:30") as world:
        world.ticker.put("apply", trigger_of("*/10 * * * *", "UTC"), counting(passes), at_once=False)
        world.go_to(datetime(2026, 12, 3, 12, 3, tzinfo=UTC))
        assert len(passes) == 1
        world.go_to(datetime(2026, 12, 3, 12, 10, 1, tzinfo=UTC))
        assert len(passes) == 2


def test_a_pass_of_twenty_six_hours_is_followed_by_one_catch_up_pass() -> None:
    passes: list[datetime] = []
    with frozen("2026-11-29T01:00") as world:

        def long_the_first_time() -> None:
            passes.append(datetime.now(UTC))
            if len(passes) == 1:
                world.walk(hours=26, by=timedelta(minutes=30))

        world.ticker.put("apply", trigger_of("30 2 * * *", "UTC"), long_the_first_time, at_once=False)
        world.go_to(datetime(2026, 11, 29, 2, 30, tzinfo=UTC))
        assert [f"{moment:%d %H:%M}" for moment in passes] == ["29 02:30", "30 04:30"]
        world.walk(hours=24, by=timedelta(minutes=30))
        assert [f"{moment:%d %H:%M}" for moment in passes][2:] == ["01 02:30"]


def test_many_ticks_during_one_pass_are_one_catch_up() -> None:
    passes: list[int] = []

    def work() -> None:
        passes.append(1)
        if len(passes) == 1:
            for _ in range(5):
                job.tick()

    job = Job("apply", work, lambda *_: None)
    job.tick()
    assert len(passes) == 2
    assert not job.running


def test_a_job_that_raises_is_told_of_and_lives_on() -> None:
    tries: list[int] = []

    def broken() -> None:
        tries.append(1)
        raise OSError("the mount is gone")

    with frozen("2026-11-29T00:00:30") as world:
        world.ticker.put("apply", trigger_of("*/10 * * * *", "UTC"), broken, at_once=False)
        world.walk(hours=1, by=timedelta(minutes=1))
    assert len(tries) == 6
    assert world.failures == ["apply: the mount is gone"] * 6


def test_the_first_pass_comes_at_once_where_it_is_asked_for() -> None:
    passes: list[datetime] = []
    with frozen("2026-11-29T00:00:30") as world:
        world.ticker.put("apply", trigger_of("0 12 * * *", "UTC"), counting(passes), at_once=True)
        world.go_to(datetime(2026, 11, 29, 0, 0, 31, tzinfo=UTC))
    assert len(passes) == 1


def test_a_reload_changes_the_rhythm_and_removes_jobs_without_losing_others() -> None:
    passes: list[datetime] = []
    with frozen("2026-11-29T00:00:30") as world:
        world.ticker.put("apply", trigger_of("0 12 * * *", "UTC"), counting(passes), at_once=False)
        world.ticker.put("scrub", trigger_of("0 13 * * *", "UTC"), counting([]), at_once=False)
        world.ticker.put("apply", trigger_of("0 1 * * *", "UTC"), counting(passes), at_once=False)
        world.ticker.only({"apply"})
        world.walk(hours=24, by=timedelta(minutes=10))
        assert world.ticker.names() == {"apply"}
    assert len(passes) == 1


def test_a_job_that_has_come_to_its_end_by_itself_can_be_removed_all_the_same() -> None:
    passes: list[datetime] = []
    with frozen("2026-11-29T00:00:30") as world:
        world.ticker.put("apply", trigger_of("0 0 31 2 *", "UTC"), counting(passes), at_once=True)
        world.walk(hours=1, by=timedelta(minutes=10))
        assert len(passes) == 1
        world.ticker.only(set())
        assert world.ticker.names() == set()
