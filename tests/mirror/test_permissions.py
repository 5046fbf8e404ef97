"""Checkpoints that their owner may not write: copied, continued and swept by a user for whom that holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prune.mirror.delivery import Delivery
from prune.mirror.job import Job
from prune.settings.schema import RunSettings
from prune.stop import Stop
from tests.mirror.helpers import copied, mirrored_now, seen, temporaries
from tests.ordinary import ordinary_user
from tests.runs import run_of
from tests.trees.build import age, step_dirs, step_files

MIB = 1 << 20


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prune.db"


def read_only_dirs(root: Path) -> Path:
    """Two steps with a folder in each, all of them read-only."""
    primary = step_dirs(root, [10, 20], size=9 * MIB)
    for step in primary.iterdir():
        (step / "inner").mkdir()
        (step / "inner" / "note.txt").write_text("x")
        age(step, 7200)
        for path in sorted(step.rglob("*"), reverse=True):
            path.chmod(0o555 if path.is_dir() else 0o444)
        step.chmod(0o555)
    return primary


def interrupted(run: RunSettings, state: Path) -> None:
    """A job that is stopped in the middle of its copying."""
    stop = Stop()
    mirrored_now(run, state, stop=stop, progress=lambda _w, done, _o: stop.request() if done > 10 * MIB else None)


def test_read_only_steps_are_copied_with_their_permissions(tmp_path: Path, state: Path) -> None:
    primary = read_only_dirs(tmp_path / "P")
    (tmp_path / "M").mkdir()

    with ordinary_user():
        done = mirrored_now(run_of(primary, tmp_path / "M"), state)

    assert copied(done) == [(20, "mirror"), (10, "mirror")]
    assert seen(tmp_path / "M") == seen(primary)


def test_a_read_only_copy_that_was_interrupted_is_continued(tmp_path: Path, state: Path) -> None:
    primary = read_only_dirs(tmp_path / "P")
    (tmp_path / "M").mkdir()
    run = run_of(primary, tmp_path / "M")

    with ordinary_user():
        interrupted(run, state)
        assert temporaries(tmp_path / "M")
        done = mirrored_now(run, state)

    assert copied(done) == [(20, "mirror"), (10, "mirror")]
    assert seen(tmp_path / "M") == seen(primary)


@pytest.mark.parametrize("build", [read_only_dirs, lambda root: step_files(root, [10, 20])])
def test_a_complete_copy_that_could_not_be_published_is_published_by_the_next_run(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch, build
) -> None:  # type: ignore[no-untyped-def]
    primary = build(tmp_path / "P")
    for path in primary.glob("*.pt"):
        path.chmod(0o400)
    (tmp_path / "M").mkdir()
    run = run_of(primary, tmp_path / "M")

    def lock_is_taken(delivery: Delivery) -> None:
        delivery.job.settled.add((delivery.build.order.step, delivery.build.order.target))

    with monkeypatch.context() as patch, ordinary_user():
        patch.setattr(Delivery, "_publish", lock_is_taken)
        patch.setattr(Job, "_sweep", lambda *_: None)
        assert copied(mirrored_now(run, state)) == []
        assert temporaries(tmp_path / "M")
    with ordinary_user():
        done = mirrored_now(run, state)

    assert copied(done) == [(20, "mirror"), (10, "mirror")]
    assert seen(tmp_path / "M") == seen(primary)
    assert temporaries(tmp_path / "M") == []


def test_what_is_left_of_a_read_only_copy_is_swept(tmp_path: Path, state: Path) -> None:
    primary = read_only_dirs(tmp_path / "P")
    (tmp_path / "M").mkdir()
    run = run_of(primary, tmp_path / "M")
    with ordinary_user():
        interrupted(run, state)
        assert temporaries(tmp_path / "M")
        for step in primary.iterdir():
            step.chmod(0o755)
            os.utime(step)  # another step than the one that was begun, and still being written
        mirrored_now(run, state)

    assert temporaries(tmp_path / "M") == []
