"""Disks that are not where they were, and clocks and times that cannot be believed: each leads to deleting less."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from prune import engine
from prune.model import SECOND
from tests.cli.command import prune
from tests.runs import applied, deleted_steps, run_of, settings_of
from tests.scenarios.asking import apply, plan
from tests.scenarios.small_disks import tmpfs
from tests.trees.build import HOUR, age, mirrored, names, snapshot, step_dirs, step_files

pytestmark = pytest.mark.usefixtures("alone")

DAY_NS = 86_400 * SECOND


def names_all(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def saved(*roots: Path, steps: tuple[int, ...] = (7, 8)) -> None:
    """Later saves, so that there is something to prune again."""
    for root in roots:
        step_files(root, steps, seconds=HOUR)


@pytest.fixture
def on_a_disk(tmp_path: Path):
    """A primary, and its mirror on a disk of its own; one pass has seen both."""
    primary = step_files(tmp_path / "P", range(1, 7))
    with tmpfs(tmp_path / "mnt", size="16m") as disk:
        mirror = mirrored(primary, disk / "tiny")
        apply(primary, mirror, keep=4)
        saved(primary, mirror)
        yield primary, mirror, disk


def test_a_mirror_whose_disk_is_not_mounted_is_not_taken_for_an_empty_one(on_a_disk) -> None:
    primary, mirror, disk = on_a_disk
    subprocess.run(["umount", str(disk)], check=True)
    mirror.mkdir()
    try:
        planned, done = plan(primary, mirror, keep=2), apply(primary, mirror, keep=2)
        assert (planned.code, done.code) == (3, 3)
        assert (planned.blocked, done.blocked) == ("replica-vanished", "replica-vanished")
        assert "is its disk mounted?" in planned.run["blocks"][0]["detail"]
        assert done.deleted == set()
        assert names_all(mirror) == set(), "nothing is written where a disk may be missing"
    finally:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(disk)], check=True)


def test_a_primary_whose_disk_is_not_mounted_costs_the_mirror_nothing(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "mnt", size="16m") as disk:
        primary = step_files(disk / "tiny", range(1, 7))
        mirror = mirrored(primary, tmp_path / "M")
        apply(primary, mirror, keep=4)
        saved(primary, mirror)
        before = snapshot(mirror)
        subprocess.run(["umount", str(disk)], check=True)
        primary.mkdir()
        try:
            done = apply(primary, mirror, keep=2)
            resumed = prune("resume", "--primary", primary, "--mirror", mirror)
            alone = prune("resume", "--primary", primary)
        finally:
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(disk)], check=True)
    assert (done.code, done.blocked, done.deleted) == (3, "replica-vanished", set())
    assert snapshot(mirror) == before
    assert (resumed.code, resumed.out) == (0, f"{mirror}/step_0008.pt\n")
    assert alone.code == 3, "history knows of checkpoints there, so that the empty directory is no new run"
    assert "is its disk mounted?" in alone.err


def test_a_disk_taken_away_in_the_middle_of_a_pass_ends_it(on_a_disk, tmp_path: Path) -> None:
    primary, mirror, disk = on_a_disk

    def unplugged() -> bool:
        if len(names(primary)) == 5:
            subprocess.run(["umount", "-l", str(disk)], check=True)
            mirror.mkdir(parents=True, exist_ok=True)
        return True

    outcome = applied(run_of(primary, mirror, last=2), tmp_path / "s.db", keep_going=unplugged, batch=1)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(disk)], check=True)

    assert outcome.blocked is not None
    assert outcome.blocked.block in ("replica-vanished", "volume-changed", "locked")
    assert len(names(primary)) >= 5


def test_a_declared_mount_point_with_nothing_mounted_blocks_even_the_first_pass(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 7))
    mirror = mirrored(primary, tmp_path / "M")
    config = tmp_path / "prune.toml"
    config.write_text(
        f'[[runs]]\nname = "t"\nprimary = "{primary}"\nmirrors = [{{root = "{mirror}", mountpoint = true}}]\n'
        "[runs.keep]\nlast = 2\n"
    )
    done = prune("apply", "--yes", "--config", config, "--json")
    if os.stat(mirror).st_dev != os.stat("/").st_dev:
        pytest.skip("the tests' directory is itself on a mounted disk")
    assert done.code == 3
    assert done.json["runs"][0]["blocked"]["block"] == "replica-vanished"
    assert len(names(primary)) == 6


def test_a_new_disk_counts_as_an_empty_mirror_once_it_is_adopted_and_licenses_no_delete(on_a_disk) -> None:
    primary, mirror, _ = on_a_disk
    shutil.rmtree(mirror)
    mirror.mkdir()
    (mirror / ".volume-id").touch()  # a marker that somebody made by hand, as advice says
    roots = ("--primary", primary, "--mirror", mirror)
    assert apply(primary, mirror, keep=2).blocked == "replica-vanished"

    assert prune("adopt", "mirror", *roots).code == 0

    done = apply(primary, mirror, keep=2)
    assert (done.code, done.deleted) == (0, set())
    assert "not-aligned" in done.attention


def test_a_brake_stops_a_pass_that_would_take_too_much_until_a_person_says_so(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 31))
    config = tmp_path / "prune.toml"
    config.write_text(
        f'[[runs]]\nname = "t"\nprimary = "{primary}"\n[runs.keep]\nlast = 2\n[runs.guards]\nmax_delete = "50%"\n'
    )
    braked = prune("apply", "--yes", "--config", config, "--json")
    assert braked.code == 3
    assert braked.json["runs"][0]["blocked"]["block"] == "too-many"
    assert "28 of 30 checkpoints would go" in braked.out
    assert len(names(primary)) == 30
    assert prune("apply", "--yes", "--config", config, "--allow-many").code == 0
    assert len(names(primary)) == 2


@pytest.mark.parametrize("days", [90, -90])
def test_a_clock_that_jumped_makes_no_save_in_flight_look_old(tmp_path: Path, days: int) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300, 400))
    age(primary / "step-100", 30)
    (primary / "step-500.part").mkdir()
    age(primary / "step-500.part", 30)
    before = names(primary)

    outcome = applied(run_of(primary, last=3), tmp_path / "s.db", clock=lambda: time.time_ns() + days * DAY_NS)

    assert deleted_steps(outcome) == []
    assert outcome.orphans_deleted == ()
    assert {held.guard for held in outcome.guarded if held.step == 100} >= {"in-flight"}
    assert names(primary) == before
    assert "clock-skew" in {note.kind for note in outcome.attention}


def test_what_is_old_by_both_clocks_goes_whichever_is_ahead(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300, 400))
    outcome = applied(run_of(primary, last=3), tmp_path / "s.db", clock=lambda: time.time_ns() + 90 * DAY_NS)
    assert deleted_steps(outcome) == [100]


def test_a_preview_says_whose_clock_it_went_by(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300))
    document = prune("plan", "--json", "--primary", primary).json
    assert document["clock"] == {"source": "local", "skew_seconds": None}


@pytest.mark.parametrize("mtime", [0, -11_644_473_600, 315_532_800], ids=["zero", "1601", "1980-01-01"])
def test_a_time_that_nobody_set_tells_no_age(tmp_path: Path, mtime: int) -> None:
    primary = step_files(tmp_path / "P", range(100, 700, 100))
    mirror = mirrored(primary, tmp_path / "M")
    for path in mirror.iterdir():
        os.utime(path, (mtime, mtime))
    before = snapshot(mirror)

    planned, done = plan(primary, mirror, keep=2), apply(primary, mirror, keep=2)

    assert planned.guards == {step: {"unknown-mtime"} for step in (100, 200, 300, 400)}
    assert "4 checkpoints held: unknown mtime" in planned.told("unknown-mtime")
    assert (done.code, done.deleted) == (0, set())
    assert {name: it for name, it in snapshot(mirror).items() if "prune" not in name and name != "."}.items() <= (
        before.items()
    )
    assert prune("plan", "--strict", "--primary", primary, "--mirror", mirror, "--keep-last", "2").code == 7


def test_one_file_without_a_time_keeps_the_whole_step(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(100, 700, 100))
    os.utime(primary / "step-100" / "rank_1.pt", (0, 0))
    done = apply(primary, keep=2)
    assert done.deleted == {200, 300, 400}
    assert done.guards == {100: {"unknown-mtime"}}


def test_a_later_time_is_no_age_until_it_has_been(tmp_path: Path) -> None:
    """A mtime in the future makes a step no older and no newer than the others."""
    primary = step_files(tmp_path / "P", range(100, 700, 100))
    age(primary / "step_0600.pt", -40 * 86_400)
    done = apply(primary, keep=2)
    assert done.deleted == {100, 200, 300, 400}


def test_checkpoints_on_another_disk_than_their_root_block_until_they_are_the_root(tmp_path: Path) -> None:
    """Else the room that is measured and the trash would be those of another disk."""
    with tmpfs(tmp_path / "run" / "checkpoints", size="16m") as folder:
        step_dirs(folder, range(1, 6))
        above = plan(tmp_path / "run", keep=2)
        done = apply(folder, keep=2)
        (replica,) = plan(folder, keep=2).run["replicas"]
    assert (above.code, above.blocked) == (3, "control-unusable")
    assert f"name {folder} as the root" in above.run["blocks"][0]["detail"]
    assert done.deleted == {1, 2, 3}
    assert replica["total_bytes"] == 16 << 20


def test_a_step_in_which_something_is_mounted_stays_until_it_is_unmounted(tmp_path: Path) -> None:
    """Else what is mounted there would go into the trash with the step, and the rest of the step would be lost."""
    primary = step_dirs(tmp_path / "P", range(1, 6))
    (primary / "step-2" / "data").mkdir()
    with tmpfs(primary / "step-2" / "data", size="1m") as disk:
        (disk / "precious").write_text("not of this step")
        age(primary / "step-2", 6 * HOUR)
        done = apply(primary, keep=2)
        assert (disk / "precious").exists()
    age(primary / "step-2", 6 * HOUR)
    assert (done.code, done.deleted, done.guards) == (0, {1, 3}, {2: {"linked"}})
    assert "something is mounted at step-2/data" in str(done.run["guarded"])
    assert apply(primary, keep=2).deleted == {2}


def test_settings_of_a_run_are_checked_at_the_same_clock_as_its_files(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 6), seconds=60)
    settings = settings_of(run_of(primary, last=2), state=tmp_path / "s.db")
    now = time.time_ns()
    young = engine.plan(settings, now_ns=now).runs[0]
    old = engine.plan(settings, now_ns=now + 3600 * SECOND).runs[0]
    assert [step.step for step in young.victims] == []
    assert [step.step for step in old.victims] == [1, 2, 3]
