import os
from pathlib import Path

import pytest

from prune.layouts.base import Part
from prune.model import Kind, PointerState
from tests.layouts.helpers import Seen, claims, sketch
from tests.trees.build import age


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step_0810.pt", 810),
        ("step_810.pt", 810),
        ("model-10.safetensors", 10),
        ("epoch12.ckpt", 12),
        ("weights.03.weights.h5", 3),
        ("llama7b_step_100.pth", 100),
        ("10000.npz", 10000),
        ("s7.bin", 7),
        ("model_epoch3_step100.pt", 100),
        ("checkpoint_5.pth.tar", 5),
        ("step=100-val_loss=0.21.ckpt", 100),
        ("step_999999999999999999.pt", 999_999_999_999_999_999),
        ("a\nb_10.pt", 10),
        ("caf\udce9_10.pt", 10),
    ],
)
def test_a_prefix_a_number_and_a_known_extension_are_a_step(name: str, step: int) -> None:
    assert claims("step-file", name) == {name: (Part.PAYLOAD, step)}


@pytest.mark.parametrize(
    "name",
    [
        "old-step-100-copy",
        "step-100.bak",
        "step_100.pt.bak",
        "best.pt",
        "config.json",
        "train_100.log",
        "step_.pt",
        "step_10.pt\n",
        "\nstep_10.pt.txt",
        ".step_10.pt",
        "step_1234567890123456789.pt",
        "step_١٠.pt",
        "model-00001-of-00005.safetensors",
        "rank_0.pt",
        "model_v2.pt",
        "fold3.pkl",
        "model_lr1e-05.pt",
        "step_100_loss_0.21.pt",
        "a1b2c3.bin",
        "step_10.PT",
    ],
)
def test_a_name_that_merely_holds_a_number_is_foreign(name: str) -> None:
    assert claims("step-file", name) == {name: None}


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step_0060.pt.part", 60),
        ("step_60.pt.tmp", 60),
        ("step_60.pt.tmp.x1Y2", 60),
        ("step_60.pt.staging", 60),
        ("step_60.pt.atomic_tmp", 60),
        ("step_60.pt.0a1b2c3d.partial", 60),
        (".step_60.pt.Ab12Cd", 60),
        ("tmp-step_60.pt", 60),
        (".tmpX1y2Z3", None),
    ],
)
def test_names_of_unfinished_writes_are_temporaries(name: str, step: int | None) -> None:
    assert claims("step-file", name) == {name: (Part.TEMPORARY, step)}


@pytest.mark.parametrize("name", [".step_60.pt.backup", ".step_60.pt.sha256", ".tmpdir", "notes.tmp", "best.pt.part"])
def test_names_that_only_look_like_temporaries_are_foreign(name: str) -> None:
    assert claims("step-file", name) == {name: None}


def test_a_checksum_file_goes_with_its_payload_and_is_withdrawn_after_it(tmp_path: Path) -> None:
    seen = Seen(sketch(tmp_path, "step_10.pt", "step_10.pt.sha256", "step_10.pt.md5", "step_20.pt"), "step-file")
    assert seen.paths() == {10: ["step_10.pt", "step_10.pt.sha256"], 20: ["step_20.pt"]}
    assert seen.members(10).paths == ("step_10.pt", "step_10.pt.sha256")
    assert seen.listing.foreign == 1


def test_two_spellings_of_one_step_collide(tmp_path: Path) -> None:
    seen = Seen(sketch(tmp_path, "step_10.pt", "step_0010.pt", "step_20.pt"), "step-file")
    assert seen.collision == "step_0010.pt and step_10.pt are both step 10"


def test_one_step_of_two_epochs_collides(tmp_path: Path) -> None:
    seen = Seen(sketch(tmp_path, "m_epoch1_step5.pt", "m_epoch2_step5.pt", "m_epoch2_step9.pt"), "step-file")
    assert seen.collision == "m_epoch1_step5.pt and m_epoch2_step5.pt are both step 5"


def test_series_with_the_same_steps_are_one_set_of_files_per_step(tmp_path: Path) -> None:
    seen = Seen(sketch(tmp_path, *(f"{what}_{n}.pt" for what in ("model", "optim") for n in (10, 20, 30))), "step-file")
    assert seen.paths()[20] == ["model_20.pt", "optim_20.pt"]
    assert seen.collision is None


def test_a_set_whose_newest_step_is_half_saved_is_still_a_set(tmp_path: Path) -> None:
    names = ["model_10.pt", "optim_10.pt", "model_20.pt", "optim_20.pt", "model_30.pt"]
    seen = Seen(sketch(tmp_path, *names), "step-file")
    assert seen.collision is None
    assert seen.paths()[30] == ["model_30.pt"]


def test_a_lone_stranger_beside_a_series_is_foreign(tmp_path: Path) -> None:
    seen = Seen(sketch(tmp_path, "step_10.pt", "step_20.pt", "best_7.pt", "best_7.pt.part", ".tmpX1y2Z3"), "step-file")
    assert seen.steps == [10, 20]
    assert seen.listing.foreign == 2
    assert seen.paths(Part.TEMPORARY) == {None: [".tmpX1y2Z3"]}


def test_two_series_that_go_their_own_ways_are_a_question_for_a_person(tmp_path: Path) -> None:
    seen = Seen(sketch(tmp_path, "epoch_1.pt", "epoch_2.pt", "step_100.pt", "step_200.pt"), "step-file")
    assert seen.collision == (
        "epoch_1.pt and step_100.pt belong to different series of names, and nothing tells which one is the run's"
    )


