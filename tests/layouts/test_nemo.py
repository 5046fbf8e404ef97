"""NeMo 2, on directories built as its source names and marks them, with shards that torch wrote."""

import os
import shutil
from pathlib import Path

import pytest

from prune import layouts
from prune.layouts.base import Part
from prune.layouts.detect import detect
from prune.model import Health
from prune.stores.local import LocalRoot
from tests.layouts.helpers import Seen
from tests.layouts.withdrawing import check_withdrawing
from tests.trees.stacks import nemo, put


def named(step: int, loss: str, end: str = "") -> str:
    return f"gpt--val_loss={loss}-step={step}-consumed_samples={8 * step}.0{end}"


NAMES = {10: named(10, "2.50"), 20: named(20, "1.75"), 30: named(30, "2.00")}
LAST = named(30, "2.00", "-last")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "checkpoints"
    for name in (*NAMES.values(), LAST):
        nemo(root, name)
    return root


def finished(root: Path, name: str) -> bool:
    """NeMo's own test: no marker, and what Megatron needs."""
    return not (root / f"{name}-unfinished").exists() and (root / name / "weights" / "metadata.json").exists()


def test_a_step_is_all_directories_of_its_number(root: Path) -> None:
    seen = Seen(root, "nemo")
    assert seen.paths() == {10: [NAMES[10]], 20: [NAMES[20]], 30: sorted([NAMES[30], LAST])}
    assert seen.collision is None
    assert {seen.verdict(step).health for step in seen.steps} == {Health.WHOLE}


def test_a_marker_beside_it_makes_a_whole_looking_directory_broken(root: Path) -> None:
    put(root / f"{NAMES[20]}-unfinished", b"")
    seen = Seen(root, "nemo")
    assert seen.paths(Part.SIDECAR) == {20: [f"{NAMES[20]}-unfinished"]}
    assert seen.verdict(20).health is Health.BROKEN
    assert "-unfinished" in seen.verdict(20).detail


def test_a_marker_whose_checkpoint_is_gone_is_a_leftover(root: Path) -> None:
    shutil.rmtree(root / NAMES[10])
    put(root / f"{NAMES[10]}-unfinished", b"")
    seen = Seen(root, "nemo")
    assert seen.paths(Part.TEMPORARY) == {10: [f"{NAMES[10]}-unfinished"]}
    assert seen.steps == [20, 30]


def test_a_checkpoint_without_weights_is_broken(root: Path) -> None:
    shutil.rmtree(root / NAMES[10] / "weights")
    assert "no weights in it" in Seen(root, "nemo").verdict(10).detail


def test_weights_that_were_not_finalised_are_broken(root: Path) -> None:
    (root / NAMES[10] / "weights" / ".metadata").unlink()
    assert Seen(root, "nemo").verdict(10).health is Health.BROKEN


def test_one_damaged_twin_breaks_the_step(root: Path) -> None:
    (root / LAST / "weights" / ".metadata").unlink()
    assert Seen(root, "nemo").verdict(30).health is Health.BROKEN


def test_a_strange_directory_of_such_a_name_is_foreign(root: Path) -> None:
    put(root / "plots-step=40" / "loss.png")
    seen = Seen(root, "nemo")
    assert seen.steps == [10, 20, 30]
    assert seen.listing.foreign == 1


def test_an_empty_directory_of_such_a_name_is_a_save_that_had_just_begun(root: Path) -> None:
    (root / named(40, "1.50")).mkdir()
    assert Seen(root, "nemo").verdict(40).health is Health.BROKEN


def test_nemo_resumes_from_the_newest_unmarked_last(root: Path) -> None:
    older, newer = nemo(root, named(20, "1.75", "-last")), root / LAST
    os.utime(older, (2_000_000_000, 2_000_000_000))
    os.utime(newer, (1_900_000_000, 1_900_000_000))
    assert Seen(root, "nemo").pick.path == older.name
    put(root / f"{older.name}-unfinished", b"")
    assert Seen(root, "nemo").pick.path == LAST


def test_a_last_that_is_a_link_is_followed(root: Path) -> None:
    shutil.rmtree(root / LAST)
    (root / LAST).symlink_to(NAMES[30])
    seen = Seen(root, "nemo")
    assert (seen.pick.step, seen.pick.path) == (30, LAST)
    assert seen.pointers[LAST].step == 30
    assert seen.paths()[30] == [NAMES[30]]


def test_without_a_last_nemo_starts_anew(root: Path) -> None:
    shutil.rmtree(root / LAST)
    assert Seen(root, "nemo").pick is None


def test_the_monitored_value_is_read_from_the_name(root: Path) -> None:
    seen = Seen(root, "nemo")
    assert seen.layout.metrics(seen.view)[20] == {"val_loss": 1.75}


def test_two_runs_in_one_place_collide(root: Path) -> None:
    nemo(root, named(20, "3.25"))
    assert "are both step 20" in Seen(root, "nemo").collision


def test_a_second_version_of_a_step_does_not_collide(root: Path) -> None:
    nemo(root, named(20, "1.75", "-v1"))
    assert Seen(root, "nemo").collision is None


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("default--val_loss=0.00-epoch=3-consumed_samples=400", 400),
        ("m--val_loss=0.10-epoch=3", 3),
        ("m--global_step=7-val_loss=nan", 7),
        ("epoch=1-step=19", 19),
    ],
)
def test_the_counter_is_the_first_of_those_a_template_has(tmp_path: Path, name: str, step: int) -> None:
    nemo(tmp_path, name)
    assert Seen(tmp_path, "nemo").steps == [step]


def test_markers_are_withdrawn_last(root: Path) -> None:
    seen = Seen(root, "nemo")
    order = check_withdrawing(seen, 30, lambda at: finished(at, NAMES[30]) and finished(at, LAST))
    assert order == [NAMES[30], LAST]
    marked = f"{NAMES[10]}-unfinished"
    assert layouts.get("nemo").withdraw_order([marked, NAMES[10]]) == [NAMES[10], marked]


def test_nothing_of_ours_may_stand_among_the_checkpoints(root: Path) -> None:
    with LocalRoot(str(root)) as reader:
        found = detect(reader).layout
    assert (found.name, found.reads_every_entry) == ("nemo", True)
