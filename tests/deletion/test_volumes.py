"""Roots that are not what they were: nothing is deleted, and the reason is told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from prune.deletion.undo import adopt
from prune.journal import NoJournal
from prune.settings.schema import ReplicaSettings, RunSettings
from tests.runs import applied, deleted_steps, planned, run_of
from tests.trees.build import age, mirrored, names, step_files, torch_zip


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prune.db"


@pytest.fixture
def pair(tmp_path: Path, state: Path) -> tuple[Path, Path]:
    """A primary and its mirror that know each other, with two new steps to prune for."""
    primary = step_files(tmp_path / "P", range(1, 7))
    mirror = mirrored(primary, tmp_path / "M")
    applied(run_of(primary, mirror, last=4), state)
    for root in (primary, mirror):
        for step in (7, 8):
            (root / f"step_{step:04d}.pt").write_bytes(torch_zip())
            age(root / f"step_{step:04d}.pt", 3600)
    return primary, mirror


def emptied(root: Path) -> None:
    for path in root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def blocked(primary: Path, mirror: Path, state: Path) -> str | None:
    before = names(primary), names(mirror) if mirror.is_dir() else None
    run = run_of(primary, mirror, last=2)
    plan = planned(run, state)
    outcome = applied(run, state)
    assert outcome.deleted == ()
    assert (names(primary), names(mirror) if mirror.is_dir() else None) == before
    assert (plan.blocked is None) == (outcome.blocked is None)
    return outcome.blocked.block if outcome.blocked else None


def test_a_known_pair_is_pruned(pair: tuple[Path, Path], state: Path) -> None:
    primary, mirror = pair
    assert deleted_steps(applied(run_of(primary, mirror, last=2), state)) == [3, 4, 5, 6]


def test_a_mirror_that_is_not_there(pair: tuple[Path, Path], state: Path) -> None:
    shutil.rmtree(pair[1])
    assert blocked(*pair, state) == "replica-unreachable"


def test_a_mirror_that_came_back_empty(pair: tuple[Path, Path], state: Path) -> None:
    emptied(pair[1])
    assert blocked(*pair, state) == "replica-vanished"
    assert not (pair[1] / ".prune").exists(), "nothing is written where a disk may be missing"


def test_a_mirror_that_came_back_empty_though_the_journal_is_lost(pair: tuple[Path, Path], state: Path) -> None:
    emptied(pair[1])
    shutil.rmtree(state.parent)
    assert blocked(*pair, state) == "replica-vanished"


def test_a_primary_that_came_back_empty(pair: tuple[Path, Path], state: Path) -> None:
    emptied(pair[0])
    assert blocked(*pair, state) == "replica-vanished"


def test_a_primary_whose_checkpoints_are_gone_but_whose_control_folder_stands(
    pair: tuple[Path, Path], state: Path
) -> None:
    for path in pair[0].glob("*.pt"):
        path.unlink()
    assert blocked(*pair, state) == "replica-vanished"


def test_swapped_roots(pair: tuple[Path, Path], state: Path) -> None:
    assert blocked(pair[1], pair[0], state) == "volume-changed"


def test_another_disk_in_the_mirror_s_place(pair: tuple[Path, Path], state: Path, tmp_path: Path) -> None:
    other = step_files(tmp_path / "O", range(1, 9))
    applied(run_of(other, last=8), state)
    shutil.rmtree(pair[1])
    shutil.move(other, pair[1])
    assert blocked(*pair, state) == "volume-changed"


def test_a_mirror_that_was_copied_together_with_its_control_folder(pair: tuple[Path, Path], state: Path) -> None:
    shutil.rmtree(pair[1])
    mirrored(*pair)
    assert blocked(*pair, state) == "volume-changed"


def test_a_mirror_whose_control_folder_is_lost(pair: tuple[Path, Path], state: Path) -> None:
    shutil.rmtree(pair[1] / ".prune")
    assert blocked(*pair, state) == "volume-changed"


def test_an_adopted_empty_mirror_counts_as_empty_and_licenses_nothing(pair: tuple[Path, Path], state: Path) -> None:
    primary, mirror = pair
    emptied(mirror)
    run = run_of(primary, mirror, last=2)
    adopt(run, "mirror", now_ns=0, wait_ns=0, journal=NoJournal(""))

    outcome = applied(run, state)

    assert outcome.blocked is None
    assert outcome.deleted == ()
    assert len(names(primary)) == 6


def test_an_optional_mirror_never_blocks(pair: tuple[Path, Path], state: Path) -> None:
    primary, mirror = pair
    shutil.rmtree(mirror)
    replicas = (ReplicaSettings("primary", str(primary), "primary"),
                ReplicaSettings("mirror", str(mirror), "mirror", optional=True))  # fmt: skip
    run = RunSettings("tiny", replicas, keep=run_of(primary, last=2).keep)

    assert deleted_steps(applied(run, state)) == [3, 4, 5, 6]


def test_a_broken_volume_record_blocks(pair: tuple[Path, Path], state: Path) -> None:
    (pair[1] / ".prune" / "volume.json").write_text('{"schema": "prune.vol')
    assert blocked(*pair, state) == "control-unusable"


def test_a_control_folder_that_is_a_link_blocks(pair: tuple[Path, Path], state: Path, tmp_path: Path) -> None:
    shutil.move(pair[1] / ".prune", tmp_path / "away")
    os.symlink(tmp_path / "away", pair[1] / ".prune")
    assert blocked(*pair, state) == "control-unusable"


def test_two_control_folders_block(pair: tuple[Path, Path], state: Path) -> None:
    shutil.copytree(pair[0] / ".prune", pair[0].parent / ".P.prune")
    assert blocked(*pair, state) == "control-unusable"


def test_an_unreadable_pin_blocks(pair: tuple[Path, Path], state: Path) -> None:
    (pair[1] / ".prune" / "pins" / "3.json").write_text("{")
    assert blocked(*pair, state) == "pins-unreadable"


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_a_root_that_cannot_be_listed_blocks(pair: tuple[Path, Path], state: Path) -> None:
    pair[1].chmod(0o300)
    try:
        assert blocked(*pair, state) == "listing-incomplete"
    finally:
        pair[1].chmod(0o755)


def left_out(run: RunSettings, state: Path) -> list[str]:
    return [note.detail for note in planned(run, state).attention if note.kind == "mirror-left-out"]


def test_a_mirror_that_nobody_names_any_more_is_told_until_the_primary_is_adopted(
    pair: tuple[Path, Path], state: Path
) -> None:
    primary, mirror = pair
    assert left_out(run_of(primary, mirror, last=2), state) == []

    alone = run_of(primary, last=2)
    (told,) = left_out(alone, state)
    assert "mirror that held 4 steps, the newest 6" in told
    assert deleted_steps(applied(alone, state)) == [3, 4, 5, 6]
    assert "step_0003.pt" in names(mirror)

    adopt(alone, "primary", now_ns=0, wait_ns=0, journal=NoJournal("nowhere"))
    assert left_out(alone, state) == []


def test_a_mirror_under_another_name_is_not_left_out(pair: tuple[Path, Path], state: Path) -> None:
    primary, mirror = pair
    replicas = (ReplicaSettings("primary", str(primary), "primary"), ReplicaSettings("copy", str(mirror), "mirror"))
    assert left_out(RunSettings("tiny", replicas), state) == []
