"""Ray Train, on its real tree, on snapshots changed as other releases write them, and on v1's names."""

import json
import shutil
from pathlib import Path

import pytest

from prune.layouts import ray_snapshot as ray_results
from prune.layouts.base import Part
from prune.model import Health, PointerState
from tests.layouts.helpers import Seen
from tests.trees.build import age
from tests.trees.real import EXPECTED, unpack
from tests.trees.stacks import put, put_torch, ray_snapshot

SNAPSHOT = "checkpoint_manager_snapshot.json"
NAMES = [EXPECTED["ray_train"]["units"][str(index)][0] for index in range(6)]
TIMES = [1795970304467664, 1795970304496607]  # of the first two names, in microseconds


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpack("ray_train", tmp_path)


def change(root: Path, **fields: object) -> None:
    document = json.loads((root / SNAPSHOT).read_text())
    document.update(fields)
    put(root / SNAPSHOT, json.dumps({key: value for key, value in document.items() if value is not ...}))


def test_steps_are_report_indices_and_stay_when_older_ones_go(root: Path) -> None:
    kept = json.loads((root / SNAPSHOT).read_text())
    rows = [row for row in kept["checkpoint_results"] if row["checkpoint_dir_name"] not in NAMES[:3]]
    for name in NAMES[:3]:
        shutil.rmtree(root / name)
    change(root, checkpoint_results=rows, checkpoint_report_indices=[5, 4, 3])
    seen = Seen(root, "ray-train")
    assert seen.paths() == {3: [NAMES[3]], 4: [NAMES[4]], 5: [NAMES[5]]}


def test_everything_that_the_snapshot_lists_is_referenced(root: Path) -> None:
    seen = Seen(root, "ray-train")
    assert sorted(seen.layout.referenced(seen.view)) == [0, 1, 2, 3, 4, 5]
    assert "Ray does not start" in seen.layout.referenced(seen.view)[0]


def test_metrics_and_the_best_are_the_snapshots(root: Path) -> None:
    seen = Seen(root, "ray-train")
    assert seen.layout.metrics(seen.view)[2] == {"it": 2.0, "loss": 0.2753292918205261}
    assert seen.layout.best_recorded(seen.view) == 2


def test_without_a_score_there_is_no_best(root: Path) -> None:
    rows = json.loads((root / SNAPSHOT).read_text())["checkpoint_results"]
    rows.sort(key=lambda row: row["checkpoint_dir_name"])
    change(root, checkpoint_results=rows, checkpoint_report_indices=[0, 1, 2, 3, 4, 5])
    seen = Seen(root, "ray-train")
    assert seen.layout.best_recorded(seen.view) is None


def test_the_time_in_the_name_numbers_what_an_older_release_lists(root: Path) -> None:
    change(root, checkpoint_report_indices=...)
    seen = Seen(root, "ray-train")
    assert seen.steps[:2] == TIMES
    assert seen.pick.step == seen.steps[-1]


def test_without_a_snapshot_the_time_in_the_name_orders_and_nothing_is_referenced(root: Path) -> None:
    (root / SNAPSHOT).unlink()
    seen = Seen(root, "ray-train")
    assert seen.steps[:2] == TIMES
    assert len(seen.steps) == 6
    assert not seen.layout.referenced(seen.view)
    assert seen.pick is None


