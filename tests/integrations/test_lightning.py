"""Lightning trains a tiny model, is killed in the middle of a save, and finds its checkpoints damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs PyTorch")
pytest.importorskip("lightning.pytorch", reason="needs Lightning: pip install 'ckpt-prune[lightning]'")

import torch

from prune.errors import Blocked, UsageError
from prune.integrations.lightning import PruneCallback, PublishedCheckpointIO, resume_checkpoint
from tests.integrations.training import configure, told
from tests.trees.build import names

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def trained(*words: str | Path, state: Path, kill_at: str | None = None) -> dict[str, Any]:
    return told("train_pl", *words, state=state, kill_at=kill_at)


def name(step: int) -> str:
    """Ten batches make an epoch."""
    return f"epoch={(step - 1) // 10}-step={step}.ckpt"


def checkpoints(*steps: int) -> set[str]:
    return {name(step) for step in steps}


def test_behind_training_steps_are_mirrored_and_pruned_by_policy(root: Path, tmp_path: Path, state: Path) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    told = trained(root, "--config", configure(root, mirrors=[mirror]), state=state)
    assert told["failures"] == []
    for replica in (root, mirror):
        assert names(replica) == checkpoints(8, 10, 12)
        sealed = {path.name for path in (replica / ".prune" / "manifests").iterdir()}
        assert sealed == {f"{each}.json" for each in checkpoints(8, 10, 12)}


def test_after_a_kill_in_the_middle_of_a_save_no_name_shows_it_and_training_goes_on_from_the_step_before(
    root: Path, state: Path
) -> None:
    trained(root, "--config", configure(root), state=state, kill_at=name(8))
    assert {each for each in names(root) if not each.endswith(".part")} <= checkpoints(2, 4, 6)
    told = trained(root, "--config", configure(root), "--resume", state=state)

    assert (told["resumed"], told["step"]) == (str(root / name(6)), 12)
    assert names(root) - {f"{name(8)}.part"} == checkpoints(8, 10, 12)


def test_lightnings_own_save_leaves_half_a_checkpoint_under_its_name_and_resuming_passes_it_over(
    root: Path, state: Path
) -> None:
    trained(root, "--plain", state=state, kill_at=name(8))
    assert name(8) in names(root)
    told = trained(root, "--plain", "--resume", state=state)
    assert told["resumed"] == str(root / name(6))
    assert told["step"] == 12


def test_a_damaged_newest_checkpoint_falls_back_or_to_the_mirrors_copy(root: Path, tmp_path: Path, state: Path) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    trained(root, "--mirror", mirror, state=state)
    os.truncate(root / name(12), 1000)
    assert resume_checkpoint(root) == str(root / name(10))
    told = trained(root, "--mirror", mirror, "--resume", "--steps", "14", state=state)
    assert told["resumed"] == str(mirror / name(12))
    assert told["step"] == 14


def test_last_is_published_too(root: Path, state: Path) -> None:
    trained(root, "--last", "--config", configure(root), state=state)
    assert names(root) == checkpoints(8, 10, 12) | {"last.ckpt"}
    assert torch.load(root / "last.ckpt", weights_only=False)["global_step"] == 12
    assert resume_checkpoint(root) == str(root / name(12))


def test_a_trainer_that_keeps_fewer_than_the_policy_is_told(root: Path, state: Path) -> None:
    assert "save_top_k=1" in trained(root, "--top", "1", "--work", "", state=state)["stderr"]


def test_trouble_behind_training_is_told_and_never_raised_into_it(root: Path, tmp_path: Path, state: Path) -> None:
    told = trained(root, "--mirror", tmp_path / "not-mounted", state=state)
    assert told["step"] == 12
    assert {work for work, _ in told["failures"]} == {"seal", "mirror", "prune"}
    assert len(names(root)) == 6


def test_a_training_that_fails_raises_its_own_error(root: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAISE_AT", "7")
    with pytest.raises(AssertionError, match="the training failed"):
        trained(root, "--config", configure(root), state=state)
    assert names(root) == checkpoints(2, 4, 6)


def test_a_save_that_fails_leaves_what_stood_there(root: Path, state: Path) -> None:
    io = PublishedCheckpointIO()
    io.save_checkpoint({"global_step": 5, "w": torch.ones(2)}, root / "epoch=0-step=5.ckpt")
    with pytest.raises(Exception, match="pickle"):
        io.save_checkpoint({"global_step": 5, "w": lambda: 1}, root / "epoch=0-step=5.ckpt")
    assert io.load_checkpoint(root / "epoch=0-step=5.ckpt", weights_only=True)["w"].equal(torch.ones(2))
    assert names(root) == {"epoch=0-step=5.ckpt"}


def test_the_manifest_tells_the_step_that_the_name_tells(root: Path, state: Path) -> None:
    io = PublishedCheckpointIO()
    for file in ("epoch=3.ckpt", "mine.ckpt"):
        io.save_checkpoint({"global_step": 500}, root / file)
    told = {path.name: json.loads(path.read_text())["step"] for path in (root / ".prune" / "manifests").iterdir()}
    assert told == {"epoch=3.ckpt.json": 3, "mine.ckpt.json": 500}


def test_a_directory_that_is_not_there_is_no_new_run(root: Path, state: Path) -> None:
    assert resume_checkpoint(root) is None
    with pytest.raises(Blocked):
        resume_checkpoint(root / "unmounted")


def test_without_a_place_for_checkpoints_it_says_so_at_the_beginning() -> None:
    class Trainer:
        is_global_zero = True
        checkpoint_callback = None

    with pytest.raises(UsageError, match="dirpath"):
        PruneCallback().on_fit_start(Trainer(), None)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_directory_of_shards_appears_when_every_process_has_written_and_is_pruned_like_any_step(
    root: Path, state: Path, processes: int
) -> None:
    told = trained(root, "--sharded", str(processes), "--last", "--config", configure(root), state=state)
    assert told["failures"] == []
    assert names(root) == checkpoints(8, 10, 12) | {"last.ckpt"}
    shards = {f"__{rank}_0.distcp" for rank in range(processes)}
    assert set(os.listdir(root / name(12))) == shards | {".metadata", "meta.pt"}
    manifest = json.loads((root / ".prune" / "manifests" / f"{name(12)}.json").read_text())
    assert manifest["step"] == 12

    again = trained(root, "--sharded", str(processes), "--resume", "--steps", "14", state=state)
    assert (again["resumed"], again["step"]) == (str(root / name(12)), 14)


def test_after_a_kill_in_the_middle_of_a_sharded_save_no_name_shows_it(root: Path, state: Path) -> None:
    trained(root, "--sharded", "1", state=state, kill_at=f"{name(8)}/meta.pt")
    assert names(root) == checkpoints(2, 4, 6)
    told = trained(root, "--sharded", "1", "--resume", "--config", configure(root), state=state)
    assert (told["resumed"], told["step"], told["failures"]) == (str(root / name(6)), 12, [])
    assert names(root) == checkpoints(8, 10, 12)
    assert os.listdir(root / ".prune" / "staging") == []


def test_lightnings_own_sharded_save_that_was_killed_is_passed_over(root: Path, state: Path) -> None:
    trained(root, "--sharded", "1", "--plain", state=state, kill_at=f"{name(8)}/meta.pt")
    assert names(root) == checkpoints(2, 4, 6, 8)
    assert resume_checkpoint(root) == str(root / name(6))
