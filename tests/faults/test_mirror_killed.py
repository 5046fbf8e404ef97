"""Mirroring killed, or refused, at each of its calls on the disk in turn."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.faults.strace import count, needs_strace, run, spread
from tests.mirror.helpers import seen, temporaries
from tests.trees.build import age, names, step_dirs, torch_zip
from tests.trees.damage import damage

pytestmark = [pytest.mark.faults, needs_strace]

CALLS = (
    "rename", "renameat", "renameat2", "fsync", "fdatasync", "mkdir", "mkdirat", "copy_file_range", "sync_file_range",
    "ftruncate", "utimensat", "fchmodat", "fchownat", "unlinkat", "write", "pwrite64",
)  # fmt: skip
EVERY = bool(os.environ.get("PRUNE_EVERY_CALL"))  # else a spread of them: every one takes many minutes
DAMAGED = "step-3"


def build(at: Path) -> tuple[Path, Path]:
    """A mirror that lacks the newest step and has the one before it damaged; files of both sizes."""
    primary = step_dirs(at / "P", (1, 2, 3, 4), files=1)
    (primary / "step-4" / "rank_0.pt").write_bytes(torch_zip(5 << 20))
    age(primary / "step-4", 7000)
    mirror = at / "M"
    shutil.copytree(primary, mirror)
    shutil.rmtree(mirror / "step-4")
    damage(mirror / DAMAGED / "rank_0.pt", "truncated to 50 %")
    return primary, mirror


def words(primary: Path, mirror: Path, verb: str = "mirror") -> list[str]:
    return [verb, "--json", "--primary", str(primary), "--mirror", str(mirror)]


def below(root: Path, name: str) -> dict[str, tuple[object, ...]]:
    return {path: what for path, what in seen(root).items() if path == name or path.startswith(f"{name}/")}


def assert_nothing_half(primary: Path, mirror: Path, before: dict[str, tuple[object, ...]], where: str) -> None:
    for name in names(mirror):
        found = below(mirror, name)
        whole = found == below(primary, name)
        assert whole or (name == DAMAGED and found == before), f"{where}: {name} is neither the old one nor the new one"
    assert names(mirror) >= {"step-1", "step-2", DAMAGED}, where


@pytest.fixture(scope="module")
def calls_made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    at = tmp_path_factory.mktemp("counted")
    return count(words(*build(at)), at / "state.db", CALLS, at / "log")


@pytest.mark.parametrize("call", CALLS)
def test_killed_at_any_call_no_name_shows_half_and_the_next_run_completes_it(
    tmp_path: Path, calls_made: dict[str, int], call: str
) -> None:
    for when in spread(calls_made[call], None if EVERY else 4):
        at = tmp_path / str(when)
        primary, mirror = build(at)
        before = below(mirror, DAMAGED)

        killed = run(words(primary, mirror), at / "state.db", inject=f"{call}:signal=KILL:when={when}")

        where = f"{call} number {when}"
        if killed.returncode == 0:
            break  # strace counts by thread, and no thread came this far
        assert_nothing_half(primary, mirror, before, where)
        after = run(words(primary, mirror), at / "state.db")
        assert after.returncode == 0, (where, after.stdout, after.stderr)
        assert seen(mirror) == seen(primary), where
        assert temporaries(mirror) == [], where
        applied = run([*words(primary, mirror, "apply"), "--yes"], at / "state.db")
        assert applied.returncode == 0, (where, applied.stdout, applied.stderr)
        shutil.rmtree(at)


@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "EDQUOT", "EROFS"])
@pytest.mark.parametrize("call", ["renameat", "renameat2", "fsync", "mkdirat", "copy_file_range", "pwrite64"])
def test_refused_at_any_call_it_is_told_and_nothing_is_half_named(
    tmp_path: Path, calls_made: dict[str, int], call: str, error: str
) -> None:
    for when in spread(calls_made[call], None if EVERY else 2):
        at = tmp_path / str(when)
        primary, mirror = build(at)
        before = below(mirror, DAMAGED)

        refused = run(words(primary, mirror), at / "state.db", inject=f"{call}:error={error}:when={when}")

        where = f"{call} number {when} refused with {error}"
        assert "Traceback" not in refused.stderr, (where, refused.stderr)
        assert_nothing_half(primary, mirror, before, where)
        if refused.returncode != 0 and refused.stdout:
            (told,) = json.loads(refused.stdout)["runs"]
            assert told["failed"] or told["blocks"], where
        after = run(words(primary, mirror), at / "state.db")
        assert after.returncode == 0, (where, after.stdout, after.stderr)
        assert seen(mirror) == seen(primary), where
        assert not [name for name in os.listdir(mirror) if name.endswith(".part")], where
        shutil.rmtree(at)
