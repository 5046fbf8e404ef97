"""Saves that failed, broke or cannot be read: they fill no slot, cost nothing else, and are told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import prune
from tests.scenarios.asking import apply, plan
from tests.scenarios.unprivileged import as_nobody, needs_root
from tests.trees.build import HOUR, age, mirrored, names, sealed, snapshot, step_dirs, step_files, torch_zip
from tests.trees.stacks import deepspeed, put

pytestmark = pytest.mark.usefixtures("alone")


def rewritten(path: Path, data: bytes) -> None:
    """Other bytes in a file, and the time it had."""
    before = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def flipped(path: Path) -> None:
    """One byte in the middle of a file is another, and neither length nor time tell."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    rewritten(path, bytes(data))


def test_a_save_cut_off_after_its_first_file_is_not_resumed_from_and_fills_no_slot(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300))
    for path in (primary / "step-300").rglob("*.pt"):
        if path.name != "rank_0.pt":
            path.unlink()
    for folder in primary.iterdir():  # an opaque format: only the siblings tell
        for path in folder.rglob("*.pt"):
            rewritten(path, b"weights " * 2000)
            path.rename(path.with_suffix(".weights"))
    age(primary, 2 * HOUR)
    age(primary / "step-300", HOUR)

    planned, done = plan(primary, keep=2), apply(primary, keep=2)

    assert planned.candidate == 200
    assert planned.health(300) == "suspect"
    assert "far smaller than its siblings" in planned.told("damaged")
    assert done.deleted == set()


def test_failed_saves_never_push_the_good_ones_out(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300, 400, 500))
    for step in (300, 400, 500):
        rewritten(primary / f"step-{step}" / "rank_0.pt", b"")
    mirror = mirrored(primary, tmp_path / "M")

    planned, done = plan(primary, mirror, keep=2), apply(primary, mirror, keep=2)

    assert planned.candidate == 200
    assert planned.kept == {100, 200, 300, 400, 500}
    assert {planned.health(step, on) for step in (300, 400, 500) for on in ("primary", "mirror")} == {"broken"}
    assert "steps 300" in planned.told("damaged")
    assert (done.code, done.deleted) == (0, set())
    assert prune("apply", "--yes", "--primary", primary, "--keep-last", "2", "--strict").code == 7

    for root in (primary, mirror):
        step_dirs(root, [600], seconds=HOUR)
    assert apply(primary, mirror, keep=2).deleted == {100}


@pytest.mark.parametrize("kind", ["dangling link", "link to a step", "pipe", "empty directory"])
def test_names_with_no_checkpoint_behind_them_never_push_the_good_ones_out(tmp_path: Path, kind: str) -> None:
    primary = step_files(tmp_path / "P", (100, 200, 300))
    mirror = mirrored(primary, tmp_path / "M")
    later = os.stat(primary / "step_0300.pt").st_mtime + 60
    for path in (root / f"step_0{step}.pt" for root in (primary, mirror) for step in (400, 500, 600, 700)):
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "empty directory":
            path.mkdir()
        else:
            path.symlink_to("/unmounted/step.pt" if kind == "dangling link" else "step_0100.pt")
        os.utime(path, (later, later), follow_symlinks=False)

    done = apply(primary, mirror, keep=2)

    assert done.deleted == (set() if kind == "link to a step" else {100})
    assert {"step_0200.pt", "step_0300.pt"} <= set(names(primary)) & set(names(mirror))
    assert plan(primary, mirror, keep=2).candidate == 300


def test_a_copy_with_damage_that_only_reading_shows_is_found_before_anything_goes(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300, 400, 500))
    mirror = mirrored(primary, tmp_path / "M")
    flipped(mirror / "step-500" / "rank_0.pt")

    done = apply(primary, mirror, keep=2)

    assert done.deleted == {100, 200}, "500 no longer counts, so 300 and 400 are the last two"
    assert "500 (broken" in done.told("damaged")
    assert names(primary) == names(mirror) == {"step-300", "step-400", "step-500"}


def test_damage_on_the_primary_never_turns_into_a_delete_on_the_mirror(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300, 400, 500))
    mirror = mirrored(primary, tmp_path / "M")
    for step in (400, 500):
        sealed(primary, step)
        shutil.rmtree(primary / f"step-{step}" / "optim")
        age(primary / f"step-{step}", 3 * HOUR)

    planned, done = plan(primary, mirror, keep=2), apply(primary, mirror, keep=2)

    assert (planned.candidate, planned.run["resume_candidate"]["replica"]) == (500, "mirror")
    assert done.deleted == {100}
    assert {"step-200", "step-300", "step-400", "step-500"} <= names(mirror)


