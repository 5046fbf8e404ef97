"""What others do while a pass is at work is seen before the next step goes, on a root that answers at once too."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from prune.deletion import apply, newest, sweep
from prune.settings.schema import Keep
from tests.runs import applied, deleted_steps, run_of
from tests.trees.build import age, names, step_files, torch_zip
from tests.trees.stacks import deepspeed


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def primary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six steps, of which ``latest`` names the newest. Nothing is looked at again because time has passed."""
    monkeypatch.setattr(sweep, "LOOK_EVERY_NS", 10**15)
    root = tmp_path / "P"
    for step in range(1, 7):
        age(deepspeed(root, step), 7200)
    (root / "latest").write_text("global_step6")
    age(root / "latest", 3600)
    return root


def set_back(root: Path) -> None:
    (root / "latest").write_text("global_step3")
    age(root / "latest", 1800)


def test_a_pointer_set_back_while_the_newest_was_read_in_full_keeps_what_it_names(
    primary: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = newest.check_copy

    def meanwhile(*words, **more):  # type: ignore[no-untyped-def]
        set_back(primary)
        return check(*words, **more)

    monkeypatch.setattr(newest, "check_copy", meanwhile)
    monkeypatch.setattr(newest, "_newest_copies", _unchecked(newest._newest_copies))

    assert deleted_steps(applied(run_of(primary, keep=Keep(last=2)), state)) == [1, 2, 4]
    assert "global_step3" in names(primary)


def test_a_pointer_set_back_while_a_step_goes_keeps_what_it_names(
    primary: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "BATCH", 1)
    settle = sweep.Sweep._settle

    def meanwhile(self: sweep.Sweep, batch: sweep.Batch) -> None:
        set_back(primary)
        settle(self, batch)

    monkeypatch.setattr(sweep.Sweep, "_settle", meanwhile)

    assert deleted_steps(applied(run_of(primary, keep=Keep(last=2)), state)) == [1, 2, 4]
    assert "global_step3" in names(primary)


def _unchecked(newest_copies):  # type: ignore[no-untyped-def]
    """The same copies as if none had been read in full yet."""
    from dataclasses import replace

    return lambda plan: [replace(copy, verified_ns=None) for copy in newest_copies(plan)]


def test_a_pointer_set_back_while_a_batch_is_being_withdrawn_brings_the_batch_back(
    primary: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    withdraw = sweep.withdraw

    def meanwhile(*words, **more):  # type: ignore[no-untyped-def]
        monkeypatch.setattr(sweep, "withdraw", withdraw)
        set_back(primary)
        withdraw(*words, **more)

    monkeypatch.setattr(sweep, "withdraw", meanwhile)
    outcome = applied(run_of(primary, keep=Keep(last=2)), state)
    assert deleted_steps(outcome) == []
    assert {held.guard for held in outcome.guarded} == {"changed"}
    assert {f"global_step{step}" for step in range(1, 7)} <= names(primary)
    assert deleted_steps(applied(run_of(primary, keep=Keep(last=2)), state)) == [1, 2, 4]


@pytest.mark.parametrize("lost", ["taken away", "saved again"])
def test_where_a_step_that_is_to_survive_goes_meanwhile_the_victims_come_back(
    primary: Path, state: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    withdraw = sweep.withdraw

    def meanwhile(*words, **more):  # type: ignore[no-untyped-def]
        withdraw(*words, **more)
        shutil.rmtree(primary / "global_step5")
        if lost == "saved again":
            deepspeed(primary, 5)

    monkeypatch.setattr(sweep, "withdraw", meanwhile)
    outcome = applied(run_of(primary, keep=Keep(last=2)), state)
    assert deleted_steps(outcome) == []
    assert {f"global_step{step}" for step in (1, 2, 3, 4, 6)} <= names(primary)


def test_two_steps_that_change_names_in_the_last_moment_are_told_apart_by_what_they_are(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal in size and time: only the inode tells."""
    root = step_files(tmp_path / "P", range(1, 7))
    for path in root.iterdir():
        path.write_bytes(torch_zip(500, fill=b"x"))
        os.utime(path, (time.time() - 7200,) * 2)
    kept = (root / "step_0006.pt").stat().st_ino
    withdraw = sweep.withdraw

    def meanwhile(*words, **more):  # type: ignore[no-untyped-def]
        for old, new in (("step_0001.pt", "x"), ("step_0006.pt", "step_0001.pt"), ("x", "step_0006.pt")):
            os.rename(root / old, root / new)
        withdraw(*words, **more)

    monkeypatch.setattr(sweep, "withdraw", meanwhile)
    applied(run_of(root, keep=Keep(last=2)), state)
    assert kept in {path.stat().st_ino for path in root.iterdir()}
