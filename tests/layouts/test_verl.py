"""verl, on directories built as its source names them."""

import shutil
from pathlib import Path

import pytest

from prune.layouts.detect import detect
from prune.model import Health, PointerState
from prune.stores.local import LocalRoot
from tests.layouts.helpers import Seen
from tests.layouts.withdrawing import check_withdrawing
from tests.trees.stacks import put, put_torch, verl

TRACKER = "latest_checkpointed_iteration.txt"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "run"
    for step in (5, 10, 15):
        verl(root, step)
    put(root / TRACKER, "15")
    return root


def test_whole_steps_and_the_trackers_pick(root: Path) -> None:
    seen = Seen(root, "verl")
    assert {seen.verdict(step).health for step in (5, 10, 15)} == {Health.WHOLE}
    assert (seen.pick.step, seen.pick.how) == (15, TRACKER)
    assert list(seen.layout.referenced(seen.view)) == [15]


def test_what_verls_own_rotation_leaves_is_hollow_and_broken(root: Path) -> None:
    for role in ("actor", "critic"):
        shutil.rmtree(root / "global_step_5" / role)
    verdict = Seen(root, "verl").verdict(5)
    assert verdict.health is Health.BROKEN
    assert "hollow" in verdict.detail


def test_a_critic_without_its_actor_is_half_a_step(root: Path) -> None:
    shutil.rmtree(root / "global_step_5" / "actor")
    assert Seen(root, "verl").verdict(5).health is Health.BROKEN


@pytest.mark.parametrize(
    "name", ["data.pt", "actor/optim_world_size_2_rank_1.pt", "critic/extra_state_world_size_2_rank_0.pt"]
)
def test_a_file_that_a_rank_should_have_written_is_missed(root: Path, name: str) -> None:
    (root / "global_step_10" / name).unlink()
    verdict = Seen(root, "verl").verdict(10)
    assert verdict.health is Health.BROKEN
    assert f"{name} is missing" in verdict.detail


def test_files_of_two_numbers_of_ranks_are_a_mixture(root: Path) -> None:
    put_torch(root / "global_step_10" / "actor" / "model_world_size_4_rank_3.pt")
    assert "of 2 and of 4 ranks" in Seen(root, "verl").verdict(10).detail


def test_the_flat_form_of_fine_tuning_is_whole_too(tmp_path: Path) -> None:
    folder = tmp_path / "global_step_7"
    for rank in range(2):
        for family in ("model", "optim", "extra_state"):
            put_torch(folder / f"{family}_world_size_2_rank_{rank}.pt")
        put_torch(folder / f"data_{rank}.pt")
    assert Seen(tmp_path, "verl").verdict(7).health is Health.WHOLE
    (folder / "data_0.pt").unlink()
    assert "data_0.pt is missing" in Seen(tmp_path, "verl").verdict(7).detail


def test_a_step_without_optimizer_files_has_weights_only(root: Path) -> None:
    for path in (root / "global_step_10").rglob("optim_*"):
        path.unlink()
    assert Seen(root, "verl").weights_only(10)
    assert not Seen(root, "verl").weights_only(15)


def test_a_tracker_that_names_what_is_gone_dangles(root: Path) -> None:
    shutil.rmtree(root / "global_step_15")
    assert Seen(root, "verl").pointers[TRACKER].state is PointerState.DANGLING


def test_without_a_tracker_verl_starts_anew(root: Path) -> None:
    (root / TRACKER).unlink()
    assert Seen(root, "verl").pick is None


def test_padded_numbers_are_foreign(root: Path) -> None:
    verl(root, 0).rename(root / "global_step_0020")
    assert Seen(root, "verl").steps == [5, 10, 15]


def test_verl_is_told_by_what_lies_in_its_steps(root: Path) -> None:
    with LocalRoot(str(root)) as reader:
        assert detect(reader).layout.name == "verl"


def test_a_withdrawn_step_is_no_checkpoint(root: Path) -> None:
    check_withdrawing(Seen(root, "verl"), 5, lambda at: (at / "global_step_5" / "actor").exists())
