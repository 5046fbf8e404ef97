from pathlib import Path

import pytest

from prune import layouts
from prune.model import Health
from tests.layouts.helpers import Seen, sketch
from tests.trees import stacks
from tests.trees.real import unpack

BASE = "checkpoints"


@pytest.fixture
def auto(tmp_path: Path) -> Path:
    return unpack("accelerate_auto", tmp_path) / BASE


def test_the_control_folder_must_not_stand_among_its_checkpoints() -> None:
    assert layouts.get("accelerate").reads_every_entry


def test_a_save_without_random_states_did_not_finish(auto: Path) -> None:
    (auto / "checkpoint_5" / "random_states_0.pkl").unlink()
    verdict = Seen(auto, "accelerate").verdict(5)
    assert verdict.health is Health.BROKEN
    assert verdict.detail == "checkpoint_5: random_states_0.pkl is missing: the save did not finish"


def test_under_deepspeed_every_ranks_part_of_the_tag_must_be_there(auto: Path) -> None:
    stacks.deepspeed(auto / "checkpoint_5", 5, tag="pytorch_model")
    assert Seen(auto, "accelerate").verdict(5).health is Health.WHOLE
    (auto / "checkpoint_5/pytorch_model/zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    verdict = Seen(auto, "accelerate").verdict(5)
    assert verdict.health is Health.BROKEN
    assert (verdict.detail or "").startswith("checkpoint_5/pytorch_model: ")


def test_a_save_without_a_model_is_broken(auto: Path) -> None:
    (auto / "checkpoint_5" / "model.safetensors").unlink()
    assert Seen(auto, "accelerate").verdict(5).health is Health.BROKEN


def test_random_states_of_a_rank_in_between_are_missed(auto: Path) -> None:
    folder = auto / "checkpoint_5"
    (folder / "random_states_2.pkl").write_bytes((folder / "random_states_0.pkl").read_bytes())
    verdict = Seen(auto, "accelerate").verdict(5)
    assert verdict.health is Health.BROKEN
    assert "random_states_1.pkl is missing" in (verdict.detail or "")


def test_an_empty_file_of_random_states_breaks_the_save(auto: Path) -> None:
    (auto / "checkpoint_5" / "random_states_0.pkl").write_bytes(b"")
    assert Seen(auto, "accelerate").verdict(5).health is Health.BROKEN


def test_without_an_optimizer_it_is_weights_only(auto: Path) -> None:
    assert not Seen(auto, "accelerate").weights_only(5)
    (auto / "checkpoint_5" / "optimizer.bin").unlink()
    assert Seen(auto, "accelerate").weights_only(5)


def test_automatic_naming_would_pick_any_entry_with_the_highest_first_number(auto: Path) -> None:
    (auto / "trash-20261129").mkdir()
    pick = Seen(auto.parent, "accelerate", BASE).pick
    assert pick is not None
    assert (pick.step, pick.path) == (None, "checkpoints/trash-20261129")


def test_automatic_naming_stops_at_an_entry_without_a_number(auto: Path) -> None:
    (auto / "notes").mkdir()
    pick = Seen(auto, "accelerate").pick
    assert pick is not None
    assert (pick.step, pick.path) == (None, "notes")
    assert "no number" in pick.how


def test_directories_that_a_script_names_are_picked_by_number(tmp_path: Path) -> None:
    sketch(tmp_path, "step_9/model.safetensors", "step_10/model.safetensors", "notes/a")
    pick = Seen(tmp_path, "accelerate").pick
    assert pick is not None
    assert pick.step == 10


def test_two_namings_side_by_side_are_a_question_for_a_person(tmp_path: Path) -> None:
    seen = Seen(sketch(tmp_path, "step_100/a", "step_200/a", "epoch_1/a", "epoch_2/a"), "accelerate")
    assert seen.collision is not None
