"""A pass killed, or refused, at each of its calls on the disk in turn."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.faults.strace import count, needs_strace, run
from tests.trees.build import mirrored, names, step_dirs, torch_zip

pytestmark = [pytest.mark.faults, needs_strace]

CALLS = ("rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "fsync", "fdatasync", "mkdir", "mkdirat")
STEPS = (1, 2, 3, 4)
KEPT = {"step-3", "step-4"}


def build(at: Path) -> tuple[Path, Path]:
    primary = step_dirs(at / "P", STEPS, files=2)
    return primary, mirrored(primary, at / "M")


def words(primary: Path, mirror: Path) -> list[str]:
    return ["apply", "--yes", "--json", "--primary", str(primary), "--mirror", str(mirror), "--keep-last", "2"]


def inside(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*")}


def assert_no_half_names(root: Path, whole: dict[str, set[str]]) -> None:
    for name in names(root):
        assert inside(root / name) == whole[name], f"{name} shows half a checkpoint"
    assert names(root) >= KEPT


def assert_done(root: Path) -> None:
    assert names(root) == KEPT
    assert os.listdir(root / ".prune" / "trash") == []
    for name in KEPT:
        assert (root / name / "rank_0.pt").read_bytes() == torch_zip(512, fill=name.removeprefix("step-").encode())


@pytest.fixture(scope="module")
def calls_made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    at = tmp_path_factory.mktemp("counted")
    return count(words(*build(at)), at / "state.db", CALLS, at / "log", at)


@pytest.mark.parametrize("call", CALLS)
def test_killed_at_any_call_no_name_shows_half_and_the_next_pass_ends_it(
    tmp_path: Path, calls_made: dict[str, int], call: str
) -> None:
    for when in range(1, calls_made[call] + 1):
        at = tmp_path / str(when)
        primary, mirror = build(at)
        whole = {name: inside(primary / name) for name in names(primary)}

        killed = run(words(primary, mirror), at / "state.db", inject=f"{call}:signal=KILL:when={when}")

        where = f"{call} number {when}"
        if killed.returncode == 0:
            assert when > 1, f"{where} was never reached"
            break  # strace counts by thread, and no thread came this far
        for root in (primary, mirror):
            assert_no_half_names(root, whole)
        after = run(words(primary, mirror), at / "state.db")
        assert after.returncode == 0, (where, after.stdout, after.stderr)
        for root in (primary, mirror):
            assert_done(root)
        shutil.rmtree(at)


@pytest.mark.parametrize("error", ["EIO", "EACCES", "EROFS", "EBUSY", "ENOSPC"])
@pytest.mark.parametrize("call", ["rename", "renameat", "unlink", "unlinkat", "rmdir", "fsync", "fdatasync", "mkdir"])
def test_refused_at_any_call_it_is_told_and_nothing_is_half_named(
    tmp_path: Path, calls_made: dict[str, int], call: str, error: str
) -> None:
    every = range(1, calls_made[call] + 1)
    for when in every if error == "EIO" else every[:1]:
        at = tmp_path / str(when)
        primary, mirror = build(at)
        whole = {name: inside(primary / name) for name in names(primary)}

        refused = run(words(primary, mirror), at / "state.db", inject=f"{call}:error={error}:when={when}")

        where = f"{error} from {call} number {when}"
        assert refused.returncode in (0, 1, 3), (where, refused.stderr)
        assert "Traceback" not in refused.stderr, where
        result = json.loads(refused.stdout)["runs"][0]
        if refused.returncode:
            told = result["failed"] or result["blocked"]
            assert told, where
        for root in (primary, mirror):
            assert_no_half_names(root, whole)
        after = run(words(primary, mirror), at / "state.db")
        assert after.returncode == 0, (where, after.stdout, after.stderr)
        for root in (primary, mirror):
            assert_done(root)
        shutil.rmtree(at)