def test_a_mirror_without_its_snapshot_yet_numbers_as_the_primary_does(root: Path, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    shutil.copytree(root, mirror)
    (mirror / SNAPSHOT).unlink()
    primary = Seen(root, "ray-train")
    assert Seen(mirror, primary.layout).paths() == primary.paths()


def test_a_mirror_with_an_older_snapshot_numbers_as_the_primary_does(root: Path, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    shutil.copytree(root, mirror)
    rows = json.loads((root / SNAPSHOT).read_text())["checkpoint_results"]
    kept = [row for row in rows if row["checkpoint_dir_name"] in NAMES[:2]]
    change(mirror, checkpoint_results=kept, checkpoint_report_indices=[0, 1], latest_checkpoint_result=kept[0])
    primary = Seen(root, "ray-train")
    assert Seen(mirror, primary.layout).paths() == primary.paths()


def test_on_the_primary_its_own_snapshot_alone_decides(root: Path) -> None:
    first = Seen(root, "ray-train")
    rows = json.loads((root / SNAPSHOT).read_text())["checkpoint_results"]
    dropped = [row for row in rows if row["checkpoint_dir_name"] != NAMES[0]]
    change(root, checkpoint_results=dropped, checkpoint_report_indices=[5, 4, 1, 3, 2])
    assert Seen(root, first.layout).steps == [1, 2, 3, 4, 5]


def test_two_directories_of_one_index_collide(tmp_path: Path) -> None:
    put_torch(tmp_path / "checkpoint_000003" / "state.pt")
    put_torch(tmp_path / NAMES[3] / "state.pt")
    ray_snapshot(tmp_path, [NAMES[3]], indices=[3])
    assert "are both step 3" in Seen(tmp_path, "ray-train").collision


@pytest.mark.parametrize("text", ["{", "[]", '{"checkpoint_results": 3}', '{"checkpoint_results": [{"x": 1}]}', "\xff"])
def test_a_snapshot_that_cannot_be_read_is_an_unreadable_pointer(root: Path, text: str) -> None:
    put(root / SNAPSHOT, text.encode("latin-1"))
    seen = Seen(root, "ray-train")
    assert seen.pointers[SNAPSHOT].state is PointerState.UNREADABLE
    assert not seen.paths(Part.TEMPORARY)


def test_a_listed_checkpoint_that_is_gone_is_said_before_ray_says_it(root: Path) -> None:
    shutil.rmtree(root / NAMES[3])
    pointer = Seen(root, "ray-train").pointers[SNAPSHOT]
    assert pointer.state is PointerState.DANGLING
    assert NAMES[3] in pointer.detail


def test_an_unlisted_directory_from_before_the_snapshot_was_given_up(root: Path) -> None:
    dead = "checkpoint_2026-11-29_16-38-30.000001"
    put_torch(root / dead / "state.pt")
    age(root / dead, 7200)
    put(root / SNAPSHOT, (root / SNAPSHOT).read_text())
    seen = Seen(root, "ray-train")
    assert seen.paths(Part.TEMPORARY) == {None: [dead]}
    assert seen.steps == [0, 1, 2, 3, 4, 5]


def test_an_unlisted_directory_newer_than_the_snapshot_may_yet_be_listed(root: Path) -> None:
    age(root / SNAPSHOT, 7200)
    put_torch(root / "checkpoint_2026-11-29_16-39-00.000001" / "state.pt")
    seen = Seen(root, "ray-train")
    assert not seen.paths(Part.TEMPORARY)
    assert seen.steps == [0, 1, 2, 3, 4, 5]


def test_checkpoints_that_a_script_named_are_known_by_the_snapshot(tmp_path: Path) -> None:
    for name in ("first", "second", "plots"):
        put_torch(tmp_path / name / "state.pt")
    ray_snapshot(tmp_path, ["first", "second"], indices=[3, 4])
    seen = Seen(tmp_path, "ray-train")
    assert seen.paths() == {3: ["first"], 4: ["second"]}
    assert seen.listing.foreign == 1


@pytest.mark.parametrize(
    "name", ["checkpoint_2026-13-29_16-38-24.467664", "checkpoint_2026-11-29_16-38-24", "checkpoint_x"]
)
def test_a_name_without_a_real_time_is_no_checkpoint(tmp_path: Path, name: str) -> None:
    put_torch(tmp_path / name / "state.pt")
    assert Seen(tmp_path, "ray-train").steps == []


@pytest.mark.parametrize("name", ["../outside", "", "a/b", "."])
def test_a_snapshot_that_lists_what_is_no_name_is_unreadable(tmp_path: Path, name: str) -> None:
    ray_snapshot(tmp_path, [name])
    assert Seen(tmp_path, "ray-train").pointers[SNAPSHOT].state is PointerState.UNREADABLE


def test_v1_counts_in_the_name_and_keeps_metrics_in_tunes_results(tmp_path: Path) -> None:
    for index in (7, 8):
        put_torch(tmp_path / f"checkpoint_{index:06d}" / "state.pt")
    row = {"checkpoint_dir_name": "checkpoint_000008", "loss": 0.5, "done": False}
    put(tmp_path / "result.json", f'{{"checkpoint_dir_name": null}}\n{json.dumps(row)}\n{{"half')
    seen = Seen(tmp_path, "ray-train")
    assert seen.steps == [7, 8]
    assert (seen.pick.step, seen.pick.how) == (8, "last reported in result.json")
    assert seen.layout.metrics(seen.view) == {8: {"loss": 0.5}}
    assert not seen.layout.referenced(seen.view)


def reported(root: Path, *indices: int) -> None:
    rows = (json.dumps({"checkpoint_dir_name": f"checkpoint_{index:06d}"}) for index in indices)
    put(root / "result.json", "".join(f"{row}\n" for row in rows))


def test_v1_restores_the_last_that_was_reported_not_what_a_dead_worker_left_under_a_higher_number(
    tmp_path: Path,
) -> None:
    for index in (7, 8, 9):
        put_torch(tmp_path / f"checkpoint_{index:06d}" / "state.pt")
    reported(tmp_path, 7, 8)
    assert Seen(tmp_path, "ray-train").pick.step == 8


def test_v1_what_was_reported_again_after_a_restore_counts_by_its_last_report(tmp_path: Path) -> None:
    for index in (7, 8):
        put_torch(tmp_path / f"checkpoint_{index:06d}" / "state.pt")
    reported(tmp_path, 7, 8, 7)
    assert Seen(tmp_path, "ray-train").pick.step == 7


def test_v1_of_results_longer_than_are_read_the_newest_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_results, "_MOST_RESULTS", 100)
    for index in (7, 8, 9):
        put_torch(tmp_path / f"checkpoint_{index:06d}" / "state.pt")
    reported(tmp_path, *[7] * 50, 8)
    assert Seen(tmp_path, "ray-train").pick.step == 8


def test_v1_the_last_that_was_reported_and_is_gone_is_said(tmp_path: Path) -> None:
    put_torch(tmp_path / "checkpoint_000007" / "state.pt")
    reported(tmp_path, 7, 8)
    pick = Seen(tmp_path, "ray-train").pick
    assert (pick.step, pick.path) == (None, "checkpoint_000008")


def test_v1_without_results_the_highest_number_it_is(tmp_path: Path) -> None:
    for index in (7, 8):
        put_torch(tmp_path / f"checkpoint_{index:06d}" / "state.pt")
    assert (Seen(tmp_path, "ray-train").pick.step, Seen(tmp_path, "ray-train").pick.how) == (8, "highest number")


def test_an_empty_checkpoint_is_broken(tmp_path: Path) -> None:
    (tmp_path / "checkpoint_000001").mkdir()
    assert Seen(tmp_path, "ray-train").verdict(1).health is Health.BROKEN
