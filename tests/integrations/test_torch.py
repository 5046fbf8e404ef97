"""Trainings by hand, with torch.save, DCP and Accelerate: killed in the middle of a save, resumed, pruned."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

import torch

from prune.errors import Damaged, UsageError
from prune.integrations import torch as whole
from prune.integrations.background import Work
from tests.integrations.training import configure, told, train_by_two
from tests.trees.build import names

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def trained(*words: str | Path, state: Path, kill_at: str | None = None) -> dict[str, Any]:
    return told("train_torch", *words, state=state, kill_at=kill_at)


def trained_by_two(*words: str | Path, state: Path) -> dict[str, Any]:
    """The same training in two processes of one group."""
    told = train_by_two("train_torch", *words, state=state)
    return json.loads(told[0][0].strip().splitlines()[-1])  # type: ignore[no-any-return]


NAMES = {"plain": "step_{:04d}.pt", "dcp": "step-{}", "accelerate": "checkpoint_{}"}
KILLED_AT = {"plain": "step_0008.pt", "dcp": "8", "accelerate": "checkpoint_8/optimizer.bin"}


def steps(kind: str, *numbers: int) -> set[str]:
    return {NAMES[kind].format(number) for number in numbers}


def needs(kind: str) -> None:
    if kind == "accelerate":
        pytest.importorskip("accelerate", reason="needs accelerate: pip install accelerate")


@pytest.mark.parametrize("kind", NAMES)
def test_killed_in_the_middle_of_a_save_no_name_shows_it_and_training_goes_on_from_the_step_before(
    root: Path, state: Path, kind: str
) -> None:
    needs(kind)
    trained(kind, root, state=state, kill_at=KILLED_AT[kind])
    assert names(root) - {"step_0008.pt.part"} == steps(kind, 2, 4, 6)

    told = trained(kind, root, state=state)

    assert told["resumed"] == str(root / NAMES[kind].format(6))
    assert names(root) == steps(kind, 2, 4, 6, 8, 10, 12)


def test_resumed_after_a_kill_training_ends_with_the_same_weights(root: Path, tmp_path: Path, state: Path) -> None:
    (tmp_path / "twin").mkdir()
    twin = trained("plain", tmp_path / "twin", state=state)
    trained("plain", root, state=state, kill_at="step_0008.pt")
    assert trained("plain", root, state=state)["sum"] == pytest.approx(twin["sum"])


@pytest.mark.parametrize("kind", NAMES)
def test_a_damaged_newest_checkpoint_falls_back(root: Path, state: Path, kind: str) -> None:
    needs(kind)
    trained(kind, root, state=state)
    newest = root / NAMES[kind].format(12)
    largest = max([newest] if newest.is_file() else newest.rglob("*"), key=lambda path: path.stat().st_size)
    os.truncate(largest, largest.stat().st_size // 2)

    told = trained(kind, root, "--steps", "14", state=state)

    assert told["resumed"] == str(root / NAMES[kind].format(10))


@pytest.mark.parametrize("kind", NAMES)
def test_behind_training_it_is_mirrored_and_pruned_on_both_sides(
    root: Path, tmp_path: Path, state: Path, kind: str
) -> None:
    needs(kind)
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    told = trained(kind, root, "--config", configure(root, mirrors=[mirror]), state=state)
    assert told["failures"] == []
    assert names(root) == names(mirror) == steps(kind, 8, 10, 12)


@pytest.mark.parametrize("kind", ["dcp", "accelerate"])
def test_a_directory_of_two_processes_appears_when_both_have_written(root: Path, state: Path, kind: str) -> None:
    needs(kind)
    told = trained_by_two(kind, root, "--config", configure(root), state=state)
    assert told["failures"] == []
    assert names(root) == steps(kind, 8, 10, 12)
    parts = {path.name for path in (root / NAMES[kind].format(12)).iterdir()}
    expected = {"dcp": {"__0_0.distcp", ".metadata"}, "accelerate": {"random_states_0.pkl", "random_states_1.pkl"}}
    assert expected[kind] <= parts
    again = trained_by_two(kind, root, "--steps", "14", state=state)
    assert again["resumed"] == str(root / NAMES[kind].format(12))


def test_killed_while_a_step_is_withdrawn_behind_it_the_next_training_ends_that(root: Path, state: Path) -> None:
    config = configure(root)
    trained("prune", root, "--config", config, state=state, kill_at="step_0002.pt")
    assert names(root) == steps("plain", 4, 6, 8)
    assert len(os.listdir(root / ".prune" / "trash")) == 1

    told = trained("prune", root, "--config", config, state=state)

    assert (told["start"], told["failures"]) == (8, [])
    assert names(root) == steps("plain", 8, 10, 12)
    assert os.listdir(root / ".prune" / "trash") == []


def test_a_training_that_fails_is_not_kept_waiting_and_raises_its_own_error(root: Path, state: Path) -> None:
    started = time.monotonic()
    with pytest.raises(AssertionError) as failed:
        trained("plain", root, "--config", configure(root), "--raise-at", "7", state=state)
    assert "RuntimeError: the training failed" in str(failed.value)

    assert time.monotonic() - started < 120


def test_what_torch_saves_is_what_it_loads(root: Path, state: Path) -> None:
    tensors = {"w": torch.arange(1000.0), "step": 7}
    whole.save(tensors, root / "step_0007.pt", step=7)
    loaded, found = whole.load_latest(root)
    assert loaded["w"].equal(tensors["w"])
    assert (found.step, found.path) == (7, str(root / "step_0007.pt"))


def test_a_save_that_fails_leaves_the_older_file_of_that_name(root: Path, state: Path) -> None:
    whole.save({"w": torch.ones(3)}, root / "step_0007.pt", step=7)
    with pytest.raises(Exception, match="pickle"):
        whole.save({"w": lambda: 1}, root / "step_0007.pt", step=7)
    assert names(root) == {"step_0007.pt"}
    assert torch.load(root / "step_0007.pt", weights_only=True)["w"].equal(torch.ones(3))


def test_shards_over_an_older_directory_of_the_same_name_replace_it_whole(root: Path, state: Path) -> None:
    path = root / "step-5"
    whole.dcp_save({"w": torch.ones(3), "old": torch.zeros(1)}, path, step=5)
    whole.dcp_save({"w": torch.full((3,), 2.0)}, path, step=5)
    state_dict = {"w": torch.zeros(3)}
    assert whole.dcp_load_latest(state_dict, root) is not None
    assert state_dict["w"].equal(torch.full((3,), 2.0))


def test_hashing_can_be_left_to_what_seals_behind_training(root: Path, state: Path) -> None:
    path = root / "step-5"
    whole.dcp_save({"w": torch.ones(3)}, path, step=5, manifest=False)
    assert not (root / ".prune" / "manifests" / "step-5.json").exists()
    with whole.Background(root, work=Work(mirror=False, prune=False)) as background:
        background.saved(5)
    assert background.failures == []
    assert (root / ".prune" / "manifests" / "step-5.json").exists()


def test_nothing_usable_is_an_error_and_nothing_at_all_is_none(root: Path, state: Path) -> None:
    assert whole.resume_together(root) is None
    (root / "step_0001.pt").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(Damaged):
        whole.resume_together(root)


def test_accelerates_automatic_names_are_refused_with_the_mend(root: Path, state: Path) -> None:
    accelerate = pytest.importorskip("accelerate", reason="needs accelerate: pip install accelerate")
    project = accelerate.utils.ProjectConfiguration(project_dir=str(root), automatic_checkpoint_naming=True)
    accelerator = accelerate.Accelerator(cpu=True, project_config=project)
    with pytest.raises(UsageError, match="automatic_checkpoint_naming"):
        whole.save_state(accelerator, root / "checkpoint_1", step=1)


def test_in_the_folder_that_accelerate_reads_nothing_of_ours_stands(root: Path, state: Path) -> None:
    accelerate = pytest.importorskip("accelerate", reason="needs accelerate: pip install accelerate")
    (root / "checkpoints").mkdir()
    accelerator = accelerate.Accelerator(cpu=True, project_dir=str(root))
    accelerator.prepare(torch.nn.Linear(2, 2))
    whole.save_state(accelerator, root / "checkpoints" / "checkpoint_1", step=1)
    assert os.listdir(root / "checkpoints") == ["checkpoint_1"]
    assert (root / ".checkpoints.prune" / "manifests" / "checkpoint_1.json").exists()
