"""DeepSpeed, on the real tree of two ranks and on tags built as its source names them."""

import shutil
from pathlib import Path

import pytest

from prune.model import Health, PointerState
from tests.layouts.helpers import Seen
from tests.layouts.withdrawing import check_withdrawing
from tests.trees.real import unpack
from tests.trees.stacks import deepspeed, put, put_torch


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpack("deepspeed_zero1", tmp_path)


def test_the_optimizer_file_of_the_last_rank_is_missed_though_deepspeed_loads_without_it(root: Path) -> None:
    (root / "global_step80" / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    verdict = Seen(root, "deepspeed").verdict(80)
    assert verdict.health is Health.BROKEN
    assert "1 of 2 partitions" in verdict.detail


def test_a_save_killed_before_any_optimizer_file_is_broken(root: Path) -> None:
    for path in (root / "global_step80").glob("*optim_states.pt"):
        path.unlink()
    assert Seen(root, "deepspeed").verdict(80).health is Health.BROKEN


def test_a_gap_between_ranks_is_named(tmp_path: Path) -> None:
    folder = deepspeed(tmp_path, 10, ranks=4)
    (folder / "zero_pp_rank_2_mp_rank_00_optim_states.pt").unlink()
    assert "zero_pp_rank_2_mp_rank_00_optim_states.pt is missing" in Seen(tmp_path, "deepspeed").verdict(10).detail


def test_an_empty_tag_is_broken(tmp_path: Path) -> None:
    (tmp_path / "global_step10").mkdir()
    assert Seen(tmp_path, "deepspeed").verdict(10).health is Health.BROKEN


def test_sharded_model_states_must_be_as_many_as_optimizer_states(tmp_path: Path) -> None:
    folder = tmp_path / "global_step10"
    for rank in range(2):
        put_torch(folder / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt", dp_world_size=2)
    put_torch(folder / "zero_pp_rank_0_mp_rank_00_optim_states.pt")
    assert Seen(tmp_path, "deepspeed").verdict(10).health is Health.BROKEN


def test_without_optimizer_states_a_run_without_zero_is_whole_and_weights_only(tmp_path: Path) -> None:
    put_torch(tmp_path / "global_step10" / "mp_rank_00_model_states.pt", dp_world_size=8, ds_config={})
    seen = Seen(tmp_path, "deepspeed")
    assert seen.verdict(10).health is Health.WHOLE
    assert seen.weights_only(10)


def test_a_lagging_pointer_is_what_deepspeed_resumes_from(root: Path) -> None:
    put(root / "latest", "global_step30\n")
    seen = Seen(root, "deepspeed")
    assert (seen.pick.step, seen.pick.path) == (30, "global_step30")
    assert seen.layout.referenced(seen.view) == {30: "latest names it"}


def test_without_a_pointer_deepspeed_starts_anew(root: Path) -> None:
    (root / "latest").unlink()
    assert Seen(root, "deepspeed").pick is None


def test_a_pointer_to_a_removed_tag_dangles(root: Path) -> None:
    shutil.rmtree(root / "global_step80")
    seen = Seen(root, "deepspeed")
    assert seen.pointers["latest"].state is PointerState.DANGLING
    assert seen.pick.step == 80


def test_a_converted_tag_is_foreign_and_its_pointer_fine(root: Path) -> None:
    (root / "global_step80_universal").mkdir()
    put(root / "latest_universal", "global_step80_universal")
    seen = Seen(root, "deepspeed")
    assert "global_step80_universal" not in str(seen.paths())
    assert (seen.pointers["latest_universal"].step, seen.pointers["latest_universal"].state) == (None, PointerState.OK)


def test_tags_of_free_names_are_steps_only_where_the_pointer_names_one(tmp_path: Path) -> None:
    for epoch in (1, 2):
        deepspeed(tmp_path, epoch, tag=f"epoch-{epoch}")
    (tmp_path / "events2024").mkdir()
    assert Seen(tmp_path, "deepspeed").steps == []
    assert Seen(tmp_path, "deepspeed").listing.foreign == 3
    put(tmp_path / "latest", "epoch-2")
    seen = Seen(tmp_path, "deepspeed")
    assert seen.steps == [1, 2]
    assert seen.listing.foreign == 1
    assert seen.pick.step == 2


def test_a_mirror_without_its_pointer_yet_knows_the_primarys_series(tmp_path: Path) -> None:
    for name in ("primary", "mirror"):
        deepspeed(tmp_path / name, 2, tag="epoch-2")
    put(tmp_path / "primary" / "latest", "epoch-2")
    primary = Seen(tmp_path / "primary", "deepspeed")
    assert Seen(tmp_path / "mirror", primary.layout).steps == primary.steps == [2]


def test_a_tag_without_a_number_is_never_a_step_even_where_the_pointer_names_it(tmp_path: Path) -> None:
    deepspeed(tmp_path, 10)
    deepspeed(tmp_path, 0, tag="final")
    put(tmp_path / "latest", "final")
    seen = Seen(tmp_path, "deepspeed")
    assert seen.steps == [10]
    assert (seen.pointers["latest"].step, seen.pointers["latest"].state) == (None, PointerState.OK)
    assert seen.pick is None


def test_a_free_tag_beside_numbered_steps_is_of_another_series(tmp_path: Path) -> None:
    deepspeed(tmp_path, 500)
    deepspeed(tmp_path, 3, tag="epoch3")
    put(tmp_path / "latest", "epoch3")
    seen = Seen(tmp_path, "deepspeed")
    assert seen.steps == [500]
    assert seen.pointers["latest"].step is None


def test_one_step_under_two_paddings_is_a_collision(tmp_path: Path) -> None:
    deepspeed(tmp_path, 10)
    deepspeed(tmp_path, 10, tag="global_step0010")
    assert "are both step 10" in Seen(tmp_path, "deepspeed").collision


def test_a_withdrawn_tag_is_no_checkpoint(root: Path) -> None:
    check_withdrawing(
        Seen(root, "deepspeed"), 10, lambda at: (at / "global_step10" / "mp_rank_00_model_states.pt").exists()
    )
