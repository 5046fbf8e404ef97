"""Composer, on the real tree of one rank, and on files of several ranks built as its source names them."""

import shutil
from pathlib import Path

import pytest

from prune import layouts
from prune.errors import UsageError
from prune.layouts.base import Part
from prune.model import Health, PointerState
from tests.layouts.helpers import Seen
from tests.layouts.withdrawing import check_withdrawing
from tests.trees.real import unpack
from tests.trees.stacks import composer, put, put_shards


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "checkpoints"
    for epoch, batch in ((0, 50), (1, 100), (1, 150)):
        composer(root, epoch=epoch, batch=batch)
    for rank in range(2):
        (root / f"latest-rank{rank}.pt").symlink_to(f"ep1-ba150-rank{rank}.pt")
    return root


def every_rank(root: Path, stem: str = "ep0-ba50", ranks: int = 2) -> bool:
    return all((root / f"{stem}-rank{rank}.pt").exists() for rank in range(ranks))


def test_a_step_is_the_files_of_all_ranks_and_is_numbered_by_batches(root: Path) -> None:
    seen = Seen(root, "composer")
    assert seen.paths()[50] == ["ep0-ba50-rank0.pt", "ep0-ba50-rank1.pt"]
    assert (seen.pick.step, seen.pick.how) == (150, "latest-rank0.pt")
    assert {path: pointer.step for path, pointer in seen.pointers.items()} == {
        "latest-rank0.pt": 150,
        "latest-rank1.pt": 150,
    }


def test_a_missing_rank_breaks_the_step(root: Path) -> None:
    (root / "ep1-ba100-rank0.pt").unlink()
    assert "rank 0's file is missing" in Seen(root, "composer").verdict(100).detail


def test_a_batch_saved_twice_is_one_step_and_whole_when_both_saves_are(root: Path) -> None:
    composer(root, epoch=2, batch=150)
    seen = Seen(root, "composer")
    assert seen.collision is None
    assert seen.verdict(150).health is Health.WHOLE
    (root / "ep2-ba150-rank0.pt").unlink()
    assert Seen(root, "composer").verdict(150).health is Health.BROKEN


def test_a_sharded_step_is_a_directory(tmp_path: Path) -> None:
    for batch in (10, 20):
        put_shards(tmp_path / f"ep0-ba{batch}")
    (tmp_path / "latest-rank0").symlink_to("ep0-ba20")
    (tmp_path / "ep0-ba10" / ".metadata").unlink()
    (tmp_path / "ep0-ba30").mkdir()
    seen = Seen(tmp_path, "composer")
    assert seen.pick.step == 20
    assert [seen.verdict(step).health for step in seen.steps] == [Health.BROKEN, Health.WHOLE, Health.BROKEN]


def test_a_text_object_stands_for_a_link(root: Path) -> None:
    put(root / "latest-rank0.pt.symlink", "checkpoints/ep1-ba100-rank0.pt\n")
    for rank in range(2):
        (root / f"latest-rank{rank}.pt").unlink()
    assert Seen(root, "composer").pick.step == 100


def test_a_dangling_link_is_said_to_dangle(root: Path) -> None:
    for rank in range(2):
        (root / f"ep1-ba150-rank{rank}.pt").unlink()
    pointer = Seen(root, "composer").pointers["latest-rank0.pt"]
    assert (pointer.step, pointer.state) == (150, PointerState.DANGLING)


def test_without_a_link_autoresume_starts_anew(root: Path) -> None:
    for rank in range(2):
        (root / f"latest-rank{rank}.pt").unlink()
    assert Seen(root, "composer").pick is None


@pytest.mark.parametrize(
    "name", ["ep1-ba100-rank0.tar", "ep1-ba100-rank0.tgz", "ep1-ba100-rank0.pt.lz4", "ba100-rank0.pt"]
)
def test_other_forms_of_a_name_are_read(tmp_path: Path, name: str) -> None:
    put(tmp_path / name)
    assert Seen(tmp_path, "composer").paths(Part.PAYLOAD) == {100: [name]}


def test_what_composer_still_means_to_remove_itself_is_referenced_where_it_is_told(root: Path) -> None:
    assert not Seen(root, "composer").layout.referenced(Seen(root, "composer").view)
    tracking = Seen(root, layouts.get("composer", {"num_checkpoints_to_keep": 2}))
    assert list(tracking.layout.referenced(tracking.view)) == [100, 150]


@pytest.mark.parametrize("keep", ["2", -2, True, None])
def test_a_number_to_keep_that_is_none_is_refused(keep: object) -> None:
    with pytest.raises(UsageError, match="num_checkpoints_to_keep"):
        layouts.get("composer", {"num_checkpoints_to_keep": keep})


def test_rank_0_is_withdrawn_first(root: Path) -> None:
    order = check_withdrawing(Seen(root, "composer"), 50, every_rank)
    assert order == ["ep0-ba50-rank0.pt", "ep0-ba50-rank1.pt"]


def test_a_real_step_that_is_withdrawn_is_gone_for_composer(tmp_path: Path) -> None:
    root = unpack("composer_rank0", tmp_path)
    shutil.copy(root / "ep0-ba5-rank0.pt", root / "ep0-ba5-rank1.pt")
    check_withdrawing(Seen(root, "composer"), 5, lambda at: every_rank(at, "ep0-ba5"))
