"""Keras's own callbacks save, are killed, find their files damaged, and training goes on from what pruning left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
pytest.importorskip("keras", reason="needs Keras and a backend: pip install keras tensorflow-cpu")

import keras

import prune
from tests.integrations.pruned import Run, broken, candidate, sound, victims
from tests.integrations.train_keras import epochs_done, fitted, loaded, made
from tests.integrations.training import told
from tests.runs import deleted_steps
from tests.trees.build import names, snapshot

pytestmark = pytest.mark.slow

KINDS = ["whole", "weights"]
BACKUP = {"latest.weights.h5", "training_metadata.json", "latest.weights.h5.bkp", "training_metadata.json.bkp"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path / 'asked.db'}")
    return tmp_path / "run"


def trained(kind: str, root: Path, *words: str, kill_at: str | None = None) -> dict[str, Any]:
    return told("train_keras", kind, root, *words, state=root.parent / "state.db", kill_at=kill_at)


def file_of(root: Path, epoch: int) -> Path:
    return next(path for path in root.iterdir() if f"{epoch:02d}" in path.name.split("-0.")[0].split("-1.")[0])


def most_recent(root: Path) -> str:
    """What Keras's own ModelCheckpoint takes for the newest of its files."""
    template = "model.{epoch:02d}-{loss:.4f}.keras" if list(root.glob("*.keras")) else "cp-{epoch:04d}.weights.h5"
    callback = keras.callbacks.ModelCheckpoint(str(root / template), save_weights_only=template.endswith("h5"))
    return str(callback._get_most_recently_modified_file_matching_pattern(str(root / template)))


def loads(path: str) -> int | None:
    """The epochs done in what Keras's own loader gives, None where it cannot."""
    try:
        return epochs_done(loaded(path))
    except Exception:
        return None


@pytest.mark.parametrize("kind", KINDS)
def test_epochs_verdicts_and_candidate_are_kerass_own_and_it_goes_on_from_what_pruning_left(
    root: Path, kind: str
) -> None:
    trained(kind, root)
    run = Run(root)
    plan = run.planned_with_mirror()
    assert plan.layout == "keras"
    assert sound(plan) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert victims(plan) == [1, 2, 3, 4, 5]
    assert candidate(plan) == 8
    assert prune.resume(root).path == most_recent(root)

    assert deleted_steps(run.applied_with_mirror()) == [1, 2, 3, 4, 5]

    for replica in (root, run.mirror):
        assert [loads(str(file_of(replica, epoch))) for epoch in (6, 7, 8)] == [6, 7, 8]
    told = trained(kind, root, "--from", prune.resume(root).path, "--epochs", "10")
    assert told == {"start": 8, "epochs": [9, 10]}
    assert sound(run.planned()) == [6, 7, 8, 9, 10]


@pytest.mark.parametrize("kind", KINDS)
def test_a_save_killed_half_way_under_its_final_name_is_never_counted(root: Path, kind: str) -> None:
    trained(kind, root, kill_at="8")
    assert most_recent(root) == str(file_of(root, 8))
    assert loads(most_recent(root)) is None

    run = Run(root)
    plan = run.planned()
    assert sound(plan) == [1, 2, 3, 4, 5, 6, 7]
    assert (victims(plan), candidate(plan)) == ([1, 2, 3, 4], 7)
    found = prune.resume(root)
    assert (found.step, loads(found.path)) == (7, 7)

    run.applied_with_mirror()
    assert trained(kind, root, "--from", prune.resume(root).path)["epochs"] == [8]
    assert 8 in sound(run.planned())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["cut", "zeros", "empty"])
def test_a_damaged_newest_file_is_passed_over_and_the_one_before_loads(root: Path, kind: str, how: str) -> None:
    trained(kind, root, "--epochs", "4")
    path = file_of(root, 4)
    data = path.read_bytes()
    path.write_bytes({"cut": data[: len(data) // 2], "zeros": bytes(len(data)), "empty": b""}[how])
    assert loads(str(path)) is None

    found = prune.resume(root)
    assert (found.step, loads(found.path)) == (3, 3)
    plan = Run(root).planned()
    assert (sound(plan), victims(plan)) == ([1, 2, 3], [])
    assert how == "zeros" or broken(plan) == [4]


def test_what_kerass_orbax_callback_saved_is_pruned_as_orbaxs_and_orbax_still_lists_it(root: Path) -> None:
    pytest.importorskip("orbax.checkpoint", reason="Keras's OrbaxCheckpoint needs Orbax: pip install orbax-checkpoint")
    callback = keras.callbacks.OrbaxCheckpoint(directory=str(root), save_freq="epoch", max_to_keep=10)
    fitted(made(), epochs=8, callbacks=[callback])
    run = Run(root)
    plan = run.planned_with_mirror()
    assert (plan.layout, sound(plan), victims(plan)) == ("orbax", [0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4])

    run.applied_with_mirror()

    assert keras.saving.load_model(str(root)).layers
    assert names(root) == names(run.mirror) == {"5", "6", "7"}
    again = keras.callbacks.OrbaxCheckpoint(directory=str(root), save_freq="epoch", max_to_keep=10)
    fitted(made(), epochs=9, start=8, callbacks=[again])
    assert sound(run.planned())[:3] == [5, 6, 7]


def restored_epochs(root: Path) -> int:
    """How many epochs Keras's BackupAndRestore takes for done."""
    model = made()
    callback = keras.callbacks.BackupAndRestore(str(root), double_checkpoint=True, delete_checkpoint=False)
    return 10 - len(fitted(model, epochs=10, callbacks=[callback]).epoch)


def test_a_backup_stays_as_it_is_and_restores(root: Path) -> None:
    trained("backup", root)
    before = snapshot(root)
    run = Run(root)
    assert (victims(run.planned()), run.planned().layout) == ([], "keras")
    run.applied_with_mirror()
    assert {name: was for name, was in snapshot(root).items() if name in BACKUP} == {
        name: was for name, was in before.items() if name in BACKUP
    }
    assert restored_epochs(root) == 8


def test_beside_a_backup_files_are_pruned_and_the_backup_still_restores(root: Path) -> None:
    trained("weights", root)
    trained("backup", root, "--epochs", "7")
    run = Run(root)
    plan = run.planned()
    assert victims(plan) == [1, 2, 3, 4, 5]
    assert prune.resume(root).step == 8

    run.applied_with_mirror()

    assert names(root) == {f"cp-{epoch:04d}.weights.h5" for epoch in (6, 7, 8)} | BACKUP
    assert restored_epochs(root) == 7
