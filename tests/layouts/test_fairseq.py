"""fairseq, on files built as its source names and copies them."""

import shutil
from pathlib import Path

import pytest

from prune import layouts
from prune.errors import UsageError
from prune.layouts.base import Part
from prune.layouts.detect import detect
from prune.model import Health
from prune.stores.local import LocalRoot
from tests.layouts.helpers import Seen
from tests.layouts.withdrawing import check_withdrawing
from tests.trees.stacks import cut, put_torch


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Saves every 100 updates and at the end of each epoch; the best was at 200, the last at 300."""
    root = tmp_path / "run"
    for epoch, updates in ((1, 100), (1, 200), (2, 300)):
        put_torch(root / f"checkpoint_{epoch}_{updates}.pt", updates=updates)
    put_torch(root / "checkpoint1.pt", epoch=1)
    shutil.copy(root / "checkpoint_2_300.pt", root / "checkpoint_last.pt")
    shutil.copy(root / "checkpoint_1_200.pt", root / "checkpoint_best.pt")
    shutil.copy(root / "checkpoint_1_200.pt", root / "checkpoint.best_loss_2.1253.pt")
    return root


def test_updates_number_the_run_and_files_of_epochs_are_foreign(root: Path) -> None:
    seen = Seen(root, "fairseq")
    assert seen.steps == [100, 200, 300]
    assert seen.listing.foreign == 1


def test_where_there_are_only_epochs_they_number_the_run(tmp_path: Path) -> None:
    for epoch in (9, 10):
        put_torch(tmp_path / f"checkpoint{epoch}.pt", epoch=epoch)
    assert Seen(tmp_path, "fairseq").steps == [9, 10]


def test_the_series_can_be_said(root: Path) -> None:
    assert Seen(root, layouts.get("fairseq", {"series": "epochs"})).steps == [1]
    with pytest.raises(UsageError, match="weeks"):
        layouts.get("fairseq", {"series": "weeks"})


def test_copies_under_fixed_names_are_known_by_their_bytes(root: Path) -> None:
    seen = Seen(root, "fairseq")
    assert {path: pointer.step for path, pointer in seen.pointers.items()} == {
        "checkpoint_last.pt": 300,
        "checkpoint_best.pt": 200,
        "checkpoint.best_loss_2.1253.pt": 200,
    }
    assert (seen.pick.step, seen.pick.path) == (300, "checkpoint_last.pt")
    assert seen.layout.best_recorded(seen.view) == 200
    assert seen.layout.metrics(seen.view) == {200: {"loss": 2.125}}


def test_a_copy_that_was_cut_names_no_step(root: Path) -> None:
    cut(root / "checkpoint_last.pt", 0)
    seen = Seen(root, "fairseq")
    assert seen.pointers["checkpoint_last.pt"].step is None
    assert (seen.pick.step, seen.pick.path) == (None, "checkpoint_last.pt")


def test_without_a_last_fairseq_starts_anew(root: Path) -> None:
    (root / "checkpoint_last.pt").unlink()
    assert Seen(root, "fairseq").pick is None


def test_a_save_in_flight_is_a_temporary(root: Path) -> None:
    put_torch(root / "checkpoint_2_400.pt.tmp")
    put_torch(root / "checkpoint_last.pt.tmp")
    found = Seen(root, "fairseq").paths(Part.TEMPORARY)
    assert found == {400: ["checkpoint_2_400.pt.tmp"], None: ["checkpoint_last.pt.tmp"]}


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    root = tmp_path / "sharded"
    for part in range(2):
        for shard in range(2):
            put_torch(root / f"checkpoint_1_100-model_part-{part}-shard{shard}.pt", part=part, shard=shard)
            put_torch(root / f"checkpoint_last-model_part-{part}-shard{shard}.pt", part=part, shard=shard)
    return root


def test_all_shards_of_a_name_are_one_step(sharded: Path) -> None:
    seen = Seen(sharded, "fairseq")
    assert len(seen.paths()[100]) == 4
    assert seen.verdict(100).health is Health.WHOLE
    assert seen.collision is None


@pytest.mark.parametrize("part", [0, 1])
def test_a_missing_shard_breaks_the_step(sharded: Path, part: int) -> None:
    (sharded / f"checkpoint_1_100-model_part-{part}-shard0.pt").unlink()
    verdict = Seen(sharded, "fairseq").verdict(100)
    assert verdict.health is Health.BROKEN
    assert f"model_part-{part}-shard0" in verdict.detail


def test_one_update_under_two_epochs_is_two_runs_in_one_place(root: Path) -> None:
    put_torch(root / "checkpoint_7_300.pt")
    assert "are both step 300" in Seen(root, "fairseq").collision


def test_shard_0_is_withdrawn_first(sharded: Path) -> None:
    def complete(at: Path) -> bool:
        return all((at / f"checkpoint_1_100-model_part-{p}-shard{s}.pt").exists() for p in (0, 1) for s in (0, 1))

    order = check_withdrawing(Seen(sharded, "fairseq"), 100, complete)
    assert order[0] == "checkpoint_1_100-model_part-0-shard0.pt"


def test_fairseq_is_told_by_its_names(root: Path) -> None:
    with LocalRoot(str(root)) as reader:
        assert detect(reader).layout.name == "fairseq"
