"""TensorFlow's CheckpointManager saves, is killed, finds its steps damaged, and restores from what pruning left."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
pytest.importorskip("tensorflow", reason="needs TensorFlow: pip install tensorflow-cpu")

import tensorflow as tf

import prune
from prune.model import Decision
from tests.integrations.pruned import Run, broken, candidate, sound, victims
from tests.integrations.train_tensorflow import Training
from tests.integrations.training import told
from tests.runs import deleted_steps
from tests.trees.build import names

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path / 'asked.db'}")
    return tmp_path / "run"


def trained(root: Path, *words: str, kill_at: str | None = None) -> dict[str, Any]:
    return told("train_tensorflow", root, *words, state=root.parent / "state.db", kill_at=kill_at)


def restores(path: str) -> int | None:
    """The step whose values TensorFlow reads from this prefix, None where it cannot."""
    try:
        return Training(Path(path).parent).restored(path)
    except Exception:
        return None


def files(*steps: int) -> set[str]:
    return {f"ckpt-{step}.{end}" for step in steps for end in ("index", "data-00000-of-00001")} | {"checkpoint"}


def test_steps_verdicts_and_candidate_are_tensorflows_own_and_it_goes_on_from_what_pruning_left(root: Path) -> None:
    trained(root)
    run = Run(root)
    plan = run.planned_with_mirror()
    assert plan.layout == "tensorflow"
    assert sound(plan) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert victims(plan) == [1, 2, 3, 4, 5]
    assert candidate(plan) == 8
    assert prune.resume(root).path == tf.train.latest_checkpoint(str(root)) == str(root / "ckpt-8")

    assert deleted_steps(run.applied_with_mirror()) == [1, 2, 3, 4, 5]

    for replica in (root, run.mirror):
        assert names(replica) == files(6, 7, 8)
        assert [restores(str(replica / f"ckpt-{step}")) for step in (6, 7, 8)] == [6, 7, 8]
    told = trained(root, "--steps", "10")
    assert (told["restored"], told["latest"]) == (8, str(root / "ckpt-10"))
    assert names(root) == files(6, 7, 8, 9, 10)


def test_its_own_sweep_goes_on_after_pruning_and_takes_no_harm_from_what_is_gone(root: Path) -> None:
    trained(root)
    Run(root).applied_with_mirror()
    told = trained(root, "--steps", "11", "--max-to-keep", "4")
    assert told["restored"] == 8
    assert names(root) == files(8, 9, 10, 11)


def test_a_copy_restores_on_its_mirror_by_the_prefix_that_is_given_out(root: Path) -> None:
    trained(root)
    run = Run(root)
    run.applied_with_mirror()
    shutil.rmtree(root)
    root.mkdir()
    found = prune.resume(root, mirrors=[run.mirror])
    assert found.path == str(run.mirror / "ckpt-8") == tf.train.latest_checkpoint(str(run.mirror))
    assert restores(found.path) == 8


def test_a_save_killed_among_its_shards_counts_for_nothing_and_goes_as_an_orphan(root: Path) -> None:
    trained(root, kill_at="merge:8")
    assert "ckpt-8_temp" in names(root)

    run = Run(root)
    plan = run.planned()

    assert sound(plan) == [1, 2, 3, 4, 5, 6, 7]
    assert candidate(plan) == 7
    assert prune.resume(root).path == tf.train.latest_checkpoint(str(root))
    assert victims(plan) == [1, 2, 3, 4]
    assert [(orphan.path, orphan.decision) for orphan in plan.orphans] == [("ckpt-8_temp", Decision.DELETE)]
    run.applied_with_mirror()
    assert names(root) == files(5, 6, 7)
    assert trained(root)["restored"] == 7


def test_a_step_written_and_not_yet_named_is_whole_and_what_the_trainer_would_take_stays(root: Path) -> None:
    trained(root, kill_at="state:8")
    assert tf.train.latest_checkpoint(str(root)) == str(root / "ckpt-7")

    run = Run(root)
    plan = run.planned()
    assert sound(plan) == [1, 2, 3, 4, 5, 6, 7, 8]
    found = prune.resume(root)
    assert (found.step, restores(found.path)) == (8, 8)
    run.applied_with_mirror()
    assert trained(root)["restored"] == 7


def test_what_its_own_killed_sweep_left_is_broken_and_never_counted(root: Path) -> None:
    trained(root, "--max-to-keep", "7", kill_at="sweep:1")
    assert [name for name in names(root) if name.startswith("ckpt-1.")] == ["ckpt-1.data-00000-of-00001"]
    plan = Run(root).planned()
    assert (broken(plan), sound(plan)) == ([1], [2, 3, 4, 5, 6, 7, 8])
    assert candidate(plan) == 8
    assert prune.resume(root).path == tf.train.latest_checkpoint(str(root))


@pytest.mark.parametrize("end", ["index", "data-00000-of-00001"])
@pytest.mark.parametrize("how", ["gone", "cut", "zeros"])
def test_a_damaged_newest_step_is_passed_over_and_the_one_before_restores(root: Path, end: str, how: str) -> None:
    trained(root, "--steps", "4")
    path = root / f"ckpt-4.{end}"
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut": data[: len(data) // 2], "zeros": bytes(len(data))}[how])
    assert restores(str(root / "ckpt-4")) is None

    found = prune.resume(root)
    assert (found.step, found.path) == (3, str(root / "ckpt-3"))
    assert restores(found.path) == 3

    assert 4 not in victims(Run(root).planned())
