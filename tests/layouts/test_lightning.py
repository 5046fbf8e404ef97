import os
from pathlib import Path

import pytest

from prune.layouts.base import Part
from prune.model import Health, PointerState
from tests.layouts.helpers import Seen, claims, sketch
from tests.trees import stacks
from tests.trees.real import unpack

NEST = "lightning_logs/version_0/checkpoints"


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("epoch=0-step=10.ckpt", 10),
        ("epoch=0-step=10-v2.ckpt", 10),
        ("epoch=0-step=10.ckpt/", 10),
        ("best-epoch=1-step=40-val_loss=0.21.ckpt", 40),
        ("epoch=3-val_loss=0.20.ckpt", 3),
        ("step=000100.ckpt", 100),
    ],
)
def test_step_is_read_after_its_name_else_epoch(name: str, step: int) -> None:
    assert claims("lightning", name) == {name: (Part.PAYLOAD, step)}


@pytest.mark.parametrize(
    "name", ["model.ckpt", "substep=5.ckpt", "epoch=0-step=10.ckpt.bak", "step=1.5.ckpt", "epoch=0-step=10.pt"]
)
def test_names_without_a_step_are_foreign(name: str) -> None:
    assert claims("lightning", name) == {name: None}


@pytest.mark.parametrize("name", ["last.ckpt", "last-v1.ckpt", "lastgood.ckpt", "hpc_ckpt_3.ckpt", "on_exception.ckpt"])
def test_names_that_lightning_resumes_from_without_a_step_are_pointers(name: str) -> None:
    assert claims("lightning", name) == {name: (Part.POINTER, None)}


def test_versions_of_one_name_are_one_set_newest_first(tmp_path: Path) -> None:
    names = ["epoch=0-step=10.ckpt", "epoch=0-step=10-v1.ckpt", "epoch=0-step=10-v2.ckpt", "epoch=0-step=20.ckpt"]
    seen = Seen(sketch(tmp_path, *names), "lightning")
    assert seen.collision is None
    assert seen.members(10).paths == (names[2], names[1], names[0])
    assert seen.layout.load_path(seen.members(10).paths) == names[2]


def test_one_step_of_two_epochs_collides(tmp_path: Path) -> None:
    seen = Seen(sketch(tmp_path, "epoch=0-step=10.ckpt", "epoch=1-step=10.ckpt"), "lightning")
    assert seen.collision == "epoch=0-step=10.ckpt and epoch=1-step=10.ckpt are both step 10"


def test_a_second_callback_with_its_own_steps_is_a_question_for_a_person(tmp_path: Path) -> None:
    names = [f"epoch=0-step={n}.ckpt" for n in (10, 20, 30, 40)] + [f"best-step={n}.ckpt" for n in (15, 25)]
    assert Seen(sketch(tmp_path, *names), "lightning").collision is not None


def test_a_copy_tells_its_step_itself(tmp_path: Path) -> None:
    root = unpack("lightning_killed", tmp_path) / NEST
    (root / "epoch=0-step=20.ckpt").unlink()
    pointer = Seen(root, "lightning").pointers["last.ckpt"]
    assert (pointer.step, pointer.state) == (20, PointerState.OK)
    assert pointer.detail == "a copy of a step not here"


def test_a_copy_that_tells_nothing_is_known_by_size_and_time(tmp_path: Path) -> None:
    sketch(tmp_path, "epoch=0-step=10.ckpt", "last.ckpt", "last-v1.ckpt")
    status = (tmp_path / "epoch=0-step=10.ckpt").stat()
    os.utime(tmp_path / "last.ckpt", ns=(status.st_mtime_ns, status.st_mtime_ns))
    os.utime(tmp_path / "last-v1.ckpt", ns=(1, 1))
    pointers = Seen(tmp_path, "lightning").pointers
    assert pointers["last.ckpt"].step == 10
    assert (pointers["last-v1.ckpt"].step, pointers["last-v1.ckpt"].detail) == (
        None,
        "a copy that does not tell its step",
    )


