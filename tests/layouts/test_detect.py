import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from prune import layouts
from prune.layouts import detect as detecting
from prune.layouts.base import Entry, Kind
from prune.layouts.detect import Detection, find_places
from prune.stores.local import LocalRoot
from tests.layouts.helpers import sketch


def detect(root: Path) -> Detection:
    with LocalRoot(str(root)) as reader:
        return detecting.detect(reader)


def found(root: Path) -> tuple[str | None, str]:
    detection = detect(root)
    return detection.layout.name if detection.layout else None, detection.base


def test_an_empty_root_says_so_and_our_own_folder_does_not_count(tmp_path: Path) -> None:
    sketch(tmp_path, ".prune/volume.json")
    assert detect(tmp_path) == Detection(None, "", "empty")


def test_where_nothing_fits_the_names_that_are_there_are_told(tmp_path: Path) -> None:
    sketch(tmp_path, *(f"log_{n}.txt" for n in range(9)), "notes", "data/", "caf\udce9")
    detection = detect(tmp_path)
    assert detection.layout is None
    assert detection.why.startswith("nothing in it is named like a checkpoint; seen: log_")
    assert "(and 8 alike)" in detection.why
    assert "data/" in detection.why
    assert detection.why.isprintable()


@pytest.mark.parametrize(
    ("inside", "layout"),
    [
        ("trainer_state.json", "hf-trainer"),
        ("random_states_0.pkl", "accelerate"),
        (".metadata", "dcp"),
        ("model/__0_0.distcp", "dcp"),
        ("anything.bin", "step-dir"),
    ],
)
def test_one_name_of_a_step_is_told_apart_by_what_lies_in_it(inside: str, layout: str, tmp_path: Path) -> None:
    assert found(sketch(tmp_path, f"checkpoint-10/{inside}", "checkpoint-20/")) == (layout, "")


def test_bare_numbers_are_orbax_only_with_its_files_and_else_nothing(tmp_path: Path) -> None:
    assert found(sketch(tmp_path / "a", "10/default/_METADATA", "20/default/_METADATA")) == ("orbax", "")
    assert found(sketch(tmp_path / "b", "2024/report.txt", "2025/report.txt")) == (None, "")


def test_what_somebody_named_alike_beside_a_stacks_own_folder_is_not_taken_for_the_run(tmp_path: Path) -> None:
    stack = [f"checkpoints/checkpoint_{n}/random_states_0.pkl" for n in (1, 2)]
    root = sketch(tmp_path, *stack, *(f"embeddings_epoch{n}.npy" for n in range(9)))

    detection = detect(root)

    assert detection.layout is None
    assert detection.rivals == ("step-file", "accelerate")
    assert "(in checkpoints)" in detection.why
    with LocalRoot(str(root)) as reader:
        assert find_places(reader, layouts.get("accelerate")).bases == ("checkpoints",)


def test_a_folder_for_checkpoints_that_no_stack_of_its_own_filled_does_not_matter(tmp_path: Path) -> None:
    root = sketch(tmp_path, "step_10.pt", "step_20.pt", "models/notes.txt", "weights/final.bin", "checkpoints/")
    assert found(root) == ("step-file", "")


def test_files_and_directories_of_steps_side_by_side_fit_two_layouts(tmp_path: Path) -> None:
    detection = detect(sketch(tmp_path, "step_10.pt", "step_20.pt", "epoch_1/x", "epoch_2/x"))
    assert detection.layout is None
    assert detection.rivals == ("step-dir", "step-file")
    assert "fit alike" in detection.why


def test_one_nested_directory_of_checkpoints_is_found(tmp_path: Path) -> None:
    sketch(tmp_path, "logs/a.txt", "out/checkpoints/step_10.pt", "out/checkpoints/step_20.pt")
    assert found(tmp_path) == ("step-file", "out/checkpoints")


def test_several_nested_directories_are_a_question_for_a_person(tmp_path: Path) -> None:
    for version in (0, 1):
        sketch(tmp_path, f"lightning_logs/version_{version}/checkpoints/epoch=0-step=10.ckpt")
    detection = detect(tmp_path)
    assert detection.layout is None
    places = {base: layout and layout.name for base, layout in detection.places.items()}
    assert places == {f"lightning_logs/version_{version}/checkpoints": "lightning" for version in (0, 1)}


