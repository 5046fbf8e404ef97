"""OLMo-core, on the tree that its own Checkpointer wrote."""

import shutil
from pathlib import Path

import pytest

from prune.layouts.base import Part
from prune.model import Health
from tests.layouts.helpers import Seen
from tests.layouts.withdrawing import check_withdrawing
from tests.trees.real import unpack
from tests.trees.stacks import put, put_shards


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpack("olmo_core", tmp_path)


def is_checkpoint(folder: Path) -> bool:
    """OLMo-core's own test."""
    needed = (".metadata.json", "train/rank0.pt", "model_and_optim/.metadata")
    return (folder / ".metadata").exists() or all((folder / name).exists() for name in needed)


@pytest.mark.parametrize("name", [".metadata.json", "train/rank0.pt", "model_and_optim/.metadata"])
def test_each_of_its_three_marks_must_be_there(root: Path, name: str) -> None:
    (root / "step30" / name).unlink()
    seen = Seen(root, "olmo-core")
    assert seen.verdict(30).health is Health.BROKEN
    assert seen.pick.step == 20


def test_a_rank_between_others_is_missed(root: Path) -> None:
    shutil.copy(root / "step30" / "train" / "rank0.pt", root / "step30" / "train" / "rank2.pt")
    assert "train/rank1.pt is missing" in Seen(root, "olmo-core").verdict(30).detail


def test_a_staged_save_is_a_temporary(root: Path) -> None:
    put(root / "step40-tmp" / "train" / "rank0.pt")
    assert Seen(root, "olmo-core").paths(Part.TEMPORARY) == {40: ["step40-tmp"]}


def test_a_bare_model_is_whole_and_weights_only(tmp_path: Path) -> None:
    put_shards(tmp_path / "step50")
    seen = Seen(tmp_path, "olmo-core")
    assert seen.verdict(50).health is Health.WHOLE
    assert seen.weights_only(50)
    assert seen.pick.step == 50


def test_where_none_is_a_checkpoint_olmo_core_finds_none(root: Path) -> None:
    for path in root.glob("step*/.metadata.json"):
        path.unlink()
    assert Seen(root, "olmo-core").pick is None


def test_a_withdrawn_step_is_no_checkpoint(root: Path) -> None:
    check_withdrawing(Seen(root, "olmo-core"), 10, lambda at: is_checkpoint(at / "step10"))
