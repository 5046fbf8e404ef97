from pathlib import Path

import pytest

from prune.layouts.base import Part
from prune.model import Health, PointerState
from tests.layouts.helpers import Seen, claims, sketch


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step-100/", 100),
        ("step100/", 100),
        ("global_step_100/", 100),
        ("iter_0000100/", 100),
        ("epoch=3/", 3),
        ("checkpoint-5/", 5),
        ("llama7b-step-000400/", 400),
        ("000400/", 400),
    ],
)
def test_a_directory_with_a_step_word_or_a_bare_number_is_a_step(name: str, step: int) -> None:
    assert claims("step-dir", name) == {name: (Part.PAYLOAD, step)}


@pytest.mark.parametrize(
    "name",
    [
        "step-100", "version_3/", "run_1/", "exp7/", "fold_1/", "checkpoint-100-export/", "old-step-100-copy/",
        "step-final/", "notes/", ".step-100/", "step-1234567890123456789/", "step-100\n/",
    ],
)  # fmt: skip
def test_other_numbered_directories_and_files_are_foreign(name: str) -> None:
    assert claims("step-dir", name) == {name: None}


def test_staging_folders_are_temporaries_of_their_step(tmp_path: Path) -> None:
    names = ["step-000100/a.pt", "step-000200/a.pt", ".staging-000400/a.pt", "step-000600.part/a.pt", "tmp-step-700/"]
    seen = Seen(sketch(tmp_path, *names, "notes/x.txt", "step-final/a.pt"), "step-dir")
    assert seen.steps == [100, 200]
    assert seen.paths(Part.TEMPORARY) == {400: [".staging-000400"], 600: ["step-000600.part"], 700: ["tmp-step-700"]}
    assert seen.listing.foreign == 2


def test_bare_numbers_beside_named_steps_are_foreign(tmp_path: Path) -> None:
    seen = Seen(sketch(tmp_path, "step-10/a", "step-20/a", "2024/a", "2025/a"), "step-dir")
    assert (seen.steps, seen.collision, seen.listing.foreign) == ([10, 20], None, 2)


def test_padded_and_unpadded_names_of_one_step_collide(tmp_path: Path) -> None:
    seen = Seen(sketch(tmp_path, "step-10/a", "step-0010/a"), "step-dir")
    assert seen.collision == "step-0010 and step-10 are both step 10"


def test_an_empty_directory_is_broken_and_one_with_any_files_is_not(tmp_path: Path) -> None:
    seen = Seen(sketch(tmp_path, "step-10/", "step-20/notes.txt", "step-30/model.pt"), "step-dir")
    assert seen.verdict(10).health is Health.BROKEN
    assert "holds no file" in (seen.verdict(10).detail or "")
    assert seen.verdict(20).health is Health.UNVERIFIED
    assert seen.verdict(30).health is Health.WHOLE


def test_a_text_file_latest_names_a_directory(tmp_path: Path) -> None:
    sketch(tmp_path, "step-000600/a.pt", "step-000700/a.pt")
    (tmp_path / "latest").write_text("step-000600")
    pointer = Seen(tmp_path, "step-dir").pointers["latest"]
    assert (pointer.step, pointer.state) == (600, PointerState.OK)


def test_a_link_to_a_file_in_a_step_points_at_the_step(tmp_path: Path) -> None:
    sketch(tmp_path, "step-10/model.pt")
    (tmp_path / "model.pt").symlink_to("step-10/model.pt")
    assert Seen(tmp_path, "step-dir").pointers["model.pt"].step == 10
