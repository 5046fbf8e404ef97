"""What one pass remembers for the next."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from prune.settings.schema import DAY, HOUR, Guards
from tests.runs import applied, deleted_steps, run_of
from tests.trees.build import age, names, step_dirs, step_files, torch_zip


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prune.db"


def timeless(root: Path) -> Path:
    for path in (*root.rglob("*"), root):
        os.utime(path, (0, 0))
    return root


def watched_longer(root: Path, by_ns: int) -> None:
    memory = root / ".prune" / "observed.json"
    seen = json.loads(memory.read_text())
    memory.write_text(json.dumps({step: [since - by_ns, *rest] for step, (since, *rest) in seen.items()}))


def test_without_times_nothing_is_deleted_however_long_it_stands(tmp_path: Path, state: Path) -> None:
    primary = timeless(step_files(tmp_path / "P", range(1, 7)))
    run = run_of(primary, last=2)

    outcome = applied(run, state)

    assert outcome.deleted == ()
    assert {held.guard for held in outcome.guarded} == {"unknown-mtime"}
    assert not (primary / ".prune" / "observed.json").exists()


@pytest.mark.parametrize("build", [step_files, step_dirs])
def test_watched_for_a_day_an_unchanged_copy_without_a_time_counts_as_old(tmp_path: Path, state: Path, build) -> None:
    primary = timeless(build(tmp_path / "P", range(1, 7)))
    run = run_of(primary, last=2, guards=Guards(unknown_mtime="observe"))

    assert applied(run, state).deleted == ()
    watched_longer(primary, 23 * HOUR)
    assert applied(run, state).deleted == ()
    watched_longer(primary, 2 * HOUR)
    assert deleted_steps(applied(run, state)) == [1, 2, 3, 4]


def test_a_copy_that_changed_under_our_eyes_is_watched_anew(tmp_path: Path, state: Path) -> None:
    primary = timeless(step_files(tmp_path / "P", range(1, 7)))
    run = run_of(primary, last=2, guards=Guards(unknown_mtime="observe"))
    applied(run, state)
    watched_longer(primary, DAY)
    (primary / "step_0002.pt").write_bytes(torch_zip(9000))
    os.utime(primary / "step_0002.pt", (0, 0))

    assert deleted_steps(applied(run, state)) == [1, 3, 4]


def test_a_run_begun_anew_in_a_used_folder_loses_nothing_until_it_has_caught_up(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", (500, 600, 700), seconds=6 * 86_400)
    run = run_of(primary, last=3)

    def save(step: int, seconds: float) -> None:
        (primary / f"step_{step:04d}.pt").write_bytes(torch_zip())
        age(primary / f"step_{step:04d}.pt", seconds)

    save(100, 4000)
    first = applied(run, state)
    assert first.deleted == ()
    assert "rewound" in {held.guard for held in first.guarded}

    for number, step in enumerate((200, 300, 400)):
        save(step, 3000 - 100 * number)
        assert applied(run, state).deleted == ()
    save(650, 2000)
    assert deleted_steps(applied(run, state)) == [500], "one of the new run above the cutoff is not three"

    for number, step in enumerate((710, 720, 730)):
        save(step, 1500 - 100 * number)
    applied(run, state)
    assert names(primary) == {"step_0710.pt", "step_0720.pt", "step_0730.pt"}
    assert not (primary / ".prune" / "rewound.json").exists()
