"""Pointers on a mirror come after what they name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.mirror.helpers import mirrored_now, seen
from tests.runs import run_of
from tests.trees.damage import damage
from tests.trees.real import unpack


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prune.db"


def test_a_text_pointer_follows_its_step(tmp_path: Path, state: Path) -> None:
    primary = unpack("deepspeed_zero1", tmp_path)
    (tmp_path / "M").mkdir()

    done = mirrored_now(run_of(primary, tmp_path / "M"), state)

    assert done.pointers == (("mirror", "latest"),)
    assert seen(tmp_path / "M")["latest"] == seen(primary)["latest"]


def test_a_pointer_to_a_step_that_did_not_arrive_stays_as_it_was(tmp_path: Path, state: Path) -> None:
    primary = unpack("deepspeed_zero1", tmp_path)
    (tmp_path / "M").mkdir()
    run = run_of(primary, tmp_path / "M")
    (primary / "latest").write_text("global_step70")
    mirrored_now(run, state)
    (primary / "latest").write_text("global_step90")
    shutil.copytree(primary / "global_step80", primary / "global_step90")
    for file in (primary / "global_step90").iterdir():
        damage(file, "truncated to 50 %")

    mirrored_now(run, state)

    assert (tmp_path / "M" / "latest").read_text() == "global_step70"


def test_a_link_keeps_its_text_and_one_into_its_own_root_becomes_relative(tmp_path: Path, state: Path) -> None:
    primary = unpack("lightning_last_link", tmp_path)
    folder = "lightning_logs/version_0/checkpoints"
    (tmp_path / "M").mkdir()
    (primary / folder / "last.ckpt").unlink()
    (primary / folder / "last.ckpt").symlink_to(primary / folder / "epoch=2-step=80.ckpt")

    mirrored_now(run_of(primary, tmp_path / "M", last=100), state)

    assert os.readlink(tmp_path / "M" / folder / "last.ckpt") == "epoch=2-step=80.ckpt"


def test_a_copy_under_a_pointers_name_is_copied_like_a_checkpoint_and_renewed(tmp_path: Path, state: Path) -> None:
    primary = unpack("lightning_last_link", tmp_path)
    folder = primary / "lightning_logs" / "version_0" / "checkpoints"
    (tmp_path / "M").mkdir()
    run = run_of(primary, tmp_path / "M", last=100)
    last = folder / "last.ckpt"
    for step in ("epoch=2-step=70.ckpt", "epoch=2-step=80.ckpt"):
        last.unlink()
        shutil.copy2(folder / step, last)
        done = mirrored_now(run, state)
        assert done.pointers == (("mirror", str(last.relative_to(primary))),)
        assert seen(tmp_path / "M")[str(last.relative_to(primary))] == seen(primary)[str(last.relative_to(primary))]
    damage(last, "truncated to 50 %")
    before = seen(tmp_path / "M")
    mirrored_now(run, state)
    assert seen(tmp_path / "M") == before


def test_a_snapshot_that_lists_several_steps_waits_for_all_of_them(tmp_path: Path, state: Path) -> None:
    primary = unpack("ray_train", tmp_path)
    (tmp_path / "M").mkdir()

    mirrored_now(run_of(primary, tmp_path / "M", last=2), state)
    snapshot = "checkpoint_manager_snapshot.json"
    partly = (tmp_path / "M" / snapshot).exists()
    mirrored_now(run_of(primary, tmp_path / "M", last=100), state)

    assert (partly, (tmp_path / "M" / snapshot).exists()) in ((False, True), (True, True))
    assert (tmp_path / "M" / snapshot).read_bytes() == (primary / snapshot).read_bytes()
