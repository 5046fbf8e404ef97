"""stable-baselines3, Keras and ultralytics, on their real trees."""

import shutil
from pathlib import Path

import pytest

from prune.layouts.base import Part
from prune.model import Health
from tests.layouts.helpers import Seen
from tests.layouts.withdrawing import check_withdrawing
from tests.trees.real import unpack
from tests.trees.stacks import cut, put, put_torch

# --- stable-baselines3 -------------------------------------------------------------------------------------------


@pytest.fixture
def sb3(tmp_path: Path) -> Path:
    return unpack("sb3_callback", tmp_path)


def test_a_replay_buffer_that_was_cut_breaks_its_step(sb3: Path) -> None:
    cut(sb3 / "rl_model_replay_buffer_100_steps.pkl")
    verdict = Seen(sb3, "stable-baselines3").verdict(100)
    assert verdict.health is Health.BROKEN
    assert "rl_model_replay_buffer_100_steps.pkl" in verdict.detail


def test_a_buffer_whose_model_is_gone_is_no_step(sb3: Path) -> None:
    (sb3 / "rl_model_100_steps.zip").unlink()
    assert Seen(sb3, "stable-baselines3").steps == [20, 40, 60, 80]


def test_rewards_of_evaluations_at_a_checkpoints_time_are_its_metrics(sb3: Path) -> None:
    seen = Seen(sb3, "stable-baselines3")
    assert seen.layout.metrics(seen.view) == {
        40: {"mean_reward": pytest.approx(3.5945493)},
        80: {"mean_reward": pytest.approx(3.5128561)},
    }


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 and nothing", None])
def test_evaluations_that_cannot_be_read_as_such_are_no_metrics(sb3: Path, damage: bytes | None) -> None:
    if damage is None:
        cut(sb3 / "evaluations.npz")
    else:
        put(sb3 / "evaluations.npz", damage)
    seen = Seen(sb3, "stable-baselines3")
    assert not seen.layout.metrics(seen.view)


def test_two_algorithms_in_one_directory_are_a_question(sb3: Path) -> None:
    for step in (7, 9):
        shutil.copy(sb3 / "rl_model_20_steps.zip", sb3 / f"sac_{step}_steps.zip")
    assert Seen(sb3, "stable-baselines3").collision


def test_the_model_is_withdrawn_first(sb3: Path) -> None:
    seen = Seen(sb3, "stable-baselines3")
    order = check_withdrawing(seen, 20, lambda at: (at / "rl_model_20_steps.zip").exists())
    assert order[0] == "rl_model_20_steps.zip"
    assert len(order) == 3


# --- Keras -------------------------------------------------------------------------------------------------------


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    return unpack("keras_sharded", tmp_path)


def test_a_log_beside_the_files_tells_metrics_more_exactly_than_their_names(tmp_path: Path) -> None:
    root = unpack("keras_epochs", tmp_path)
    seen = Seen(root, "keras")
    values = {step: row["val_loss"] for step, row in seen.layout.metrics(seen.view).items()}
    assert min(values, key=values.__getitem__) == 4
    assert values[5] == pytest.approx(0.0839, abs=1e-4)
    (root / "log.csv").unlink()
    seen = Seen(root, "keras")
    assert seen.layout.metrics(seen.view)[5] == {"val_loss": 0.08}


@pytest.mark.parametrize(
    ("name", "step", "metrics"),
    [
        ("weights-improvement-05-0.83.hdf5", 5, {"val_loss": 0.83}),
        ("cp-0005.weights.h5", 5, {}),
        ("model_v2.05-0.30.keras", 5, {"val_loss": 0.3}),
        ("ckpt.epoch05-val_accuracy0.91.keras", 5, {"val_accuracy": 0.91}),
        ("m.05-loss=0.10-val_loss=0.20.keras", 5, {"loss": 0.1, "val_loss": 0.2}),
        ("05.keras", 5, {}),
        ("model_00012.weights.h5", 12, {}),
        ("run2_00012.weights.h5", 12, {}),
        ("m.07--1.25e-05.keras", 7, {"val_loss": -1.25e-05}),
    ],
)
def test_names_of_usual_templates_are_read(tmp_path: Path, name: str, step: int, metrics: dict[str, float]) -> None:
    put(tmp_path / name)
    seen = Seen(tmp_path, "keras")
    assert seen.paths(Part.PAYLOAD) == {step: [name]}
    assert seen.layout.metrics(seen.view) == ({step: metrics} if metrics else {})


@pytest.mark.parametrize("name", ["model.keras", "best.weights.h5", "notes-05.txt", "model.05.keras.bak"])
def test_names_without_an_epoch_are_foreign(tmp_path: Path, name: str) -> None:
    put(tmp_path / name)
    assert Seen(tmp_path, "keras").listing.foreign == 1


