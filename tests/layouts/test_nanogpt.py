"""nanoGPT: one file, overwritten in place."""

from pathlib import Path

from prune.layouts.base import Part
from prune.layouts.detect import detect
from prune.model import Health
from prune.stores.local import LocalRoot
from tests.layouts.helpers import Seen
from tests.trees.stacks import cut, put, put_torch, put_torch_tensors


def test_the_step_is_the_iteration_in_the_file(tmp_path: Path) -> None:
    put_torch(tmp_path / "ckpt.pt", model={}, iter_num=2000, best_val_loss=1.5)
    put(tmp_path / "ckpt.pt.sha256", "")
    seen = Seen(tmp_path, "nanogpt")
    assert seen.paths() == {2000: ["ckpt.pt", "ckpt.pt.sha256"]}
    assert (seen.pick.step, seen.pick.path) == (2000, "ckpt.pt")
    assert seen.verdict(2000).health is Health.WHOLE


def test_an_iteration_saved_as_a_tensor_is_read_too(tmp_path: Path) -> None:
    put_torch_tensors(tmp_path / "ckpt.pt", iter_num=70_000)
    assert Seen(tmp_path, "nanogpt").steps == [70_000]


def test_a_file_that_was_cut_is_step_0_and_broken(tmp_path: Path) -> None:
    cut(put_torch(tmp_path / "ckpt.pt", iter_num=2000))
    seen = Seen(tmp_path, "nanogpt")
    assert seen.verdict(0).health is Health.BROKEN


def test_a_copy_being_made_is_a_temporary(tmp_path: Path) -> None:
    put(tmp_path / "ckpt.pt.part")
    assert list(Seen(tmp_path, "nanogpt").paths(Part.TEMPORARY).values()) == [["ckpt.pt.part"]]


def test_the_file_is_detected_by_what_it_holds(tmp_path: Path) -> None:
    put_torch(tmp_path / "ckpt.pt", iter_num=5)
    with LocalRoot(str(tmp_path)) as reader:
        assert detect(reader).layout.name == "nanogpt"
    put_torch(tmp_path / "ckpt.pt", weights={})
    with LocalRoot(str(tmp_path)) as reader:
        assert detect(reader).layout is None


def test_a_planted_program_is_read_as_data(tmp_path: Path) -> None:
    """The pickle would make a file if anything ran it."""

    class Planted:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            import os

            return os.system, (f"touch {tmp_path}/ran",)

    put_torch(tmp_path / "ckpt.pt", iter_num=3, planted=Planted())
    assert Seen(tmp_path, "nanogpt").steps == [3]
    assert not (tmp_path / "ran").exists()
