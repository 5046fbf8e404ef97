"""LLaMA-Factory v1, axolotl and unsloth: directories named as the Hugging Face Trainer's, with rules of their own."""

from pathlib import Path

import pytest

from prune.layouts.base import Part
from prune.layouts.detect import detect
from prune.model import Health
from prune.stores.local import LocalRoot
from tests.layouts.helpers import Seen
from tests.layouts.withdrawing import check_withdrawing
from tests.trees.stacks import cut, hf, llama_factory, put, put_json


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    root = tmp_path / "llama"
    for step in (10, 20, 30):
        llama_factory(root, step)
    return root


def test_a_save_of_llama_factory_is_whole_with_its_marker(llama: Path) -> None:
    seen = Seen(llama, "llama-factory")
    assert {seen.verdict(step).health for step in (10, 20, 30)} == {Health.WHOLE}
    assert seen.pick.step == 30


def test_without_its_marker_a_save_is_broken_and_passed_over_by_llama_factory(llama: Path) -> None:
    (llama / "checkpoint-30" / "CHECKPOINT_COMPLETE").unlink()
    seen = Seen(llama, "llama-factory")
    assert "CHECKPOINT_COMPLETE is missing" in seen.verdict(30).detail
    assert seen.pick.step == 20


def test_without_any_marker_llama_factory_starts_anew(tmp_path: Path) -> None:
    hf(tmp_path, 10)
    assert Seen(tmp_path, "llama-factory").pick is None


@pytest.mark.parametrize("name", ["metadata.json", "dataloader/rank_0.pt", "rng_state/rank_1.pt"])
def test_a_marked_save_that_lost_a_file_is_broken(llama: Path, name: str) -> None:
    (llama / "checkpoint-30" / name).unlink()
    assert Seen(llama, "llama-factory").verdict(30).health is Health.BROKEN


def test_metadata_is_read(llama: Path) -> None:
    put_json(llama / "checkpoint-30" / "metadata.json", {"global_step": 20})
    assert Seen(llama, "llama-factory").verdict(30).health is Health.SUSPECT
    cut(llama / "checkpoint-20" / "metadata.json")
    assert Seen(llama, "llama-factory").verdict(20).health is Health.BROKEN


def test_llama_factory_is_told_by_its_marker(llama: Path) -> None:
    with LocalRoot(str(llama)) as reader:
        assert detect(reader).layout.name == "llama-factory"


def test_a_withdrawn_save_of_llama_factory_is_none(llama: Path) -> None:
    seen = Seen(llama, "llama-factory")
    check_withdrawing(seen, 10, lambda at: (at / "checkpoint-10" / "CHECKPOINT_COMPLETE").exists())


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    root = tmp_path / "trained"
    for step in (10, 20):
        hf(root, step)
    return root


@pytest.mark.parametrize("layout", ["axolotl", "unsloth"])
def test_steps_are_judged_as_the_trainers(trained: Path, layout: str) -> None:
    (trained / "checkpoint-20" / "trainer_state.json").unlink()
    seen = Seen(trained, layout)
    assert [seen.verdict(step).health for step in (10, 20)] == [Health.WHOLE, Health.BROKEN]
    assert seen.pick.step == 20


def test_axolotl_takes_any_checkpoint_with_a_greater_number_at_its_end(trained: Path) -> None:
    put(trained / "checkpoint-merged-900" / "model.safetensors")
    seen = Seen(trained, "axolotl")
    assert seen.steps == [10, 20]
    assert (seen.pick.step, seen.pick.path) == (None, "checkpoint-merged-900")
    assert seen.listing.foreign == 1


def test_unsloths_staging_is_a_temporary(trained: Path) -> None:
    put(trained / ".tmp-checkpoint-30-1f2e3d" / "optimizer.pt")
    put(trained / ".tmp-checkpoint-40" / "optimizer.pt")
    found = Seen(trained, "unsloth").paths(Part.TEMPORARY)
    assert found == {None: [".tmp-checkpoint-30-1f2e3d"], 40: [".tmp-checkpoint-40"]}


def test_each_is_detected_by_its_own_mark_only(trained: Path) -> None:
    for mark, name in ((None, "hf-trainer"), ("axolotl_config.yml", "axolotl")):
        if mark:
            put(trained / mark)
        with LocalRoot(str(trained)) as reader:
            assert detect(reader).layout.name == name
