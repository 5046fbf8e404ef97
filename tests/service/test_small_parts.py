"""Words to systemd, jumps of the clock, lanes, settings that are read again, and health."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from prune.errors import UsageError
from prune.model import SECOND, Block
from prune.service.board import RunView, after_plan
from prune.service.clockwatch import ClockWatch
from prune.service.health import allowed_ns, health_of
from prune.service.lanes import lanes
from prune.service.sdnotify import Supervisor
from prune.service.source import Source
from prune.settings.schema import HOUR, MINUTE, ReplicaSettings, RunSettings, Service, Settings
from tests.service.sights import NOW, tiny

# --- systemd ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[tuple[socket.socket, dict[str, str]]]:
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    channel.bind(str(tmp_path / "notify"))
    channel.settimeout(2)
    yield channel, {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    channel.close()


def test_systemd_hears_that_it_is_ready_reloading_alive_and_stopping(
    systemd: tuple[socket.socket, dict[str, str]],
) -> None:
    channel, environment = systemd
    supervisor = Supervisor(environment)
    supervisor.ready("2 runs")
    supervisor.reloading()
    supervisor.alive()
    supervisor.stopping()
    heard = [channel.recv(1000).decode() for _ in range(4)]
    assert heard[0] == "READY=1\nSTATUS=2 runs"
    assert heard[1].startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert heard[2:] == ["WATCHDOG=1", "STOPPING=1"]


def test_an_abstract_socket_is_a_socket_too() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(f"\0ckpt-prune-test-{os.getpid()}")
        channel.settimeout(2)
        Supervisor({"NOTIFY_SOCKET": f"@ckpt-prune-test-{os.getpid()}"}).alive()
        assert channel.recv(100) == b"WATCHDOG=1"


def test_the_watchdog_is_fed_twice_as_often_as_it_must_be() -> None:
    base = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "30000000"}
    assert Supervisor(base).heartbeat_seconds == 15
    assert Supervisor({**base, "WATCHDOG_PID": "1"}).heartbeat_seconds is None
    assert Supervisor({}).heartbeat_seconds is None


def test_a_supervisor_that_is_gone_harms_nothing() -> None:
    Supervisor({"NOTIFY_SOCKET": "/nowhere/at/all"}).alive()
    Supervisor({}).alive()


# --- the clock -------------------------------------------------------------------------------------------------------


class Clocks:
    def __init__(self) -> None:
        self.wall, self.uptime = NOW, 5 * HOUR

    def watch(self) -> ClockWatch:
        return ClockWatch(lambda: self.wall, lambda: self.uptime)

    def go(self, *, wall: int, uptime: int) -> None:
        self.wall += wall
        self.uptime += uptime


@pytest.mark.parametrize("by", [61 * SECOND, 40 * 24 * HOUR, -2 * MINUTE])
def test_a_clock_that_was_set_is_a_jump_once(by: int) -> None:
    clocks = Clocks()
    watch = clocks.watch()
    clocks.go(wall=10 * MINUTE + by, uptime=10 * MINUTE)
    assert watch.jumped() is not None
    clocks.go(wall=10 * MINUTE, uptime=10 * MINUTE)
    assert watch.jumped() is None


def test_a_second_of_drift_and_a_gently_set_clock_are_no_jump() -> None:
    clocks = Clocks()
    watch = clocks.watch()
    clocks.go(wall=10 * MINUTE + SECOND, uptime=10 * MINUTE)
    assert watch.jumped() is None
    clocks.go(wall=96 * HOUR + 3 * MINUTE, uptime=96 * HOUR)
    assert watch.jumped() is None


def test_a_host_that_slept_did_not_jump_since_sleep_is_time_too() -> None:
    clocks = Clocks()
    watch = clocks.watch()
    clocks.go(wall=96 * HOUR, uptime=96 * HOUR)
    assert watch.jumped() is None


# --- lanes -----------------------------------------------------------------------------------------------------------


def run_on(name: str, *roots: str) -> RunSettings:
    first, *rest = roots
    mirrors = [ReplicaSettings(f"mirror-{n}", root, "mirror") for n, root in enumerate(rest)]
    return RunSettings(name, (ReplicaSettings("primary", first, "primary"), *mirrors))


def test_runs_on_the_same_mounts_share_a_lane_and_others_do_not_wait_for_them() -> None:
    runs = [run_on("a", "/data/a", "/mnt/m/a"), run_on("b", "/data/b", "/mnt/m/b"), run_on("c", "/nfs/c")]
    found = lanes(runs, ["/", "/data", "/mnt/m", "/nfs"])
    assert {name: [run.name for run in members] for name, members in found.items()} == {
        "/data /mnt/m": ["a", "b"],
        "/nfs": ["c"],
    }


def test_a_mount_s_name_is_not_mistaken_for_a_longer_one() -> None:
    assert list(lanes([run_on("a", "/database/a")], ["/", "/data"])) == ["/"]


def test_a_bucket_is_a_place() -> None:
    assert list(lanes([run_on("a", "/data/a", "s3://bucket/a")], ["/"])) == ["/ s3://bucket"]


# --- settings read again ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (UsageError("keep.last = 0: no"), "keep.last = 0: no"),
        (RecursionError("too deep"), "RecursionError: too deep"),
    ],
)
def test_whatever_a_file_does_on_being_read_the_old_settings_stay_and_it_is_said(error: Exception, told: str) -> None:
    answers: list[Settings | Exception] = [Settings((run_on("a", "/a"),)), error]

    def load() -> Settings:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    source = Source(load)
    assert source.reload() is False
    assert [run.name for run in source.settings.runs] == ["a"]
    assert source.trouble == told


def test_a_good_file_after_a_bad_one_is_taken() -> None:
    answers = [Settings(()), Settings((run_on("b", "/b"),))]
    source = Source(lambda: answers.pop(0))
    source.trouble = "old"
    assert source.reload() is True
    assert source.trouble is None
    assert [run.name for run in source.settings.runs] == ["b"]


def test_what_the_daemon_cannot_use_is_refused_like_a_bad_file() -> None:
    def check(settings: Settings) -> None:
        if not settings.runs:
            raise UsageError("no runs")

    answers = [Settings((run_on("a", "/a"),)), Settings(())]
    source = Source(lambda: answers.pop(0), check)
    assert source.reload() is False
    assert len(source.settings.runs) == 1


def test_new_runs_of_a_template_are_found_but_an_edited_file_waits_for_a_reload(tmp_path: Path) -> None:
    config = tmp_path / "prune.toml"
    config.write_text('primary = "/ckpt/{run}"')
    found = [run_on("a", "/ckpt/a")]
    source = Source(lambda: Settings(tuple(found), source=str(config)))
    found.append(run_on("b", "/ckpt/b"))
    assert source.refresh() is True
    assert len(source.settings.runs) == 2
    config.write_text('primary = "/elsewhere/{run}"')
    found.clear()
    assert source.refresh() is False
    assert len(source.settings.runs) == 2


# --- health ----------------------------------------------------------------------------------------------------------


def test_three_missed_ticks_are_one_too_many() -> None:
    service = Service(schedule="*/10 * * * *")
    allowed = allowed_ns(service, now_ns=NOW)
    assert allowed == 31 * MINUTE
    fresh = RunView("a", last_success_ns=NOW - 30 * MINUTE)
    stale = RunView("b", last_success_ns=NOW - 40 * MINUTE)
    health = health_of([fresh, stale], allowed_ns=allowed, started_ns=0, now_ns=NOW)
    assert not health.well
    assert health.reasons == ("b: the last good pass ended 40m ago",)


def test_the_reason_names_the_block() -> None:
    block = Block("replica-unreachable", "mirror", "/mnt/mirror/tiny: no such file")
    view = after_plan(RunView("tiny", last_success_ns=NOW - HOUR), tiny(blocks=[block]), now_ns=NOW, forecasts={})
    health = health_of([view], allowed_ns=MINUTE, started_ns=0, now_ns=NOW)
    assert "replica-unreachable on mirror: /mnt/mirror/tiny" in health.reasons[0]


def test_a_daemon_that_just_started_is_given_time() -> None:
    view = RunView("tiny")
    assert health_of([view], allowed_ns=HOUR, started_ns=NOW - MINUTE, now_ns=NOW).well
    late = health_of([view], allowed_ns=HOUR, started_ns=NOW - 2 * HOUR, now_ns=NOW)
    assert late.reasons == ("tiny: no good pass yet",)


def test_a_good_pass_that_lies_ahead_of_a_clock_set_back_does_not_count() -> None:
    view = RunView("tiny", last_success_ns=NOW + 9 * HOUR)
    late = health_of([view], allowed_ns=HOUR, started_ns=NOW - 2 * HOUR, now_ns=NOW)
    assert late.reasons == ("tiny: no good pass yet",)


def test_an_age_that_is_set_counts_instead_of_three_ticks() -> None:
    assert allowed_ns(replace(Service(), unhealthy_after=5 * HOUR), now_ns=NOW) == 5 * HOUR
