"""Plans tell of damaged copies how long they should be, how long they are, and how that likely came about."""

from __future__ import annotations

from pathlib import Path

import pytest

from prune.model import Copy
from tests.runs import planned, run_of
from tests.trees.build import age, mirrored, snapshot, step_dirs, step_files
from tests.trees.damage import damage
from tests.trees.real import unpack


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prune.db"


def copy_of(plan: object, step: int, replica: str = "primary") -> Copy:
    return next(
        copy
        for each in plan.steps
        if each.step == step
        for copy in each.copies
        if copy.replica == replica  # type: ignore[attr-defined]
    )


def test_a_file_cut_in_the_middle_is_measured_against_its_siblings(tmp_path: Path, state: Path) -> None:
    plan = planned(run_of(unpack("torch_plain_newest_truncated_73", tmp_path)), state)

    detail = copy_of(plan, 100).detail or ""

    assert "14041 bytes found" in detail
    assert "likely: it ends after 72 % of its expected 19235 bytes" in detail
    assert any(detail in note.detail for note in plan.attention if note.kind == "damaged")


def test_the_other_replica_tells_the_length_where_no_sibling_does(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10], size=10000)
    mirror = mirrored(primary, tmp_path / "M")
    damage(mirror / "step_0010.pt", "truncated to 50 %")

    plan = planned(run_of(primary, mirror), state)

    assert f"expected {(primary / 'step_0010.pt').stat().st_size} bytes" in (copy_of(plan, 10, "mirror").detail or "")


def test_zeros_at_the_end_tell_of_data_that_never_reached_the_disk(tmp_path: Path, state: Path) -> None:
    root = step_files(tmp_path / "P", [10, 20], size=100_000)
    path = root / "step_0020.pt"
    path.write_bytes(path.read_bytes()[:50_000] + bytes(50_348))
    age(path, 7200)

    assert "before the data reached the disk" in (copy_of(planned(run_of(root), state), 20).detail or "")


def test_a_write_that_broke_off_between_two_buffers_tells_of_a_killed_writer(tmp_path: Path, state: Path) -> None:
    root = step_files(tmp_path / "P", [10, 20], size=100_000)
    path = root / "step_0020.pt"
    path.write_bytes(path.read_bytes()[:40960])
    age(path, 7200)

    assert "the writer was killed between two of them" in (copy_of(planned(run_of(root), state), 20).detail or "")


def test_only_the_newest_few_are_looked_into_and_nothing_is_written(tmp_path: Path, state: Path) -> None:
    root = step_dirs(tmp_path / "P", range(1, 11))
    for step in range(3, 11):
        damage(root / f"step-{step}" / "rank_0.pt", "truncated to 50 %")
    before = snapshot(root)

    plan = planned(run_of(root), state)

    told = [each.step for each in plan.steps for copy in each.copies if "likely: " in (copy.detail or "")]
    assert told == [7, 8, 9, 10]
    assert snapshot(root) == before
