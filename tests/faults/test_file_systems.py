"""The main job on real file systems, and on one that misbehaves: what each may not cost."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import prune
from tests.faults import filesystems
from tests.scenarios.asking import apply, plan
from tests.trees.build import age, mirrored, names, snapshot, step_dirs, step_files

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("alone")]

FORTY_SIX = range(10, 470, 10)
GONE = set(range(10, 350, 10))
KINDS = ["tmpfs", "ext4", "xfs", "btrfs", "overlay", "fuse"]


@contextlib.contextmanager
def mounted(kind: str, at: Path, **faults: object) -> Iterator[Path]:
    if kind == "tmpfs":
        with filesystems.tmpfs(at) as root:
            yield root
    elif kind == "overlay":
        lower = at.parent / "lower"
        lower.mkdir()
        with filesystems.overlay(at, lower) as root:
            yield root
    elif kind == "fuse":
        with filesystems.fuse(at, **faults) as found:
            yield found.root
    else:
        with filesystems.in_a_file(at, kind) as root:
            yield root


@pytest.mark.parametrize("build", [step_files, step_dirs], ids=["files", "directories"])
@pytest.mark.parametrize("kind", KINDS)
def test_of_46_aligned_steps_the_same_12_stay_on_both_sides(tmp_path: Path, kind: str, build) -> None:
    with mounted(kind, tmp_path / "disk") as disk:
        primary = build(disk / "P", FORTY_SIX)
        mirror = mirrored(primary, disk / "M")
        kept = {
            name: snapshot(primary / name) for name in names(primary) if int("".join(filter(str.isdigit, name))) > 340
        }

        planned, done = plan(primary, mirror, keep=12), apply(primary, mirror, keep=12)

        assert planned.deleted == done.deleted == GONE
        assert (done.code, done.run["failed"], done.run["gone"]) == (0, [], [])
        assert names(primary) == names(mirror) == set(kept)
        assert done.guards == {}
        for root in (primary, mirror):
            assert os.listdir(root / ".prune" / "trash") == []
        for name, before in kept.items():
            assert {path: seen[1:] for path, seen in snapshot(primary / name).items()} == {
                path: seen[1:] for path, seen in before.items()
            }
        assert apply(primary, mirror, keep=12).run["deleted"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_undo_brings_back_what_waits_in_the_trash(tmp_path: Path, kind: str) -> None:
    with mounted(kind, tmp_path / "disk") as disk:
        for build in (step_files, step_dirs):
            primary = build(disk / build.__name__, range(1, 7))
            before = names(primary)
            assert apply(primary, keep=3, more=["--grace", "1d"]).code == 0
            assert len(names(primary)) == 3
            done = prune("undo", "--primary", primary)
            assert done.code == 0, done.err + done.out
            assert names(primary) == before


@pytest.mark.parametrize("kind", ["ext4", "fuse"])
def test_what_comes_back_replaces_nothing_that_is_there_by_now(tmp_path: Path, kind: str) -> None:
    """Whether or not the file system can promise that in one call."""
    with mounted(kind, tmp_path / "disk") as disk:
        primary = step_dirs(disk / "P", range(1, 7))
        apply(primary, keep=3, more=["--grace", "1d"])
        (primary / "step-1").mkdir()
        (primary / "step-2").write_text("somebody's")
        step_dirs(primary, [3])
        (primary / "step-3" / "rank_0.pt").write_bytes(b"saved again")
        done = prune("undo", "--primary", primary)
        assert done.code == 1
        assert list((primary / "step-1").iterdir()) == []
        assert (primary / "step-2").read_text() == "somebody's"
        assert (primary / "step-3" / "rank_0.pt").read_bytes() == b"saved again"
        assert len(os.listdir(primary / ".prune" / "trash")) == 3


# --- full to the last byte or inode ------------------------------------------------------------------------------


def fill(disk: Path) -> None:
    """Takes every byte that is left."""
    with open(disk / "filler", "wb", buffering=0) as file:
        for size in (1 << 20, 4096, 512):
            with contextlib.suppress(OSError):
                while True:
                    if not file.write(b"x" * size):
                        break
        with contextlib.suppress(OSError):
            os.fsync(file.fileno())


@pytest.mark.parametrize("known", [True, False], ids=["pruned before", "never pruned"])
@pytest.mark.parametrize("kind", ["tmpfs", "ext4", "xfs", "btrfs"])
def test_with_no_byte_free_lone_files_go(tmp_path: Path, kind: str, known: bool) -> None:
    with mounted(kind, tmp_path / "disk") as disk:
        primary = step_files(disk / "P", range(1, 12), size=300_000)
        if known:
            apply(primary, keep=10)
        fill(disk)
        done = apply(primary, keep=3)
        assert done.code in (0, 1), done.run
        assert done.deleted >= set(range(2, 8))
        assert {f"step_{step:04d}.pt" for step in (9, 10, 11)} <= names(primary)
        again = apply(primary, keep=3)
        assert (again.code, len(names(primary))) == (0, 3)


@pytest.mark.parametrize("kind", ["tmpfs", "ext4", "xfs", "btrfs"])
def test_with_no_byte_free_directories_go_where_a_pass_was_before(tmp_path: Path, kind: str) -> None:
    with mounted(kind, tmp_path / "disk") as disk:
        primary = step_dirs(disk / "P", range(1, 12), files=3, size=100_000)
        apply(primary, keep=10)
        fill(disk)
        done = apply(primary, keep=3)
        assert done.code in (0, 1), done.run
        assert done.deleted, done.run
        assert {f"step-{step}" for step in (9, 10, 11)} <= names(primary)
        apply(primary, keep=3)
        assert names(primary) == {"step-9", "step-10", "step-11"}


def test_with_no_byte_free_directories_stay_where_no_pass_ever_was_and_that_is_told(tmp_path: Path) -> None:
    """Without a record nothing is withdrawn, since nobody could tell after a crash what was meant."""
    with filesystems.tmpfs(tmp_path / "disk", size="16m") as disk:
        primary = step_dirs(disk / "P", range(1, 8), files=3, size=100_000)
        before = names(primary)
        fill(disk)
        done = apply(primary, keep=3)
        assert done.code in (1, 3)
        assert "No space left on device" in str(done.run["failed"]) + str(done.run["blocks"])
        assert names(primary) == before
        (disk / "filler").unlink()
        assert apply(primary, keep=3).deleted == {1, 2, 3, 4}


def exhaust(disk: Path) -> int:
    """Takes every inode that is left."""
    number = 0
    with contextlib.suppress(OSError):
        while True:
            os.close(os.open(disk / f"somebody-else-{number}", os.O_CREAT | os.O_WRONLY))
            number += 1
    return number


@pytest.mark.parametrize("build", [step_files, step_dirs], ids=["files", "directories"])
def test_with_no_inode_free_it_frees_and_creates_nothing(tmp_path: Path, build) -> None:
    with filesystems.tmpfs(tmp_path / "disk", size="32m", inodes=200) as disk:
        primary = build(disk / "P", range(1, 12))
        apply(primary, keep=10)
        exhaust(disk)
        assert os.statvfs(disk).f_favail == 0
        before = {str(path.relative_to(disk)) for path in disk.rglob("*")}
        done = apply(primary, keep=3)
        assert (done.code, len(done.deleted)) == (0, 7)
        assert {str(path.relative_to(disk)) for path in disk.rglob("*")} <= before
        assert os.statvfs(disk).f_favail > 0


def test_with_no_inode_free_on_ext4_it_frees(tmp_path: Path) -> None:
    with filesystems.in_a_file(tmp_path / "disk", "ext4", mebibytes=8) as disk:
        primary = step_dirs(disk / "P", range(1, 8), files=2)
        apply(primary, keep=6)
        exhaust(disk)
        assert os.statvfs(disk).f_favail == 0
        done = apply(primary, keep=3)
        assert done.code == 0, done.run
        assert names(primary) == {"step-5", "step-6", "step-7"}


# --- layers and bind mounts ----------------------------------------------------------------------------------------


def test_a_directory_of_a_lower_layer_stays_and_is_told_and_lone_files_go(tmp_path: Path) -> None:
    lower = tmp_path / "lower"
    step_dirs(lower / "dirs", range(1, 6))
    step_files(lower / "files", range(1, 6))
    with filesystems.overlay(tmp_path / "merged", lower) as merged:
        files, dirs = apply(merged / "files", keep=2), apply(merged / "dirs", keep=2)
        left = names(merged / "files"), names(merged / "dirs")
    assert (files.code, files.deleted) == (0, {1, 2, 3})
    assert left[0] == {"step_0004.pt", "step_0005.pt"}
    assert dirs.code == 1
    assert {failed["step"] for failed in dirs.run["failed"]} == {1, 2, 3}
    assert all("cross-device" in failed["error"].lower() for failed in dirs.run["failed"])
    assert left[1] == {f"step-{step}" for step in range(1, 6)}


def test_where_nothing_can_be_written_a_plan_is_made_and_applying_is_blocked(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(1, 6))
    with filesystems.read_only(primary):
        planned, done = plan(primary, keep=2), apply(primary, keep=2)
    assert (planned.code, planned.blocked, planned.candidate) == (3, "read-only", 5)
    assert (done.code, done.blocked, done.deleted) == (3, "read-only", set())


def test_a_disk_mounted_inside_a_step_is_never_emptied(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(1, 6))
    inner = primary / "step-1" / "optim"
    with filesystems.tmpfs(inner, size="1m"):
        (inner / "precious").write_text("stays")
        age(primary / "step-1", 9000)
        done = apply(primary, keep=2)
        found = list(primary.rglob("precious"))
        assert found, "a file system mounted below is not ours to empty"
        assert found[0].read_text() == "stays"
        for path in primary.rglob("optim"):
            if os.path.ismount(path):
                subprocess.run(["umount", path], check=True)
    assert 1 not in done.deleted


# --- times ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[filesystems.Fuse, Path, Path]]:
    """A primary and its mirror on one misbehaving file system, six steps of directories on each."""
    with filesystems.fuse(tmp_path / "fuse") as found:
        step_dirs(found.below / "P", range(1, 7), files=2)
        mirrored(found.below / "P", found.below / "M")
        yield found, found.root / "P", found.root / "M"


@pytest.mark.parametrize("mtime", ["zero", "1601"])
def test_where_no_times_are_kept_everything_is_held_and_told(pair, mtime: str) -> None:
    found, primary, mirror = pair
    found.faults(mtime=mtime)
    planned, done = plan(primary, mirror, keep=2), apply(primary, mirror, keep=2)
    assert planned.guards == {step: {"unknown-mtime"} for step in (1, 2, 3, 4)}
    assert "4 checkpoints held: unknown mtime" in planned.told("unknown-mtime")
    assert (done.code, done.deleted) == (0, set())
    assert len(names(primary)) == len(names(mirror)) == 6


def test_times_of_two_seconds_are_fine(pair) -> None:
    found, primary, mirror = pair
    found.faults(mtime="coarse")
    assert apply(primary, mirror, keep=2).deleted == {1, 2, 3, 4}
    assert names(primary) == names(mirror) == {"step-5", "step-6"}


def test_a_volume_whose_clock_is_ahead_or_behind_makes_nothing_older(pair) -> None:
    found, primary, mirror = pair
    age(found.below / "P" / "step-2", 200)
    age(found.below / "M" / "step-2", 200)
    for skew in (3600, -3600):
        found.faults(skew=skew)
        done = apply(primary, mirror, keep=2)
        assert "in-flight" in done.guards[2], skew
        assert "clock-skew" in done.attention
        assert "step-2" in names(primary)


def test_a_volume_that_answers_1970_on_being_touched_is_asked_by_writing(pair) -> None:
    found, primary, mirror = pair
    found.faults(touch="literal")
    done = apply(primary, mirror, keep=2)
    assert done.deleted == {1, 2, 3, 4}
    assert "clock-skew" not in done.attention


# --- numbers and names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", [step_files, step_dirs], ids=["files", "directories"])
def test_where_inode_numbers_change_all_the_time_it_prunes_all_the_same(tmp_path: Path, build) -> None:
    with filesystems.fuse(tmp_path / "fuse", inodes="changing") as found:
        build(found.below / "P", range(1, 7))
        mirrored(found.below / "P", found.below / "M")
        primary, mirror = found.root / "P", found.root / "M"
        reviewed = tmp_path / "plan.json"
        asked = ("--primary", primary, "--mirror", mirror, "--keep-last", "2")
        planned = plan(primary, mirror, keep=2)
        assert (planned.candidate, planned.deleted) == (6, {1, 2, 3, 4})
        assert prune("plan", *asked, "--out", reviewed).code == 0
        done = prune("apply", reviewed, "--yes", "--json")
        assert done.code == 0, done.out
        assert {copy["step"] for copy in done.json["runs"][0]["deleted"]} == {1, 2, 3, 4}, done.json["runs"][0]
        assert len(names(primary)) == len(names(mirror)) == 2
        assert os.listdir(primary / ".prune" / "trash") == []


def test_many_files_are_pruned_too_where_inode_numbers_change(tmp_path: Path) -> None:
    with filesystems.fuse(tmp_path / "fuse", inodes="changing") as found:
        step_dirs(found.below / "P", range(1, 4), files=70)
        assert apply(found.root / "P", keep=2).deleted == {1}


@pytest.mark.parametrize("flags", ["refused", "ignored"])
def test_what_a_dead_pass_withdrew_comes_back_whatever_renames_can_do_there(tmp_path: Path, flags: str) -> None:
    with filesystems.fuse(tmp_path / "fuse", flags=flags) as found:
        for build in (step_files, step_dirs):
            build(found.below / build.__name__, range(1, 5))
            root = found.root / build.__name__
            before = names(root)
            withdrawn_and_killed(root)
            assert len(names(root)) < 4
            done = apply(root, keep=4)
            assert done.code == 0, done.run
            assert names(root) == before


def withdrawn_and_killed(root: Path) -> None:
    """What a pass leaves that dies between its renames and the record of them."""
    code = """
