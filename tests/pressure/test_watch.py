"""The cheap look at volumes, and how often a try is made again."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from prune.forecast import Forecast
from prune.model import SECOND, Attention, Outcome
from prune.pressure.marks import Wish
from prune.pressure.relief import Relief
from prune.pressure.watch import (
    LONGEST_NS,
    NO_GAIN_FIRST_NS,
    BackOff,
    Volume,
    local_replicas,
    lying,
    next_saves,
    room_on,
    volumes,
    wanted,
)
from prune.settings.schema import HOUR, MINUTE, Pressure, ReplicaSettings, RunSettings, Share
from prune.stores.base import Space
from prune.stores.mounts import Mount
from tests.runs import run_of
from tests.trees.build import step_files

NOW = 10**18


def space(free: int) -> Space:
    return Space(free, 1000, 5000, 10_000)


def told(size: int, *, in_ns: int | None) -> Forecast:
    return Forecast(size, None if in_ns is None else NOW + in_ns, MINUTE, None, None)


def volume_of(*runs: RunSettings) -> Volume:
    (volume,), _ = volumes(local_replicas(runs))
    return volume


def test_runs_of_one_file_system_are_one_volume(tmp_path: Path) -> None:
    one, two = step_files(tmp_path / "one", [1]), step_files(tmp_path / "two", [1])
    found, unseen = volumes(local_replicas([run_of(one, name="one"), run_of(two, name="two")]))
    assert [[pressed.run.name for pressed in volume.pressed] for volume in found] == [["one", "two"]]
    assert unseen == []


def test_a_root_that_is_not_there_is_on_no_volume_and_an_object_store_has_none(tmp_path: Path) -> None:
    run = run_of(tmp_path / "gone", Path("s3:/bucket"))
    cloud = RunSettings("cloud", (ReplicaSettings("primary", "s3://bucket/x", "primary"),))
    found, unseen = volumes(local_replicas([run, cloud]))
    assert found == []
    assert [pressed.replica for pressed in unseen] == ["primary", "mirror"]


def test_replicas_of_one_file_system_lie_in_one_place_wherever_it_is_mounted_and_nothing_is_touched() -> None:
    runs = [run_of(Path("/data/a"), Path("/mnt/m/a"), name="a"), run_of(Path("/bind/b"), name="b")]
    table = [
        Mount("/", "ext4", "8:1"),
        Mount("/data", "xfs", "8:2"),
        Mount("/bind", "xfs", "8:2"),
        Mount("/mnt/m", "nfs"),
    ]
    found = lying(runs, table)
    assert {place: [(one.run.name, one.replica) for one in pressed] for place, pressed in found.items()} == {
        "8:2": [("a", "primary"), ("b", "primary")],
        "/mnt/m": [("a", "mirror")],
    }


def test_a_volume_that_was_swapped_tells_no_room(tmp_path: Path) -> None:
    volume = volume_of(run_of(step_files(tmp_path / "one", [1])))
    assert room_on(volume) is not None
    assert room_on(Volume(volume.device + 1, volume.root, volume.pressed)) is None


def test_low_water_of_any_run_on_the_volume_counts_for_all(tmp_path: Path) -> None:
    marks = Pressure(free_below=Share(10), free_target=Share(20))
    runs = [
        run_of(step_files(tmp_path / "one", [1]), name="one"),
        run_of(step_files(tmp_path / "two", [1]), name="two", pressure=marks),
    ]
    volume = volume_of(*runs)
    assert wanted(volume, space(100), {}, now_ns=NOW) is None
    found = wanted(volume, space(99), {}, now_ns=NOW)
    assert found is not None
    assert found[0].bytes == 200
    assert len(found[1]) == 2


def test_the_next_save_that_will_not_fit_begins_it(tmp_path: Path) -> None:
    volume = volume_of(run_of(step_files(tmp_path / "one", [1])))
    forecasts = {("tiny", "primary"): told(100, in_ns=HOUR)}
    assert wanted(volume, space(100), forecasts, now_ns=NOW) is None
    found = wanted(volume, space(99), forecasts, now_ns=NOW)
    assert found is not None
    assert found[0].bytes == 100


def test_saves_that_come_together_must_fit_together() -> None:
    soon = [told(100, in_ns=10 * SECOND), told(70, in_ns=-SECOND)]
    assert next_saves([*soon, told(90, in_ns=HOUR)], now_ns=NOW) == 170
    assert next_saves([told(100, in_ns=HOUR), told(90, in_ns=HOUR)], now_ns=NOW) == 100


def test_a_run_that_stopped_saving_asks_for_no_room() -> None:
    assert next_saves([told(100, in_ns=None)], now_ns=NOW) == 0


def test_a_volume_of_no_size_begins_nothing(tmp_path: Path) -> None:
    volume = volume_of(run_of(step_files(tmp_path / "one", [1]), pressure=Pressure(free_below=10)))
    assert wanted(volume, Space(0, 0, None, None), {}, now_ns=NOW) is None


class Trial:
    def __init__(self, tmp_path: Path) -> None:
        self.now = NOW
        self.root = step_files(tmp_path / "one", [1])
        self.volume = volume_of(run_of(self.root))
        self.back_off = BackOff(lambda: self.now)

    def note(self, *, reached: bool, kind: str = "target-not-reached") -> None:
        notes = () if reached else (Attention(kind, "primary", "", ""),)
        self.back_off.note(self.volume, Relief(Wish(1), reached, Wish(), Outcome("", ()), notes))

    @property
    def may_try(self) -> bool:
        return self.back_off.may_try(self.volume)


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


def test_a_try_that_helped_may_be_made_again_at_once(trial: Trial) -> None:
    trial.note(reached=True)
    assert trial.may_try


def test_a_try_without_gain_waits_twice_as_long_each_time_and_never_too_long(trial: Trial) -> None:
    waits = []
    for _ in range(6):
        trial.note(reached=False, kind="no-gain")
        waits.append(int(trial.back_off.seconds_left(trial.volume)) * SECOND)
        trial.now += waits[-1]
        assert trial.may_try
    assert waits[:3] == [NO_GAIN_FIRST_NS, 2 * NO_GAIN_FIRST_NS, 4 * NO_GAIN_FIRST_NS]
    assert max(waits) == LONGEST_NS


def test_a_clock_that_was_set_back_does_not_make_the_wait_last(trial: Trial) -> None:
    trial.note(reached=False, kind="no-gain")
    assert not trial.may_try
    trial.now -= 1000 * HOUR
    assert trial.may_try


def test_a_new_save_does_not_hurry_a_try_that_gained_nothing(trial: Trial) -> None:
    trial.note(reached=False, kind="no-gain")
    step_files(trial.root, [2])
    assert not trial.may_try


def test_a_new_save_hurries_a_try_that_fell_short(trial: Trial) -> None:
    trial.note(reached=False)
    assert not trial.may_try
    step_files(trial.root, [2])
    assert trial.may_try


def test_success_forgets_the_waiting(trial: Trial) -> None:
    trial.note(reached=False, kind="no-gain")
    trial.note(reached=True)
    assert trial.may_try
    trial.note(reached=False, kind="no-gain")
    assert trial.back_off.seconds_left(trial.volume) == NO_GAIN_FIRST_NS / SECOND


LOOKS = """
import os, sys
from pathlib import Path
from prune.pressure.watch import local_replicas, room_on, volumes, wanted
from prune.settings.schema import Pressure, ReplicaSettings, RunSettings, Share
runs = [RunSettings(name, (ReplicaSettings("primary", os.path.join(sys.argv[1], name), "primary"),),
                    pressure=Pressure(free_below=Share(0))) for name in os.listdir(sys.argv[1])]
(volume,), _ = volumes(local_replicas(runs))
wanted(volume, room_on(volume), {}, now_ns=0)
os.stat("/begin-of-the-look") if os.path.exists("/begin-of-the-look") else None
wanted(volume, room_on(volume), {}, now_ns=0)
os.path.exists("/end-of-the-look")
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_look_at_a_volume_is_fewer_than_twenty_system_calls_and_lists_nothing(tmp_path: Path) -> None:
    roots = tmp_path / "roots"
    for number in range(300):
        step_files(roots / f"run-{number}", [1])
    trace = tmp_path / "trace"
    done = subprocess.run(
        ["strace", "-o", str(trace), sys.executable, "-c", LOOKS, str(roots)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "ptrace" in done.stderr or not trace.exists():
        pytest.skip(f"strace cannot trace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    text = trace.read_text()
    look = re.search(r"begin-of-the-look.*?\n(.*)\n[^\n]*end-of-the-look", text, re.S)
    assert look
    calls = look[1].splitlines()
    assert 0 < len(calls) < 20, calls
    assert not [call for call in calls if call.startswith("getdents")]