def test_steps_missing_on_the_primary_move_the_cutoff_down_and_never_up(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(100, 1100, 100))
    mirror = mirrored(primary, tmp_path / "M")
    for step in (700, 800, 900, 1000):
        shutil.rmtree(primary / f"step-{step}")
    age(primary, 2 * HOUR)

    done = apply(primary, mirror, keep=3)

    assert done.deleted == {100, 200, 300}
    assert {f"step-{step}" for step in range(400, 1100, 100)} == names(mirror)


@pytest.mark.parametrize("text", ['{"schema": "prune.manif', "", "[]", '{"schema": "prune.manifest/9"}'])
def test_a_step_whose_manifest_cannot_be_understood_is_unknown_and_stays(tmp_path: Path, text: str) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300, 400))
    for step in (100, 200, 300, 400):
        sealed(primary, step)
    (primary / ".prune/manifests/step-300.json").write_text(text)

    planned, done = plan(primary, keep=2), apply(primary, keep=2)

    assert planned.health(300) == "unknown"
    assert planned.kept == {200, 300, 400}
    assert "300" in planned.told("unreadable")
    assert done.deleted == {100}


@needs_root
def test_a_step_whose_manifest_may_not_be_read_is_unknown_and_stays() -> None:
    with as_nobody() as nobody:
        primary = step_dirs(nobody.place / "P", (100, 200, 300, 400))
        for step in (100, 200, 300, 400):
            sealed(primary, step)
        nobody.owns(primary)
        os.chown(primary / ".prune/manifests/step-300.json", 0, 0)
        (primary / ".prune/manifests/step-300.json").chmod(0)

        planned, done = nobody.plan(primary, keep=2), nobody.apply(primary, keep=2)

    assert planned.health(300) == "unknown"
    assert "300" in planned.told("unreadable")
    assert done.deleted == {100}


@needs_root
def test_a_step_that_may_not_be_read_is_unknown_and_stays() -> None:
    with as_nobody() as nobody:
        primary = step_dirs(nobody.place / "P", (100, 200, 300, 400))
        nobody.owns(primary)
        for folder in (primary / "step-300", primary / "step-100" / "optim"):
            os.chown(folder, 0, 0)
            folder.chmod(0o700)

        planned, done = nobody.plan(primary, keep=2), nobody.apply(primary, keep=2)

    assert planned.health(300) == "unknown"
    assert planned.kept == {200, 300, 400}
    assert planned.guards == {100: {"unknown-mtime"}}
    assert done.deleted == set()


def test_a_pointer_may_lead_where_a_shard_is_missing_and_the_step_before_stays(tmp_path: Path) -> None:
    root = tmp_path / "P"
    for step in (600, 700, 800):
        deepspeed(root, step, ranks=4)
        age(root / f"global_step{step}", 3 * HOUR - step)
    put(root / "latest", "global_step800")
    age(root / "latest", HOUR)
    (root / "global_step800" / "zero_pp_rank_3_mp_rank_00_optim_states.pt").unlink()
    age(root / "global_step800", HOUR)

    planned, done = plan(root, keep=1), apply(root, keep=1)

    assert planned.candidate == 700
    assert "optim_states" in planned.told("damaged")
    assert "global_step800" in planned.told("damaged-pick")
    assert done.deleted == {600}


def test_where_every_step_is_broken_nothing_is_deleted_and_each_reason_is_told(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", (100, 200, 300))
    for path in primary.glob("*.pt"):
        rewritten(path, path.read_bytes()[:-30])

    planned, done = plan(primary, keep=1), apply(primary, keep=1)

    assert planned.candidate is None
    assert done.deleted == set()
    assert planned.told("damaged").count("broken") == 3


def test_what_would_run_on_being_unpickled_never_runs(tmp_path: Path) -> None:
    witness = tmp_path / "it ran"
    bomb = b"cos\nsystem\n(S'touch " + str(witness).replace(" ", "\\ ").encode() + b"'\ntR."
    primary = step_files(tmp_path / "P", range(1, 6))
    rewritten(primary / "step_0005.pt", bomb)
    for step in (3, 4):
        rewritten(primary / f"step_{step:04d}.pt", torch_zip().replace(b"\x80\x02}q\x00.", bomb[:6]))

    plan(primary, keep=2)
    apply(primary, keep=2)

    assert not witness.exists()
    subprocess.run([sys.executable, "-c", f"import pickle; pickle.loads({bomb!r})"], check=True)
    assert witness.exists(), "else this test proves nothing"


def test_a_plan_reads_damage_and_leaves_no_trace(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(1, 6))
    rewritten(primary / "step-5" / "rank_0.pt", b"\0" * 4096)
    before = snapshot(tmp_path / "P")
    plan(primary, keep=2)
    assert snapshot(tmp_path / "P") == before