def test_a_shard_that_the_index_names_and_nobody_has_breaks_the_step(sharded: Path) -> None:
    (sharded / "cp-0002_00001.weights.h5").unlink()
    verdict = Seen(sharded, "keras").verdict(2)
    assert verdict.health is Health.BROKEN
    assert "cp-0002_00001.weights.h5 is missing" in verdict.detail


def test_an_index_of_shards_that_was_cut_breaks_the_step(sharded: Path) -> None:
    cut(sharded / "cp-0002.weights.json")
    assert Seen(sharded, "keras").verdict(2).health is Health.BROKEN


@pytest.mark.parametrize("gone", [(2,), (1, 2)])
def test_shards_whose_index_was_never_written_are_a_broken_step_and_no_epochs(
    sharded: Path, gone: tuple[int, ...]
) -> None:
    for step in gone:
        (sharded / f"cp-{step:04d}.weights.json").unlink()
        (sharded / f"cp-{step:04d}.weights.json.sha256").write_text("0" * 64)
    seen = Seen(sharded, "keras")
    assert (seen.steps, seen.collision, seen.listing.foreign) == ([1, 2], None, 0)
    for step in (1, 2):
        verdict = seen.verdict(step)
        assert verdict.health is (Health.BROKEN if step in gone else Health.WHOLE)
        assert step not in gone or f"cp-{step:04d}.weights.json is missing" in verdict.detail
    assert {path.name for path in sharded.glob("cp-0002*")} == set(seen.members(2).files)


def test_a_run_whose_number_stands_before_the_epochs_is_no_shards(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        (tmp_path / f"run2_{epoch:05d}.weights.h5").write_bytes(b"x")
    assert Seen(tmp_path, "keras").steps == [1, 2, 3]


def test_the_index_of_shards_is_withdrawn_first(sharded: Path) -> None:
    order = check_withdrawing(Seen(sharded, "keras"), 1, lambda at: (at / "cp-0001.weights.json").exists())
    assert order[0] == "cp-0001.weights.json"


def test_a_backup_stands_under_fixed_names_and_is_never_a_step(tmp_path: Path) -> None:
    seen = Seen(unpack("keras_backup", tmp_path), "keras")
    assert seen.steps == []
    assert seen.listing.foreign == 0
    assert (seen.pick.path, seen.pick.how) == ("latest.weights.h5", "BackupAndRestore")
    assert "after epoch 3" in seen.pointers["latest.weights.h5"].detail


def test_a_backup_names_the_epoch_that_has_a_file_too(tmp_path: Path) -> None:
    root = unpack("keras_backup", tmp_path)
    shutil.copy(root / "latest.weights.h5", root / "cp-0003.weights.h5")
    assert Seen(root, "keras").pick.step == 3


# --- ultralytics -------------------------------------------------------------------------------------------------


@pytest.fixture
def ultralytics(tmp_path: Path) -> Path:
    return unpack("ultralytics_run", tmp_path)


def test_last_and_best_are_known_by_their_bytes(ultralytics: Path) -> None:
    seen = Seen(ultralytics, "ultralytics", "weights")
    assert (seen.pick.step, seen.pick.path) == (1, "weights/last.pt")
    assert seen.layout.best_recorded(seen.view) == 1


def test_a_last_whose_epoch_has_no_file_tells_its_epoch(ultralytics: Path) -> None:
    (ultralytics / "weights" / "epoch1.pt").unlink()
    seen = Seen(ultralytics, "ultralytics", "weights")
    assert "epoch 1" in seen.pointers["weights/last.pt"].detail
    assert (seen.pick.step, seen.pick.path) == (1, "weights/last.pt")
    assert seen.layout.best_recorded(seen.view) is None


def test_a_stripped_last_is_of_a_finished_run(ultralytics: Path) -> None:
    put_torch(ultralytics / "weights" / "last.pt", epoch=-1)
    seen = Seen(ultralytics, "ultralytics", "weights")
    assert "finished" in seen.pointers["weights/last.pt"].detail


def test_results_count_epochs_from_one_and_names_from_zero(ultralytics: Path) -> None:
    seen = Seen(ultralytics, "ultralytics", "weights")
    assert seen.layout.metrics(seen.view)[0]["train/box_loss"] == 5.26032
    assert seen.layout.metrics(seen.view)[1]["train/box_loss"] == 6.85804


def test_a_withdrawn_epoch_is_gone(ultralytics: Path) -> None:
    seen = Seen(ultralytics, "ultralytics", "weights")
    check_withdrawing(seen, 0, lambda at: (at / "weights" / "epoch0.pt").exists())