def test_what_lies_in_a_step_of_a_run_below_is_no_run_of_its_own(tmp_path: Path) -> None:
    for step in (10, 20):
        sketch(tmp_path, f"runs/a/checkpoint-{step}/trainer_state.json")
        sketch(tmp_path, f"runs/a/checkpoint-{step}/pytorch_model_fsdp_0/.metadata")
        sketch(tmp_path, f"runs/a/checkpoint-{step}/global_step{step}/mp_rank_00_model_states.pt")
    assert found(tmp_path) == ("hf-trainer", "runs/a")
    assert bases(tmp_path, "hf-trainer") == ("runs/a",)


def test_plain_numbered_files_count_below_the_root_only_where_checkpoints_are_expected(tmp_path: Path) -> None:
    sketch(tmp_path, "notebooks/figure_1.npz", "notebooks/figure_2.npz")
    assert found(tmp_path) == (None, "")


def test_hidden_folders_and_links_are_not_searched(tmp_path: Path) -> None:
    sketch(tmp_path / "elsewhere", "checkpoints/step_10.pt")
    root = sketch(tmp_path / "root", ".cache/checkpoints/step_10.pt", "notes")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    assert found(root) == (None, "")


def test_folders_deeper_than_four_are_not_searched(tmp_path: Path) -> None:
    assert found(sketch(tmp_path / "a", "1/2/3/checkpoints/step_10.pt")) == ("step-file", "1/2/3/checkpoints")
    assert found(sketch(tmp_path / "b", "1/2/3/4/checkpoints/step_10.pt")) == (None, "")


def test_a_search_that_was_cut_short_is_sure_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sketch(tmp_path, "a/checkpoints/step_10.pt", *(f"b/folder{n}/x" for n in range(9)))
    assert found(tmp_path) == ("step-file", "a/checkpoints")
    monkeypatch.setattr(detecting, "FOLDERS", 5)
    detection = detect(tmp_path)
    assert detection.layout is None
    assert "only 5 folders" in detection.why
    assert set(detection.places) == {"a/checkpoints"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list anything")
def test_a_folder_that_cannot_be_listed_leaves_the_search_unsure(tmp_path: Path) -> None:
    sketch(tmp_path, "a/checkpoints/step_10.pt", "b/x")
    (tmp_path / "b").chmod(0)
    assert "b could not be listed" in detect(tmp_path).why


def test_a_root_that_cannot_be_listed_is_an_error_not_an_empty_one() -> None:
    class Failing:
        root = "/nowhere"

        def scan(self, path: str = "") -> Iterator[Entry]:
            yield Entry("step_10.pt", Kind.FILE)
            raise OSError(5, "Input/output error", path)

    with pytest.raises(OSError, match="Input/output"):
        detecting.detect(Failing())  # type: ignore[arg-type]


def test_random_names_do_not_fill_memory_and_do_not_hide_the_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detecting, "SHAPES", 8)
    letters = (f"{a}{b}.txt" for a in "abcdefgh" for b in "abcdefgh")
    assert found(sketch(tmp_path, *letters, *(f"step_{n}.pt" for n in range(40)))) == ("step-file", "")


def bases(root: Path, layout: str) -> tuple[str, ...]:
    with LocalRoot(str(root)) as reader:
        return find_places(reader, layouts.get(layout)).bases


def test_the_places_of_a_named_layout_are_the_root_or_folders_in_it(tmp_path: Path) -> None:
    sketch(tmp_path, "lightning_logs/version_0/checkpoints/epoch=0-step=10.ckpt")
    assert bases(tmp_path, "lightning") == ("lightning_logs/version_0/checkpoints",)
    assert bases(tmp_path, "hf-trainer") == ()
    sketch(tmp_path, "lightning_logs/version_1/checkpoints/epoch=0-step=10.ckpt")
    assert len(bases(tmp_path, "lightning")) == 2
    sketch(tmp_path, "epoch=0-step=10.ckpt")
    assert bases(tmp_path, "lightning") == ("",)


def test_a_root_that_holds_only_a_save_in_flight_is_known_already(tmp_path: Path) -> None:
    assert found(sketch(tmp_path, "30.orbax-checkpoint-tmp/default/x")) == ("orbax", "")