def test_an_empty_copy_is_being_written(tmp_path: Path) -> None:
    sketch(tmp_path, "epoch=0-step=10.ckpt")
    (tmp_path / "last.ckpt").write_bytes(b"")
    assert Seen(tmp_path, "lightning").pointers["last.ckpt"].state is PointerState.UNREADABLE


def test_a_dangling_last_names_the_step_that_is_gone(tmp_path: Path) -> None:
    root = unpack("lightning_last_link", tmp_path) / NEST
    (root / "epoch=2-step=80.ckpt").unlink()
    seen = Seen(root, "lightning")
    pointer = seen.pointers["last.ckpt"]
    assert (pointer.step, pointer.state) == (80, PointerState.DANGLING)
    assert seen.pick is None


def test_the_last_written_latest_is_picked_by_the_time_of_what_a_link_leads_to(tmp_path: Path) -> None:
    sketch(tmp_path, "epoch=0-step=10.ckpt", "epoch=0-step=20.ckpt", "last-v1.ckpt")
    os.utime(tmp_path / "epoch=0-step=20.ckpt", ns=(2_000, 2_000))
    os.utime(tmp_path / "epoch=0-step=10.ckpt", ns=(3_000, 3_000))
    os.utime(tmp_path / "last-v1.ckpt", ns=(1_000, 1_000))
    (tmp_path / "last.ckpt").symlink_to("epoch=0-step=20.ckpt")
    pick = Seen(tmp_path, "lightning").pick
    assert pick is not None
    assert (pick.step, pick.path) == (20, "last.ckpt")


def test_a_requeued_job_takes_the_highest_hpc_checkpoint(tmp_path: Path) -> None:
    sketch(tmp_path, "epoch=0-step=10.ckpt", "last.ckpt", "hpc_ckpt_2.ckpt", "hpc_ckpt_10.ckpt")
    pick = Seen(tmp_path, "lightning").pick
    assert pick is not None
    assert pick.path == "hpc_ckpt_10.ckpt"


def test_without_a_last_lightning_starts_anew(tmp_path: Path) -> None:
    assert Seen(sketch(tmp_path, "epoch=0-step=10.ckpt"), "lightning").pick is None


def test_a_sharded_directory_without_its_last_file_did_not_finish(tmp_path: Path) -> None:
    real = unpack("dcp_sync", tmp_path)
    folder = tmp_path / "run" / "epoch=0-step=10.ckpt"
    folder.parent.mkdir()
    (real / "step-10").rename(folder)
    assert Seen(folder.parent, "lightning").verdict(10).detail == (
        "epoch=0-step=10.ckpt: meta.pt is missing: the save did not finish"
    )
    sketch(folder, "meta.pt")
    assert Seen(folder.parent, "lightning").verdict(10).health is Health.WHOLE


def test_a_deepspeed_directory_needs_its_latest(tmp_path: Path) -> None:
    sketch(tmp_path, "epoch=0-step=10.ckpt/checkpoint/mp_rank_00_model_states.pt")
    assert Seen(tmp_path, "lightning").verdict(10).health is Health.BROKEN
    (tmp_path / "epoch=0-step=10.ckpt" / "latest").write_text("checkpoint")
    assert Seen(tmp_path, "lightning").verdict(10).health is Health.WHOLE


def test_in_a_deepspeed_directory_every_ranks_part_must_be_there(tmp_path: Path) -> None:
    folder = tmp_path / "epoch=0-step=10.ckpt"
    stacks.deepspeed(folder, 10, tag="checkpoint")
    (folder / "latest").write_text("checkpoint")
    assert Seen(tmp_path, "lightning").verdict(10).health is Health.WHOLE
    (folder / "checkpoint" / "zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    verdict = Seen(tmp_path, "lightning").verdict(10)
    assert verdict.health is Health.BROKEN
    assert (verdict.detail or "").startswith("epoch=0-step=10.ckpt/checkpoint: ")


def test_metrics_stand_in_the_names(tmp_path: Path) -> None:
    seen = Seen(sketch(tmp_path, "epoch=1-step=40-val_loss=0.21-acc=9e-1.ckpt"), "lightning")
    assert seen.layout.metrics(seen.view) == {40: {"val_loss": 0.21, "acc": 0.9}}
