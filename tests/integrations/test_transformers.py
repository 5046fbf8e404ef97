"""The Hugging Face Trainer trains a tiny model, is killed, and finds its checkpoints damaged."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs PyTorch")
pytest.importorskip("transformers", reason="needs transformers: pip install 'ckpt-prune[transformers]'")
pytest.importorskip("accelerate", reason="the Trainer needs accelerate")

from transformers.trainer_utils import get_last_checkpoint, rotate_checkpoints

from prune.errors import Damaged
from prune.integrations.transformers import resume_checkpoint
from tests.integrations.training import configure, told, train_by_two
from tests.runs import planned, run_of
from tests.trees.build import names

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run"


def trained(*words: str | Path, state: Path, kill_at: str | None = None) -> dict[str, Any]:
    return told("train_hf", *words, state=state, kill_at=kill_at)


def checkpoints(*steps: int) -> set[str]:
    return {f"checkpoint-{step}" for step in steps}


def test_behind_training_steps_are_sealed_mirrored_and_pruned_by_policy(
    root: Path, tmp_path: Path, state: Path
) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()

    told = trained(root, "--config", configure(root, mirrors=[mirror]), state=state)

    assert told["failures"] == []
    for replica in (root, mirror):
        assert names(replica) == checkpoints(8, 10, 12)
        sealed = {path.name for path in (replica / ".prune" / "manifests").iterdir()}
        assert sealed == {f"{name}.json" for name in checkpoints(8, 10, 12)}
        assert os.listdir(replica / ".prune" / "trash") == []


def test_in_a_job_of_two_processes_the_first_works_behind_training_and_the_other_waits_for_nothing_of_it(
    root: Path, state: Path
) -> None:
    told = train_by_two("train_hf", root, "--config", configure(root), state=state)
    assert json.loads(told[0][0].strip().splitlines()[-1])["failures"] == []
    assert names(root) == checkpoints(8, 10, 12)
    assert {"rng_state_0.pth", "rng_state_1.pth"} <= {path.name for path in (root / "checkpoint-12").iterdir()}

    again = train_by_two("train_hf", root, "--config", configure(root), "--resume", "--steps", "14", state=state)
    assert [json.loads(out.strip().splitlines()[-1])["resumed"] for out, _ in again] == [
        str(root / "checkpoint-12")
    ] * 2
    assert f"training could be resumed from {root / 'checkpoint-12'}" in again[0][1]


def test_what_was_saved_moments_ago_is_held_by_default(root: Path, state: Path) -> None:
    told = trained(root, "--steps", "30", state=state)
    assert told["failures"] == []
    assert len(names(root)) == 15


@pytest.mark.parametrize("file", ["optimizer.pt", "model.safetensors"])
def test_after_a_kill_in_the_middle_of_a_save_training_resumes_from_the_step_before_and_ends_the_same(
    root: Path, tmp_path: Path, state: Path, file: str
) -> None:
    twin = trained(tmp_path / "twin", "--work", "", state=state)

    trained(root, "--config", configure(root), state=state, kill_at=f"checkpoint-8/{file}")
    assert get_last_checkpoint(str(root)) == str(root / "checkpoint-8")
    told = trained(root, "--config", configure(root), "--resume", state=state)

    assert told["resumed"] == str(root / "checkpoint-6")
    assert told["weights"] == pytest.approx(twin["weights"])
    assert names(root) == checkpoints(8, 10, 12)
    assert told["failures"] == []


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(root: Path, state: Path) -> None:
    trained(root, "--work", "seal", state=state)
    os.truncate(root / "checkpoint-12" / "model.safetensors", 1000)
    told = trained(root, "--resume", "--steps", "14", "--work", "seal", state=state)
    assert told["resumed"] == str(root / "checkpoint-10")
    assert told["step"] == 14


def test_bytes_that_rotted_in_a_sealed_checkpoint_are_noticed(root: Path, state: Path) -> None:
    trained(root, "--work", "seal", state=state)
    path = root / "checkpoint-12" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-100] ^= 0xFF
    path.write_bytes(data)
    os.utime(path, (os.stat(root / "checkpoint-10").st_mtime,) * 2)
    assert resume_checkpoint(root) == str(root / "checkpoint-10")


def test_a_mirrors_copy_of_the_newest_step_is_resumed_from_where_the_primarys_is_damaged(
    root: Path, tmp_path: Path, state: Path
) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    trained(root, "--config", configure(root, mirrors=[mirror]), state=state)
    os.truncate(root / "checkpoint-12" / "optimizer.pt", 1000)

    told = trained(root, "--resume", "--mirror", mirror, "--steps", "14", "--work", "seal", state=state)

    assert told["resumed"] == str(mirror / "checkpoint-12")
    assert told["step"] == 14


def test_a_new_run_is_none_and_a_run_of_nothing_but_damage_is_an_error(root: Path, state: Path) -> None:
    root.mkdir()
    assert resume_checkpoint(root) is None
    trained(root, "--steps", "2", "--work", "", state=state)
    (root / "checkpoint-2" / "trainer_state.json").write_bytes(b"")
    with pytest.raises(Damaged, match="none is usable"):
        resume_checkpoint(root)


def test_trouble_behind_training_is_told_and_never_raised_into_it(root: Path, tmp_path: Path, state: Path) -> None:
    told = trained(root, "--mirror", tmp_path / "not-mounted", state=state)
    assert told["step"] == 12
    assert {work for work, _ in told["failures"]} == {"seal", "mirror", "prune"}
    assert "not-mounted" in told["stderr"]
    assert len(names(root)) == 6


def test_a_trainer_that_keeps_fewer_than_the_policy_is_told(root: Path, state: Path) -> None:
    told = trained(root, "--limit", "2", "--work", "", state=state)
    assert "save_total_limit=2" in told["stderr"]


def test_thinned_checkpoints_are_never_resumed_from_and_the_trainers_rotation_still_takes_the_oldest(
    root: Path, state: Path
) -> None:
    config = configure(root, keep="last = 6\nfull = 2")
    trained(root, "--config", config, state=state)
    thin = {name for name in names(root) if not (root / name / "optimizer.pt").exists()}
    assert thin == checkpoints(2, 4, 6, 8)

    assert resume_checkpoint(root) == str(root / "checkpoint-12")
    shutil.copytree(root, root.parent / "again")
    shutil.rmtree(root / "checkpoint-12")
    os.truncate(root / "checkpoint-10" / "model.safetensors", 10)
    plan = planned(run_of(root, last=6), state)
    assert [step.step for step in plan.steps if step.copies[0].weights_only] == [2, 4, 6, 8]

    rotate_checkpoints(output_dir=str(root), save_total_limit=2, use_mtime=True)
    assert names(root) == checkpoints(8, 10)


def test_a_thinned_checkpoints_weights_load_as_they_were(root: Path, state: Path) -> None:
    from safetensors.torch import load_file

    trained(root, "--config", configure(root, keep="last = 6\nfull = 1"), state=state)
    twin = root.parent / "twin"
    trained(twin, "--work", "", state=state)
    thin, full = (load_file(at / "checkpoint-4" / "model.safetensors") for at in (root, twin))
    assert not (root / "checkpoint-4" / "optimizer.pt").exists()
    assert all(thin[name].equal(full[name]) for name in full)


def test_resuming_from_weights_alone_happens_only_when_nothing_is_full(root: Path, state: Path) -> None:
    trained(root, "--config", configure(root, keep="last = 6\nfull = 2"), state=state)
    for step in (10, 12):
        shutil.rmtree(root / f"checkpoint-{step}")
    told = trained(root, "--resume", "--work", "", "--steps", "14", state=state)
    assert told["resumed"] == str(root / "checkpoint-8")
