"""Composer trains, and resumes by its own link from what is left."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("composer", reason="needs Composer: pip install mosaicml")

from prune.model import Health
from prune.resume import resume
from tests.integrations.training import told
from tests.runs import Guards, applied, deleted_steps, planned, run_of
from tests.trees.build import names

pytestmark = pytest.mark.slow

AT_ONCE = Guards(in_flight=0)
LINK = "latest-rank0.pt"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("composer") / "run"
    composed(root, 12, state=root.parent / "state.db")
    return root


@pytest.fixture
def root(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run", symlinks=True))


def composed(root: Path, batches: int, *more: str | Path, state: Path, kill_at: str | None = None) -> dict[str, Any]:
    return told("train_composer", root, str(batches), *more, state=state, kill_at=kill_at)


def files(*batches: int) -> set[str]:
    """An epoch has 8 batches, and what its last one saves is named before the epoch is counted."""
    return {f"ep{(batch - 1) // 8}-ba{batch}-rank0.pt" for batch in batches}


def test_steps_are_batches_and_the_candidate_is_where_composer_resumes(root: Path, state: Path) -> None:
    plan = planned(run_of(root, last=2, guards=AT_ONCE), state)
    assert [step.step for step in plan.steps] == [2, 4, 6, 8, 10, 12]
    assert {step.copies[0].health for step in plan.steps} <= {Health.WHOLE, Health.INTACT}

    found = resume(root)

    assert found.path == str((root / LINK).resolve())
    assert composed(root, 14, state=state) == {"resumed": found.step, "ended": 14}


def test_after_a_prune_composer_resumes_by_its_link_and_goes_on(root: Path, state: Path) -> None:
    assert deleted_steps(applied(run_of(root, last=2, guards=AT_ONCE), state)) == [2, 4, 6, 8]
    assert names(root) == files(10, 12) | {LINK}

    assert composed(root, 16, state=state) == {"resumed": 12, "ended": 16}

    assert names(root) == files(10, 12, 14, 16) | {LINK}
    assert resume(root).path == str((root / LINK).resolve())


def test_a_damaged_newest_checkpoint_falls_back_to_one_that_composer_loads(root: Path, state: Path) -> None:
    newest = (root / LINK).resolve()
    os.truncate(newest, newest.stat().st_size // 2)

    assert deleted_steps(applied(run_of(root, last=2, guards=AT_ONCE), state)) == [2, 4, 6]
    found = resume(root)

    assert (found.step, found.skipped[0].step) == (10, 12)
    assert composed(root, 14, found.path, state=state) == {"resumed": 10, "ended": 14}
    assert resume(root).step == 14


def test_killed_in_the_middle_of_a_save_the_step_is_never_counted_and_composer_resumes_from_the_one_before(
    root: Path, state: Path
) -> None:
    (cut,) = files(14)
    composed(root, 16, state=state, kill_at=cut)
    assert cut in names(root)

    assert resume(root).step == 12
    assert deleted_steps(applied(run_of(root, last=2, guards=AT_ONCE), state)) == [2, 4, 6, 8]
    assert resume(root).path == str((root / LINK).resolve())
    assert composed(root, 16, resume(root).path, state=state) == {"resumed": 12, "ended": 16}


def test_pruned_while_composers_own_rotation_goes_on_nothing_that_it_remembers_is_gone_when_it_looks(
    root: Path, state: Path
) -> None:
    """A file that is gone when the rotation's turn comes ends the training."""
    shutil.rmtree(root)
    root.mkdir()
    assert composed(root, 16, "--keep", "4", "--prune", "2", state=state)["ended"] == 16
    assert names(root) == files(10, 12, 14, 16) | {LINK}


def test_steps_of_an_earlier_process_which_the_rotation_has_forgotten_are_pruned(root: Path, state: Path) -> None:
    assert composed(root, 20, "--keep", "2", "--prune", "2", state=state) == {"resumed": 12, "ended": 20}
    assert names(root) == files(18, 20) | {LINK}
