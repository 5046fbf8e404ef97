"""The commands from Python."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import prune
from prune.errors import UsageError
from tests.cli.command import prune as command
from tests.trees.build import mirrored, names, step_files


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path}/state.db")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    primary = step_files(tmp_path / "P", range(10, 110, 10))
    return primary, mirrored(primary, tmp_path / "M")


def test_a_plan_writes_nothing_and_applying_it_deletes_just_that(pair: tuple[Path, Path]) -> None:
    primary, mirror = pair
    plan = prune.plan(prune.load_settings(primary=primary, mirrors=[mirror], keep_last=3))
    assert [step.step for step in plan.runs[0].victims] == list(range(10, 80, 10))
    assert len(names(primary)) == 10
    outcome = prune.apply(plan)
    assert {copy.step for copy in outcome.runs[0].deleted} == set(range(10, 80, 10))
    kept = {"step_0080.pt", "step_0090.pt", "step_0100.pt"}
    assert {name for name in names(primary) if name.endswith(".pt")} == kept
    assert {name for name in names(mirror) if name.endswith(".pt")} == kept


def test_a_step_pinned_since_the_plan_was_made_stays(pair: tuple[Path, Path]) -> None:
    primary, mirror = pair
    plan = prune.plan(prune.load_settings(primary=primary, mirrors=[mirror], keep_last=3))
    command("pin", "20", "--primary", primary, "--mirror", mirror, "--reason", "paper")
    outcome = prune.apply(plan)
    assert 20 not in {copy.step for copy in outcome.runs[0].deleted}
    assert {held.guard for held in outcome.runs[0].guarded if held.step == 20} == {"pinned"}
    assert "step_0020.pt" in names(primary) & names(mirror)


def test_a_configuration_and_a_plan_file_are_taken_by_their_paths(pair: tuple[Path, Path], tmp_path: Path) -> None:
    primary, mirror = pair
    config = tmp_path / "prune.toml"
    config.write_text(
        f'[[runs]]\nname = "tiny"\nprimary = "{primary}"\nmirrors = ["{mirror}"]\n[runs.keep]\nlast = 9\n'
    )
    assert [step.step for step in prune.plan(config).runs[0].victims] == [10]
    command("plan", "--config", config, "--out", tmp_path / "plan.json")
    outcome = prune.apply(tmp_path / "plan.json")
    assert {copy.step for copy in outcome.runs[0].deleted} == {10}


def test_what_a_configuration_changed_since_a_plan_file_was_made_keeps_stays(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    config = tmp_path / "prune.toml"
    config.write_text(f'[[runs]]\nname = "tiny"\nprimary = "{pair[0]}"\nkeep = {{last = 2}}\n')
    assert command("plan", "--config", str(config), "--out", str(tmp_path / "plan.json")).code == 0
    config.write_text(config.read_text().replace("last = 2", "last = 8"))
    os.utime(config, (time.time() + 5,) * 2)
    assert {copy.step for copy in prune.apply(tmp_path / "plan.json").runs[0].deleted} == {10, 20}


def test_what_cannot_be_is_refused_with_the_mend(pair: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="keep_lst") as refused:
        prune.load_settings(primary=pair[0], keep_lst=3)
    assert "keep_last" in str(refused.value.mend)
    with pytest.raises(UsageError):
        prune.load_settings(primary=pair[0], keep_last=0)
    with pytest.raises(UsageError):
        prune.apply(tmp_path / "none.json")


def test_a_blocked_run_is_told_and_nothing_raised(pair: tuple[Path, Path], tmp_path: Path) -> None:
    plan = prune.plan(prune.load_settings(primary=pair[0], mirrors=[tmp_path / "gone"], keep_last=3))
    outcome = prune.apply(plan)
    assert outcome.runs[0].blocked is not None
    assert len(names(pair[0])) == 10


PROMISED = ["plan", "apply", "load_settings", "publish", "resume", "load_latest", "seal", "lease"]


@pytest.mark.parametrize("name", PROMISED)
def test_every_promised_name_is_there_whatever_was_imported_before(name: str) -> None:
    code = f"import prune, prune.cli.plan, prune.cli.apply, prune.engine; assert callable(prune.{name}), prune.{name}"
    subprocess.run([sys.executable, "-c", code], check=True)