import os, signal, sys
from prune.deletion import withdraw
withdraw._record_withdrawn = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from prune.cli import main
main(sys.argv[1:])
"""
    words = ["apply", "--yes", "--primary", str(root), "--keep-last", "2"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


# --- errors and waits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fail", "block"),
    [
        ({"readdir": ["EIO", "/P"]}, "listing-incomplete"),
        ({"readdir": ["ESTALE", "/M"]}, "listing-incomplete"),
        ({"getattr": ["EIO", "/M"]}, "replica-unreachable"),
        ({"statfs": ["EIO", "/"]}, "free-space-unknown"),
        ({"open": ["EIO", "/M/.prune"]}, "control-unusable"),
    ],
    ids=["listing the primary", "listing the mirror", "the mirror at all", "free space", "the control folder"],
)
def test_an_error_while_looking_is_no_answer_and_blocks(pair, fail: dict[str, list[str]], block: str) -> None:
    found, primary, mirror = pair
    apply(primary, mirror, keep=5)
    before = [names(found.below / name) for name in ("P", "M")]
    found.faults(fail=fail)
    planned, done = plan(primary, mirror, keep=2), apply(primary, mirror, keep=2)
    found.faults()
    assert (planned.code, done.code) == (3, 3), (planned.run["blocks"], done.run)
    assert block in {each["block"] for each in planned.run["blocks"]}
    assert done.deleted == set()
    assert [names(found.below / name) for name in ("P", "M")] == before
    assert apply(primary, mirror, keep=2).deleted == {2, 3, 4}, "once it answers again"


@pytest.mark.parametrize("op", ["readdir", "getattr", "open"])
def test_an_error_inside_a_step_makes_it_unknown_and_nothing_else(pair, op: str) -> None:
    found, primary, mirror = pair
    found.faults(fail={op: ["EIO", "/M/step-5/"]})
    planned = plan(primary, mirror, keep=2)
    found.faults()
    if op != "readdir":  # the directory itself can be listed, or what is in it cannot be looked at
        assert planned.health(5, "mirror") == "unknown"
        assert "5" in planned.told("unreadable")
    assert planned.deleted <= {1, 2, 3}
    assert planned.code == 0


def test_an_error_inside_a_victim_keeps_it(pair) -> None:
    found, primary, mirror = pair
    found.faults(fail={"readdir": ["EIO", "/M/step-2"]})
    done = apply(primary, mirror, keep=2)
    found.faults()
    assert done.deleted == {1, 3, 4}
    assert "step-2" in names(primary) & names(mirror)
    assert apply(primary, mirror, keep=2).deleted == {2}


@pytest.mark.parametrize("op", ["unlink", "rmdir"])
def test_an_error_while_purging_is_told_and_the_next_pass_ends_it(pair, op: str) -> None:
    found, primary, mirror = pair
    found.faults(fail={op: ["EIO", "/M/.prune/trash/"]})
    done = apply(primary, mirror, keep=2)
    found.faults()
    assert done.code == 1
    assert {failed["step"] for failed in done.run["failed"]} == {1, 2, 3, 4}
    assert names(primary) == names(mirror) == {"step-5", "step-6"}
    assert apply(primary, mirror, keep=2).code == 0
    assert os.listdir(mirror / ".prune" / "trash") == []


def test_a_rename_that_fails_on_the_mirror_takes_nothing_from_the_primary_s_survivors(pair) -> None:
    found, primary, mirror = pair
    apply(primary, mirror, keep=6)
    found.faults(fail={"rename": ["EACCES", "/M/step-"]})
    done = apply(primary, mirror, keep=2)
    found.faults()
    assert done.code == 1
    assert {(failed["step"], failed["replica"]) for failed in done.run["failed"]} == {
        (step, "mirror") for step in (1, 2, 3, 4)
    }
    assert len(names(mirror)) == 6
    assert {"step-5", "step-6"} <= names(primary)
    assert apply(primary, mirror, keep=2).code == 0
    assert names(primary) == names(mirror) == {"step-5", "step-6"}


def test_a_disk_that_answers_slowly_is_pruned_all_the_same(pair) -> None:
    found, primary, mirror = pair
    found.faults(slow={"getattr": 0.003, "unlink": 0.01, "rename": 0.01, "readdir": 0.01})
    assert apply(primary, mirror, keep=2).deleted == {1, 2, 3, 4}
    assert names(primary) == names(mirror) == {"step-5", "step-6"}


def test_a_listing_that_hangs_is_waited_for_and_a_pass_that_is_killed_meanwhile_changed_nothing(pair) -> None:
    found, primary, mirror = pair
    apply(primary, mirror, keep=6)
    before = [names(found.below / name) for name in ("P", "M")]
    found.faults(hang={"readdir": "/M"})
    words = [sys.executable, "-m", "prune", "apply", "--yes", "--primary", str(primary), "--mirror", str(mirror),
             "--keep-last", "2"]  # fmt: skip
    hanging = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1.5)
    assert hanging.poll() is None
    hanging.kill()
    found.faults()
    hanging.wait(20)
    assert [names(found.below / name) for name in ("P", "M")] == before
    assert apply(primary, mirror, keep=2).deleted == {1, 2, 3, 4}


def test_a_mount_that_died_is_unreachable_and_blocks(pair) -> None:
    found, _, mirror = pair
    local = mirrored(found.below / "P", found.below.parent / "local")
    apply(local, mirror, keep=6)
    subprocess.run(["umount", "-l", found.root], check=True)
    done = apply(local, mirror, keep=2)
    assert (done.code, done.deleted) == (3, set())
    assert done.blocked in ("replica-unreachable", "replica-vanished")
    shutil.rmtree(local)
