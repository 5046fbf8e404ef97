"""Disks that really fill: saves go on, nothing wanted is lost, and what cannot be helped is said."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from prune import engine
from prune.journal import open_journal
from prune.pressure import Wish, make_room, relieve
from prune.pressure.probe import read_room
from prune.pressure.relief import Means, Pressed
from prune.pressure.watch import local_replicas, room_on, volumes, wanted
from prune.settings.schema import Pressure, Share
from tests.runs import applied, deleted_steps, outcome_of, plan_of, run_of, settings_of
from tests.scenarios.small_disks import tmpfs
from tests.service.served import Served
from tests.trees.build import mirrored, step_dirs, step_files

MIB = 1 << 20
KEEP = 6
CONFIG = """
state = "sqlite:///{folder}/state.db"
[service]
schedule = "10m"
pressure_check = "200ms"
listen = ""
[[runs]]
name = "tiny"
primary = "{primary}"
mirrors = ["{mirror}"]
[runs.keep]
last = {keep}
[runs.guards]
in_flight = "1s"
[runs.pressure]
free_below = "45%"
free_target = "55%"
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with tmpfs(tmp_path / "disk", size="32m") as folder:
        yield folder


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True], ids=["undisturbed", "killed at random times"])
def test_no_save_ever_fails_for_room_and_the_newest_are_always_there(tmp_path: Path, disk: Path, killed: bool) -> None:
    seed = int(os.environ.get("PRUNE_TEST_SEED", time.time_ns() % 10**6))
    print(f"seed {seed}: PRUNE_TEST_SEED={seed} repeats it")
    chance = random.Random(seed)
    with tmpfs(tmp_path / "second", size="32m") as second:
        primary, mirror = disk / "tiny", second / "tiny"
        primary.mkdir()
        mirror.mkdir()
        config = tmp_path / "prune.toml"
        config.write_text(CONFIG.format(folder=tmp_path, primary=primary, mirror=mirror, keep=KEEP))
        served = Served(config, folder=tmp_path)
        try:
            served.ready()
            writer = subprocess.Popen(
                [sys.executable, "-m", "tests.scenarios.writer", str(primary), str(mirror), "300", str(KEEP), "0.2"],
                stdout=subprocess.PIPE,
            )
            while writer.poll() is None:
                time.sleep(chance.uniform(0.5, 4) if killed else 0.5)
                if killed and writer.poll() is None:
                    served.send(signal.SIGKILL)
                    served.again()
            assert writer.stdout is not None
            told = json.loads(writer.stdout.read())
        finally:
            served.close()
    print(told)
    assert told["failed"] == []
    assert told["lost"] == []
    assert told["saved"] == 300


def test_what_other_links_hold_is_given_up_once_and_no_more(tmp_path: Path, disk: Path) -> None:
    root = step_files(disk / "tiny", range(10, 201, 10), size=MIB)
    (disk / "elsewhere").mkdir()
    for path in root.iterdir():
        os.link(path, disk / "elsewhere" / path.name)
    relief = make_room(settings_of(run_of(root, last=3), state=tmp_path / "s.db"), 30 * MIB, means=Means(late_ns=10**8))
    (outcome,) = relief.outcome.runs
    assert len(deleted_steps(outcome)) == 1
    assert relief.freed_nothing
    assert not relief.reached


def test_folders_whose_files_other_links_hold_are_given_up_once_and_no_more(tmp_path: Path, disk: Path) -> None:
    root = step_dirs(disk / "tiny", range(10, 201, 10), files=2)
    shutil.copytree(root, disk / "elsewhere", copy_function=os.link)
    settings = settings_of(run_of(root, last=3), state=tmp_path / "s.db")
    relief = make_room(settings, 900 << 50, means=Means(late_ns=10**8))
    (outcome,) = relief.outcome.runs
    assert len(deleted_steps(outcome)) == 1
    assert relief.freed_nothing


def test_small_steps_are_all_taken_where_each_frees_what_it_held(tmp_path: Path, disk: Path) -> None:
    root = step_dirs(disk / "tiny", range(10, 201, 10), files=2)
    relief = make_room(settings_of(run_of(root, last=3), state=tmp_path / "s.db"), 900 << 50)
    (outcome,) = relief.outcome.runs
    assert deleted_steps(outcome) == list(range(10, 171, 10))
    assert not relief.freed_nothing


def test_what_a_process_holds_open_is_not_taken_at_all(tmp_path: Path, disk: Path) -> None:
    root = step_files(disk / "tiny", range(10, 201, 10), size=MIB)
    held = [path.open("rb") for path in sorted(root.glob("*.pt"))]
    try:
        settings = settings_of(run_of(root, last=3), state=tmp_path / "s.db")
        reader = subprocess.Popen(
            [sys.executable, "-c", HOLDER, *(str(path) for path in sorted(root.glob("*.pt")))], stdout=subprocess.PIPE
        )
        assert reader.stdout is not None
        reader.stdout.readline()
        relief = make_room(settings, 30 * MIB, means=Means(late_ns=10**8))
        reader.kill()
        reader.wait()
    finally:
        for file in held:
            file.close()
    assert not relief.reached
    assert len(list(root.glob("*.pt"))) == 20
    assert any("busy" in note.detail for note in relief.attention)


HOLDER = """
import sys, time
held = [open(path, "rb") for path in sys.argv[1:]]
print("held", flush=True)
time.sleep(60)
"""


