"""Ray Train trains in a cluster of its own, and restores from its snapshot what is left."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs Ray Train: pip install 'ray[train]'")
pytest.importorskip("ray.train.v2", reason="needs version 2 of Ray Train")
pytest.importorskip("torch", reason="needs PyTorch")

from ray.train.v2.api.result import Result

from prune.model import Health
from prune.resume import resume
from tests.integrations.training import told
from tests.runs import Guards, applied, deleted_steps, planned, run_of
from tests.trees.build import names

pytestmark = pytest.mark.slow

AT_ONCE = Guards(in_flight=0, orphans=0)
SNAPSHOT = "checkpoint_manager_snapshot.json"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five reports, of which Ray was told to keep four."""
    storage = tmp_path_factory.mktemp("ray")
    fitted(storage, 5, state=storage / "state.db")
    return storage


@pytest.fixture
def storage(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "storage"))


@pytest.fixture
def root(storage: Path) -> Path:
    return storage / "tiny"


def fitted(storage: Path, iterations: int, *more: str, state: Path) -> dict[str, Any]:
    return told("train_ray", storage, "tiny", str(iterations), "--keep", "4", *more, state=state)


def restored(root: Path) -> Result:
    """What Ray itself makes of the run, as it does before it trains on."""
    return Result.from_path(root)


def listed(root: Path) -> list[str]:
    """The checkpoints that Ray would start with, oldest first."""
    return [Path(checkpoint.path).name for checkpoint, _ in restored(root).best_checkpoints or ()]


def test_steps_are_the_reports_and_the_candidate_is_what_ray_restores(root: Path, state: Path) -> None:
    plan = planned(run_of(root, last=2, guards=AT_ONCE), state)
    assert [step.step for step in plan.steps] == [1, 2, 3, 4]
    assert {step.copies[0].health for step in plan.steps} <= {Health.WHOLE, Health.INTACT}
    assert resume(root).path == restored(root).checkpoint.path


def test_what_the_snapshot_lists_is_held_since_ray_does_not_start_without_any_of_it(root: Path, state: Path) -> None:
    before = listed(root)
    outcome = applied(run_of(root, last=2, guards=AT_ONCE), state)
    assert not outcome.deleted
    assert listed(root) == before == sorted(name for name in names(root) if name.startswith("checkpoint_2"))

    shutil.rmtree(root / before[0])
    with pytest.raises(Exception, match="does not exist anymore"):
        restored(root)


def test_ray_would_restore_a_damaged_newest_checkpoint_and_the_candidate_is_the_one_before(
    root: Path, state: Path
) -> None:
    newest, before = Path(restored(root).checkpoint.path), listed(root)[-2]
    os.truncate(newest / "state.pt", 700)

    found = resume(root)

    assert (found.step, Path(found.path).name) == (3, before)
    assert restored(root).checkpoint.path == str(newest)


def test_killed_in_the_middle_of_a_report_ray_goes_on_from_the_candidate_and_what_it_gave_up_is_cleaned(
    storage: Path, root: Path, state: Path
) -> None:
    assert fitted(storage, 7, "--kill-at", "6", state=state) == {"failed": True}
    (cut,) = {name for name in names(root) if name.startswith("checkpoint_2")} - set(listed(root))
    candidate = resume(root)
    applied(run_of(root, last=2, guards=AT_ONCE), state)
    assert cut in names(root)  # newer than the snapshot: Ray may be about to list it

    told = fitted(storage, 7, state=state)

    assert told == {"resumed": candidate.path, "iteration": 5, "failed": False, "ended": 7}
    applied(run_of(root, last=2, guards=AT_ONCE), state)
    assert names(root) == {SNAPSHOT, *listed(root)}
    assert (len(listed(root)), resume(root).path) == (4, restored(root).checkpoint.path)


def test_version_1_killed_in_a_report_restores_the_last_that_was_reported_and_that_is_never_pruned(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tune knows nothing of the number that the dead worker left, though it is the highest and looks whole."""
    monkeypatch.setenv("RAY_TRAIN_V2_ENABLED", "0")
    storage = tmp_path / "storage"
    storage.mkdir()
    assert fitted(storage, 7, "--kill-at", "6", state=state) == {"failed": True}
    (trial,) = (storage / "tiny").glob("TorchTrainer_*")
    assert {f"checkpoint_00000{number}" for number in (3, 4, 5)} <= names(trial)  # four, and the dead worker's

    assert deleted_steps(applied(run_of(trial, last=1, guards=AT_ONCE), state)) == [1, 2, 3]

    told = fitted(storage, 7, state=state)
    assert told == {"resumed": str(trial / "checkpoint_000004"), "iteration": 5, "failed": False, "ended": 7}