def test_a_lone_first_save_beside_another_number_is_a_question_too(tmp_path: Path) -> None:
    assert Seen(sketch(tmp_path, "step_10.pt", "best_7.pt"), "step-file").collision is not None


def test_numbers_are_compared_as_numbers(tmp_path: Path) -> None:
    seen = Seen(sketch(tmp_path, "step_9.pt", "step_10.pt", "step_1010.pt", "step_990.pt"), "step-file")
    assert seen.steps == [9, 10, 990, 1010]
    assert seen.pick is not None
    assert seen.pick.path == "step_1010.pt"


def test_directories_links_and_pipes_under_a_step_name_are_claimed_with_their_kind(tmp_path: Path) -> None:
    sketch(tmp_path, "step_10.pt/", "step_30.pt")
    (tmp_path / "step_20.pt").symlink_to("step_30.pt")
    os.mkfifo(tmp_path / "step_40.pt")
    kinds = {claim.step: claim.kind for claim in Seen(tmp_path, "step-file").view.claims}
    assert kinds == {10: Kind.DIR, 20: Kind.LINK, 30: Kind.FILE, 40: Kind.OTHER}


def test_any_link_that_leads_to_a_step_is_a_pointer_and_others_are_foreign(tmp_path: Path) -> None:
    sketch(tmp_path, "step_10.pt", "step_20.pt", "data.txt")
    (tmp_path / "best.pt").symlink_to("step_10.pt")
    (tmp_path / "latest").symlink_to("best.pt")
    (tmp_path / "gone.pt").symlink_to("step_5.pt")
    (tmp_path / "abroad.pt").symlink_to("/elsewhere/run/step_20.pt")
    (tmp_path / "absolute.pt").symlink_to(tmp_path / "step_20.pt")
    (tmp_path / "notes").symlink_to("data.txt")
    seen = Seen(tmp_path, "step-file")
    assert {path: pointer.step for path, pointer in seen.pointers.items()} == {
        "best.pt": 10, "latest": 10, "gone.pt": 5, "abroad.pt": 20, "absolute.pt": 20,
    }  # fmt: skip
    assert seen.pointers["gone.pt"].state is PointerState.DANGLING
    assert seen.pointers["best.pt"].state is PointerState.OK
    assert seen.listing.foreign == 2


def test_links_in_a_circle_cannot_be_read(tmp_path: Path) -> None:
    sketch(tmp_path, "step_10.pt")
    (tmp_path / "latest").symlink_to("last")
    (tmp_path / "last").symlink_to("latest")
    assert Seen(tmp_path, "step-file").pointers["latest"].state is PointerState.UNREADABLE


@pytest.mark.parametrize("text", ["step_20.pt\n", "/data/run/step_20.pt", "20", "step_20"])
def test_a_text_pointer_names_a_step_by_name_path_or_number(text: str, tmp_path: Path) -> None:
    sketch(tmp_path, "step_10.pt", "step_20.pt")
    (tmp_path / "latest").write_text(text)
    pointer = Seen(tmp_path, "step-file").pointers["latest"]
    assert (pointer.step, pointer.state) == (20, PointerState.OK)


def test_a_text_pointer_to_a_step_that_is_gone_dangles(tmp_path: Path) -> None:
    sketch(tmp_path, "step_10.pt")
    (tmp_path / "latest.txt").write_text("step_20.pt")
    pointer = Seen(tmp_path, "step-file").pointers["latest.txt"]
    assert (pointer.step, pointer.state) == (20, PointerState.DANGLING)


@pytest.mark.parametrize("content", [b"", b"nothing of use", b"\xff\xfe"])
def test_a_text_pointer_that_tells_nothing_now_is_unreadable(content: bytes, tmp_path: Path) -> None:
    sketch(tmp_path, "step_10.pt")
    (tmp_path / "latest").write_bytes(content)
    assert Seen(tmp_path, "step-file").pointers["latest"].state is PointerState.UNREADABLE


def test_a_text_pointer_empty_for_long_is_no_reason_to_wait(tmp_path: Path) -> None:
    sketch(tmp_path, "step_10.pt")
    (tmp_path / "latest").write_bytes(b"")
    age(tmp_path / "latest", 3600)
    assert Seen(tmp_path, "step-file").pointers["latest"].state is PointerState.DANGLING


def test_metrics_come_from_names_and_from_a_file_beside(tmp_path: Path) -> None:
    sketch(tmp_path, "step=10-val_loss=0.5.pt", "step=20-val_loss=0.25.pt")
    (tmp_path / "metrics.json").write_text('{"10": {"acc": 0.9, "ok": true, "name": "x"}, "x": {"acc": 1}}')
    seen = Seen(tmp_path, "step-file")
    assert seen.layout.metrics(seen.view) == {10: {"val_loss": 0.5, "acc": 0.9}, 20: {"val_loss": 0.25}}


def test_metrics_may_be_rows_with_a_step(tmp_path: Path) -> None:
    sketch(tmp_path, "step_10.pt", "step_20.pt")
    (tmp_path / "metrics.json").write_text('[{"step": 10, "loss": NaN}, {"step": 20, "loss": 1}, {"loss": 3}, 4]')
    seen = Seen(tmp_path, "step-file")
    found = seen.layout.metrics(seen.view)
    assert found[20] == {"loss": 1.0}
    assert str(found[10]["loss"]) == "nan"


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '"text"', "\x00"])
def test_metrics_that_cannot_be_parsed_are_no_metrics(text: str, tmp_path: Path) -> None:
    sketch(tmp_path, "step_10.pt")
    (tmp_path / "metrics.json").write_text(text)
    seen = Seen(tmp_path, "step-file")
    assert seen.layout.metrics(seen.view) == {}