def test_room_is_made_to_the_byte_that_was_asked_for_and_no_step_more(tmp_path: Path, disk: Path) -> None:
    root = step_files(disk / "tiny", range(10, 251, 10), size=MIB)
    free = read_room(str(root)).free_bytes
    relief = make_room(settings_of(run_of(root, last=3), state=tmp_path / "s.db"), free + 3 * MIB)
    assert relief.reached
    (outcome,) = relief.outcome.runs
    assert len(deleted_steps(outcome)) in (3, 4)  # the control folder takes its own few blocks
    assert read_room(str(root)).free_bytes >= free + 3 * MIB


def test_a_volume_with_no_inode_left_is_seen_and_freed_and_nothing_is_created_on_it(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "capped", size="32m", inodes=600) as capped:
        root = step_dirs(capped / "tiny", range(10, 101, 10), files=20)
        run = run_of(root, last=3, pressure=Pressure(free_below=Share(10), free_target=Share(20)))
        settings = settings_of(run, state=tmp_path / "s.db")
        engine.apply(settings_of(run_of(root, last=10), state=tmp_path / "s.db"))
        engine.apply(settings_of(run_of(root, last=9), state=tmp_path / "s.db"))  # makes the control folder
        number = 0
        while read_room(str(root)).free_inodes:
            (capped / f"somebody-else-{number}").touch()
            number += 1
        before = names_below(capped)
        (volume,), _ = volumes(local_replicas([run]))
        space = room_on(volume)
        assert space is not None
        assert space.free_bytes > 20 * MIB
        found = wanted(volume, space, {}, now_ns=time.time_ns())
        assert found is not None
        relief = relieve(settings, found[1], found[0])
        assert relief.reached, relief.attention
        assert names_below(capped) <= before
        assert len(list(root.glob("step*"))) >= 3


def test_lone_files_on_a_volume_with_no_inode_left_go_even_where_no_pass_ever_was(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "capped", size="32m", inodes=60) as capped:
        root = step_files(capped / "tiny", range(10, 501, 10))
        while read_room(str(root)).free_inodes:
            (capped / f"somebody-else-{len(os.listdir(capped))}").touch()
        run = run_of(root, last=3)
        relief = relieve(settings_of(run, state=tmp_path / "s.db"), [Pressed(run, "primary")], Wish(inodes=20))
        assert relief.reached, relief.attention
        assert len(list(root.glob("*.pt"))) >= 3


@pytest.fixture
def no_inode_left(tmp_path: Path) -> Iterator[Path]:
    """Twelve lone files where not even the control folder can be made; the oldest one's inode is held elsewhere."""
    with tmpfs(tmp_path / "capped", size="32m", inodes=40) as capped:
        root = step_files(capped / "tiny", range(10, 130, 10))
        (capped / "link").hardlink_to(root / "step_0010.pt")
        while read_room(str(root)).free_inodes:
            (capped / f"somebody-else-{len(os.listdir(capped))}").touch()
        yield root


def test_on_a_disk_full_to_the_last_inode_a_reviewed_plan_is_not_gone_beyond(
    tmp_path: Path, no_inode_left: Path
) -> None:
    state = tmp_path / "s.db"
    reviewed = plan_of(run_of(no_inode_left, last=10), state)
    outcome = outcome_of(run_of(no_inode_left, last=2), state, reviewed=reviewed).runs[0]
    assert (deleted_steps(outcome), outcome.gone, outcome.blocked) == ([10, 20], (), None)
    assert len(list(no_inode_left.glob("*.pt"))) == 10
    told = open_journal(f"sqlite:///{state}", write=False)
    assert {event.step for event in told.history() if event.kind == "deleted"} == {10, 20}
    told.close()


def test_on_a_disk_full_to_the_last_inode_the_newest_is_read_before_anything_goes(
    tmp_path: Path, no_inode_left: Path
) -> None:
    newest = no_inode_left / "step_0120.pt"
    before = newest.stat()
    damaged = newest.read_bytes().replace(b"120120120", b"120120121")
    newest.write_bytes(damaged)
    os.utime(newest, ns=(before.st_atime_ns, before.st_mtime_ns))
    outcome = applied(run_of(no_inode_left, last=11), tmp_path / "s.db")
    assert deleted_steps(outcome) == []


def test_a_block_met_after_the_first_look_blames_no_times(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "capped", size="32m", inodes=60) as capped:
        root = step_dirs(capped / "tiny", range(10, 90, 10))
        while read_room(str(root)).free_inodes:
            (capped / f"somebody-else-{len(os.listdir(capped))}").touch()
        outcome = applied(run_of(root, last=2), tmp_path / "s.db")
        assert outcome.blocked is not None
        assert outcome.blocked.block == "control-unusable"
        assert {held.guard for held in outcome.guarded} == {"blocked"}
        assert "unknown-mtime" not in {note.kind for note in outcome.attention}


def names_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_a_full_mirror_is_relieved_on_both_sides(tmp_path: Path, disk: Path) -> None:
    primary = step_files(tmp_path / "primary", range(10, 251, 10), size=MIB)
    mirror = mirrored(primary, disk / "tiny")
    run = run_of(primary, mirror, last=3)
    free = read_room(str(mirror)).free_bytes
    relief = make_room(settings_of(run, state=tmp_path / "s.db"), free + 5 * MIB, on="mirror")
    assert relief.reached
    left = {path.name for path in primary.glob("*.pt")}
    assert left == {path.name for path in mirror.glob("*.pt")}
    assert len(left) < 25
