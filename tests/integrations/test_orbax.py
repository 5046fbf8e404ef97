"""Orbax's CheckpointManager saves, is killed, finds its steps damaged, and restores from what pruning left."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
pytest.importorskip("jax", reason="needs JAX: pip install jax")
pytest.importorskip("orbax.checkpoint", reason="needs Orbax: pip install orbax-checkpoint")

import prune
from prune.model import Decision
from tests.integrations.pruned import Run, broken, candidate, sound, victims
from tests.integrations.train_orbax import manager, restored, restored_items
from tests.integrations.training import told
from tests.layouts.helpers import Seen
from tests.runs import deleted_steps
from tests.trees.build import names

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path / 'asked.db'}")
    return tmp_path / "run"


def trained(root: Path, *words: str, kill_at: str | None = None, **options: Any) -> dict[str, Any]:
    return told(
        "train_orbax", root, "--options", json.dumps(options), *words, state=root.parent / "state.db", kill_at=kill_at
    )


def latest(root: Path, **options: Any) -> int | None:
    with manager(root, read_only=True, **options) as keeper:
        return keeper.latest_step()  # type: ignore[no-any-return]


def restores(root: Path, step: int | None = None, **options: Any) -> int | None:
    """The step whose values Orbax's own manager gives, None where it cannot."""
    with manager(root, read_only=True, **options) as keeper:
        try:
            return restored(keeper, step)
        except Exception:
            return None


@pytest.mark.parametrize(
    "options", [{}, {"step_prefix": "ckpt", "step_format_fixed_length": 8}, {"best": True}, {"commit_file": True}]
)
def test_steps_verdicts_and_candidate_are_orbaxs_own_and_it_goes_on_from_what_pruning_left(
    root: Path, options: dict[str, Any]
) -> None:
    assert trained(root, **options)["latest"] == 8
    run = Run(root)
    plan = run.planned_with_mirror()
    assert plan.layout == "orbax"
    assert sound(plan) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert victims(plan) == [1, 2, 3, 4, 5]
    assert candidate(plan) == latest(root, **options) == prune.resume(root).step == 8

    assert deleted_steps(run.applied_with_mirror()) == [1, 2, 3, 4, 5]

    for replica in (root, run.mirror):
        assert restores(replica, **options) == 8
        assert [restores(replica, step, **options) for step in (6, 7)] == [6, 7]
    told = trained(root, "--steps", "10", **options)
    assert told == {"restored": 8, "all": [6, 7, 8, 9, 10], "latest": 10}


def test_a_step_that_orbax_keeps_for_its_metric_is_best_here_too(root: Path) -> None:
    trained(root, best=True)
    run = Run(root)
    seen = Seen(root, "orbax")
    assert seen.layout.metrics(seen.view) == {step: {"loss": 1.0 / step} for step in range(1, 9)}
    with manager(root, read_only=True, best=True) as keeper:
        assert keeper.best_step() == candidate(run.planned()) == 8


@pytest.mark.parametrize("place", ["create", "finalize"])
def test_a_save_killed_half_way_counts_for_nothing_and_goes_as_an_orphan(root: Path, place: str) -> None:
    trained(root, kill_at=f"{place}:8")
    assert [name for name in names(root) if name.startswith("8")] == ["8.orbax-checkpoint-tmp"]

    run = Run(root)
    plan = run.planned()

    assert sound(plan) == [1, 2, 3, 4, 5, 6, 7]
    assert candidate(plan) == latest(root) == prune.resume(root).step == 7
    assert victims(plan) == [1, 2, 3, 4]
    assert [(orphan.path, orphan.decision) for orphan in plan.orphans] == [("8.orbax-checkpoint-tmp", Decision.DELETE)]
    run.applied_with_mirror()
    assert names(root) == {"5", "6", "7"}
    assert trained(root) == {"restored": 7, "all": [5, 6, 7, 8], "latest": 8}


def test_a_save_killed_before_its_file_of_commit_is_broken_and_never_counted(root: Path) -> None:
    trained(root, kill_at="finalize:8", commit_file=True)
    assert "8" in names(root)
    for options in ({}, {"layout_options": {"commit_file": True}, "layout": "orbax"}):
        plan = Run(root, **options).planned()
        assert broken(plan) == [8]
        assert victims(plan) == [1, 2, 3, 4]
        assert candidate(plan) == latest(root, commit_file=True) == 7
    assert trained(root, commit_file=True)["restored"] == 7


@pytest.mark.parametrize("files", [1, 4, 6, 9, 12])
def test_what_orbaxs_own_killed_delete_left_is_whole_only_where_orbax_restores_it(root: Path, files: int) -> None:
    trained(root, kill_at=f"delete:1:{files}", max_to_keep=7)
    assert "1" in names(root)
    if broken(Run(root).planned()) != [1]:
        assert restores(root, 1) == 1


def restores_items(root: Path, step: int) -> int | None:
    with manager(root, read_only=True) as keeper:
        try:
            return restored_items(keeper, step)
        except Exception:
            return None


def changed(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut": data[: len(data) // 2], "zeros": bytes(len(data))}[how])


@pytest.mark.parametrize("items", [False, True])
@pytest.mark.parametrize("how", ["gone", "cut", "zeros"])
def test_whatever_file_is_damaged_a_step_called_restorable_is_one_that_orbax_restores(
    root: Path, how: str, items: bool
) -> None:
    trained(root, "--steps", "2", *(["--items"] if items else []))
    told = restores_items if items else restores
    files = [path.relative_to(root) for path in (root / "2").rglob("*") if path.is_file()]
    assert len(files) > 10
    trusted = []
    for name in files:
        damaged = root.parent / "damaged"
        shutil.copytree(root, damaged)
        changed(damaged / name, how)
        if prune.resume(damaged).step == 2 and told(damaged, 2) != 2:
            trusted.append(str(name))
        shutil.rmtree(damaged)
    assert trusted == []


def test_a_damaged_newest_step_is_passed_over_which_orbax_itself_would_take(root: Path) -> None:
    trained(root)
    changed(root / "8" / "default" / "manifest.ocdbt", "cut")
    assert latest(root) == 8
    assert restores(root) is None

    run = Run(root)
    found = prune.resume(root)
    assert (found.step, found.path) == (7, str(root / "7"))
    assert restores(root, found.step) == 7
    assert victims(run.planned()) == [1, 2, 3, 4]
    run.applied_with_mirror()
    assert [restores(root, step) for step in (5, 6, 7)] == [5, 6, 7]
