"""What a user may not take away stays, whole, and the mend is told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.ordinary import ordinary_user
from tests.runs import applied, run_of
from tests.trees.build import names, step_dirs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return step_dirs(tmp_path / "P", range(1, 6))


def test_a_read_only_step_stays_whole_with_the_mend_and_the_others_go(root: Path, tmp_path: Path) -> None:
    (root / "step-1").chmod(0o555)
    try:
        with ordinary_user():
            outcome = applied(run_of(root, last=3), tmp_path / "state.db")
    finally:
        (root / "step-1").chmod(0o755)
    (failed,) = outcome.failed
    assert (failed.step, failed.replica) == (1, "primary")
    assert "chmod u+w" in failed.error
    assert len(list((root / "step-1").rglob("*.pt"))) == 4
    assert {name for name in names(root) if name.startswith("step")} == {f"step-{step}" for step in (1, 3, 4, 5)}


def test_an_immutable_step_stays_whole_with_the_mend(root: Path, tmp_path: Path) -> None:
    made = subprocess.run(["chattr", "+i", root / "step-1"], check=False, capture_output=True)
    if made.returncode != 0:
        pytest.skip("no file system with immutable files here, or no right to make them")
    try:
        outcome = applied(run_of(root, last=3), tmp_path / "state.db")
    finally:
        subprocess.run(["chattr", "-i", root / "step-1"], check=True)
    (failed,) = outcome.failed
    assert "immutable" in failed.error
    assert len(list((root / "step-1").rglob("*.pt"))) == 4
