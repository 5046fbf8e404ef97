"""TensorFlow, on the real tree of a CheckpointManager."""

import shutil
from pathlib import Path

import pytest

from prune.layouts.base import Part
from prune.model import Health, PointerState
from tests.layouts.helpers import Seen
from tests.layouts.withdrawing import check_withdrawing
from tests.trees.real import unpack
from tests.trees.stacks import cut, put


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpack("tf_manager", tmp_path)


def under(root: Path, prefix: str, of: str = "ckpt-10") -> None:
    """The same checkpoint under another name; the index holds no names of files."""
    for ending in (".index", ".data-00000-of-00001"):
        shutil.copy(root / f"{of}{ending}", root / f"{prefix}{ending}")


def test_what_tensorflow_is_given_is_the_prefix(root: Path) -> None:
    seen = Seen(root, "tensorflow")
    assert seen.pick.path == "ckpt-120"
    assert seen.layout.load_path(seen.members(50).paths) == "ckpt-50"


def test_without_its_index_a_step_is_none(root: Path) -> None:
    (root / "ckpt-120.index").unlink()
    seen = Seen(root, "tensorflow")
    assert seen.verdict(120).health is Health.BROKEN
    assert seen.pointers["checkpoint"].step == 120
    assert seen.pick is None


def test_without_its_data_a_step_is_broken(root: Path) -> None:
    (root / "ckpt-120.data-00000-of-00001").unlink()
    assert Seen(root, "tensorflow").verdict(120).health is Health.BROKEN


def test_an_index_that_was_cut_is_broken(root: Path) -> None:
    cut(root / "ckpt-120.index")
    assert Seen(root, "tensorflow").verdict(120).health is Health.BROKEN


def test_a_save_in_flight_is_a_temporary(root: Path) -> None:
    put(root / "ckpt-130_temp" / "part-00000-of-00001.data-00000-of-00001")
    put(root / "ckpt-140.index.tempstate4711")
    put(root / "ckpt-150.data-00000-of-00001.part")
    put(root / "checkpoint.tmp12ab")
    found = Seen(root, "tensorflow").paths(Part.TEMPORARY)
    assert found == {
        130: ["ckpt-130_temp"],
        140: ["ckpt-140.index.tempstate4711"],
        150: ["ckpt-150.data-00000-of-00001.part"],
        None: ["checkpoint.tmp12ab"],
    }


def test_a_graph_of_version_1_goes_with_its_step(root: Path) -> None:
    put(root / "ckpt-10.meta")
    assert "ckpt-10.meta" in Seen(root, "tensorflow").paths(Part.SIDECAR)[10]


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ('model_checkpoint_path: "ckpt-70"', 70),
        ('model_checkpoint_path: "/gone/elsewhere/ckpt-70"', 70),
        ("  model_checkpoint_path : 'ckpt-70'", None),
        ("model_checkpoint_path: 'ckpt-70'", 70),
        (r'model_checkpoint_path: "ckpt\05570"', 70),
    ],
)
def test_the_state_file_is_read_as_a_text_proto(root: Path, line: str, step: int | None) -> None:
    put(root / "checkpoint", f'{line}\nall_model_checkpoint_paths: "ckpt-10"\n')
    pointer = Seen(root, "tensorflow").pointers["checkpoint"]
    assert (pointer.step, pointer.state) == (step, PointerState.OK if step else PointerState.UNREADABLE)


def test_a_state_file_that_lists_thousands_is_read(root: Path) -> None:
    listed = "".join(f'all_model_checkpoint_paths: "ckpt-{number}"\n' for number in range(5000))
    put(root / "checkpoint", f'model_checkpoint_path: "ckpt-70"\n{listed}')
    assert Seen(root, "tensorflow").pick.step == 70


def test_tensorflow_takes_nothing_where_the_state_file_names_what_is_gone(root: Path) -> None:
    put(root / "checkpoint", 'model_checkpoint_path: "ckpt-999"')
    seen = Seen(root, "tensorflow")
    assert (seen.pointers["checkpoint"].step, seen.pointers["checkpoint"].state) == (999, PointerState.DANGLING)
    assert seen.pick is None


def test_older_and_kerass_ways_to_number_are_read(tmp_path: Path, root: Path) -> None:
    for prefix, step in (("model.ckpt-1000", 1000), ("cp-0007.ckpt", 7)):
        other = tmp_path / prefix
        other.mkdir()
        shutil.copy(root / "ckpt-10.index", other / f"{prefix}.index")
        shutil.copy(root / "ckpt-10.data-00000-of-00001", other / f"{prefix}.data-00000-of-00001")
        seen = Seen(other, "tensorflow")
        assert seen.steps == [step]
        assert seen.verdict(step).health is Health.WHOLE


def test_padded_numbers_outgrow_their_padding(tmp_path: Path, root: Path) -> None:
    for number in ("0999", "1000"):
        under(root, f"cp-{number}.ckpt")
    seen = Seen(root, "tensorflow")
    assert {999, 1000} <= set(seen.steps)


def test_one_number_under_two_paddings_is_a_collision(root: Path) -> None:
    under(root, "ckpt-010")
    assert "are both step 10" in Seen(root, "tensorflow").collision


def test_two_managers_of_other_steps_in_one_directory_are_a_question(root: Path) -> None:
    for number in (5, 7, 9):
        under(root, f"best-{number}")
    assert Seen(root, "tensorflow").collision


def test_without_its_index_no_moment_of_a_withdrawal_shows_a_checkpoint(root: Path) -> None:
    order = check_withdrawing(Seen(root, "tensorflow"), 10, lambda at: (at / "ckpt-10.index").exists())
    assert order == ["ckpt-10.index", "ckpt-10.data-00000-of-00001"]
