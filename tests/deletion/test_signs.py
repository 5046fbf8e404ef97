"""What others do while a pass is at work is seen before the next step goes, on a root that answers at once too."""

from __future__ import annotations

from pathlib import Path

import pytest

from prune.deletion import apply, newest, sweep
from prune.settings.schema import Keep
from tests.runs import applied, deleted_steps, run_of
from tests.trees.build import age, names
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
