"""The daemon over runs in buckets."""

from __future__ import annotations

from pathlib import Path

from prune.service.daemon import Daemon
from prune.service.source import Source
from prune.settings.schema import Pressure, RunSettings, Settings, Share
from tests.object.store import keys, put_all, run_on, step_keys
from tests.runs import settings_of


def daemon_over(run: RunSettings, state: Path) -> Daemon:
    settings: Settings = settings_of(run, state=state)
    return Daemon(Source(lambda: settings))


def pass_over(daemon: Daemon) -> None:
    daemon.worker.pass_over("test", daemon.source.settings.runs)


def test_a_run_in_a_bucket_is_listed_at_every_pass_since_nothing_else_tells_of_a_save(bucket: str, state: Path) -> None:
    put_all(bucket, step_keys(range(1, 4)))
    daemon = daemon_over(run_on(bucket, last=3), state)
    for _ in range(4):
        pass_over(daemon)
    put_all(bucket, step_keys([4]))
    pass_over(daemon)
    assert keys(bucket) == [f"step_000{step}.pt" for step in (2, 3, 4)]


def test_a_bucket_past_its_budget_gives_up_steps_down_to_the_floor_and_no_more_than_it_takes(
    bucket: str, state: Path
) -> None:
    put_all(bucket, step_keys(range(1, 9), size=64 << 10))
    pressure = Pressure(free_below=Share(20), free_target=Share(40), keep_last=2)
    run = run_on(bucket, capacity=9 * (65 << 10), last=8, pressure=pressure)
    daemon = daemon_over(run, state)
    pass_over(daemon)
    left = keys(bucket)
    assert left[-1] == "step_0008.pt"
    assert 2 <= len(left) < 8
    pass_over(daemon)
    assert keys(bucket) == left, "there is room now"


def test_within_its_budget_a_bucket_keeps_what_policy_wants(bucket: str, state: Path) -> None:
    put_all(bucket, step_keys(range(1, 9), size=64 << 10))
    pressure = Pressure(free_below=Share(20), keep_last=2)
    daemon = daemon_over(run_on(bucket, capacity=90 * (65 << 10), last=8, pressure=pressure), state)
    pass_over(daemon)
    assert len(keys(bucket)) == 8
