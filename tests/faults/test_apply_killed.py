"""A pass killed, or refused, at each of its calls on the disk in turn."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.strace import count, needs_strace, run, spread
from tests.trees.build import mirrored, names, step_dirs, torch_zip

pytestmark = [pytest.mark.faults, needs_strace]

CALLS = ("rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "fsync", "fdatasync", "mkdir", "mkdirat")
ERRORS = ("EIO", "EACCES", "EROFS", "EBUSY", "ENOSPC")
STEPS = (1, 2, 3, 4)
KEPT = {"step-3", "step-4"}
# How many positions of each call are tried: the renames decide what a final name shows, so all of them are.
FEW = {"renameat": None, "renameat2": None, "unlinkat": 5, "fsync": 5, "fdatasync": 6, "mkdirat": 3}
# The same of refusals, by whether every position is asked for and whether it is EIO: errors differ in name alone.
REFUSED = {(False, False): 1, (False, True): 4, (True, False): 5, (True, True): None}
some_or_all = pytest.mark.parametrize(
    "every", [pytest.param(False, id="some"), pytest.param(True, id="every", marks=pytest.mark.slow)]
)


def build(at: Path) -> tuple[Path, Path]:
    primary = step_dirs(at / "P", STEPS, files=2)
    return primary, mirrored(primary, at / "M")


def words(primary: Path, mirror: Path, *more: str) -> list[str]:
    return ["apply", "--yes", "--json", *roots(primary, mirror), "--keep-last", "2", *more]


def roots(primary: Path, mirror: Path) -> list[str]:
    return ["--primary", str(primary), "--mirror", str(mirror)]


def inside(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*")}


def assert_no_half_names(root: Path, whole: dict[str, set[str]]) -> None:
    for name in names(root):
        assert inside(root / name) == whole[name], f"{name} shows half a checkpoint"
    assert names(root) >= KEPT


def assert_done(root: Path) -> None:
    assert names(root) == KEPT
    assert os.listdir(root / ".prune" / "trash") == []
    assert_kept(root)


def assert_kept(root: Path) -> None:
    for name in KEPT:
        assert (root / name / "rank_0.pt").read_bytes() == torch_zip(512, fill=name.removeprefix("step-").encode())


@pytest.fixture(scope="module")
def calls_made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    at = tmp_path_factory.mktemp("counted")
    return count(words(*build(at)), at / "state.db", CALLS, at / "log")


def positions(calls_made: dict[str, int], call: str, *, every: bool) -> list[int]:
    return spread(calls_made[call], None if every else FEW.get(call, 2))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory that is emptied after each position, so that thousands of them need little room."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


@some_or_all
@pytest.mark.parametrize("call", CALLS)
def test_killed_at_any_call_no_name_shows_half_and_the_next_pass_ends_it(
    place: Path, calls_made: dict[str, int], call: str, every: bool
) -> None:
    for when in positions(calls_made, call, every=every):
        at = place / str(when)
        primary, mirror = build(at)
        whole = {name: inside(primary / name) for name in names(primary)}

        killed = run(words(primary, mirror), at / "state.db", inject=f"{call}:signal=KILL:when={when}")

        where = f"{call} number {when}"
        if killed.returncode == 0:
            assert when > 1, f"{where} was never reached"
            continue  # another thread made these calls this time
        for root in (primary, mirror):
            assert_no_half_names(root, whole)
        after = run(words(primary, mirror), at / "state.db")
        assert after.returncode == 0, (where, after.stdout, after.stderr)
        for root in (primary, mirror):
            assert_done(root)
        shutil.rmtree(at)


@some_or_all
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("call", ["renameat", "unlink", "unlinkat", "fsync", "fdatasync", "mkdir", "mkdirat"])
def test_refused_at_any_call_it_is_told_and_nothing_is_half_named(
    place: Path, calls_made: dict[str, int], call: str, error: str, every: bool
) -> None:
    for when in spread(calls_made[call], REFUSED[every, error == "EIO"]):
        at = place / str(when)
        primary, mirror = build(at)
        whole = {name: inside(primary / name) for name in names(primary)}

        refused = run(words(primary, mirror), at / "state.db", inject=f"{call}:error={error}:when={when}")

        where = f"{error} from {call} number {when}"
        assert_told(refused, where)
        for root in (primary, mirror):
            assert_no_half_names(root, whole)
        after = run(words(primary, mirror), at / "state.db")
        assert after.returncode == 0, (where, after.stdout, after.stderr)
        for root in (primary, mirror):
            assert_done(root)
        shutil.rmtree(at)


def assert_told(done: subprocess.CompletedProcess[str], where: str) -> None:
    """Ended with 0, 1 or 3 and without a traceback; anything but 0 with a reason."""
    assert done.returncode in (0, 1, 3), (where, done.stderr)
    assert "Traceback" not in done.stderr, where
    result = json.loads(done.stdout)["runs"][0]
    if done.returncode:
        assert result["failed"] or result["blocked"], where


@some_or_all
def test_a_call_that_always_fails_is_told_and_the_pass_comes_to_an_end(place: Path, every: bool) -> None:
    """A disk that refuses one thing for good: nothing is half-named, and once it is mended the next pass ends it."""
    for call in ("renameat", "unlinkat", "fsync", "fdatasync", "mkdirat") if every else ("unlinkat", "fsync"):
        at = place / call
        primary, mirror = build(at)
        whole = {name: inside(primary / name) for name in names(primary)}
        assert_told(run(words(primary, mirror), at / "state.db", inject=f"{call}:error=EIO:when=1+"), call)
        for root in (primary, mirror):
            assert_no_half_names(root, whole)
        assert run(words(primary, mirror), at / "state.db").returncode == 0
        for root in (primary, mirror):
            assert_done(root)


@some_or_all
@pytest.mark.parametrize("call", ["renameat", "renameat2", "unlinkat", "fsync", "fdatasync"])
def test_recovery_may_be_killed_as_well(place: Path, calls_made: dict[str, int], call: str, every: bool) -> None:
    """The pass died between the renames of two replicas; the one that mends it dies too, wherever it likes."""
    first = f"renameat:signal=KILL:when={calls_made['renameat'] - 4}"  # of the withdrawing ones, before two volume.json
    counted = place / "counted"
    primary, mirror = build(counted)
    run(words(primary, mirror), counted / "state.db", inject=first)
    there = count(words(primary, mirror), counted / "state.db", CALLS, counted / "log")
    for when in spread(there[call], None if every else 3):
        at = place / str(when)
        primary, mirror = build(at)
        whole = {name: inside(primary / name) for name in names(primary)}
        assert run(words(primary, mirror), at / "state.db", inject=first).returncode != 0
        assert any(os.listdir(root / ".prune" / "trash") for root in (primary, mirror))

        run(words(primary, mirror), at / "state.db", inject=f"{call}:signal=KILL:when={when}")

        for root in (primary, mirror):
            assert_no_half_names(root, whole)
        after = run(words(primary, mirror), at / "state.db")
        assert after.returncode == 0, (call, when, after.stdout, after.stderr)
        for root in (primary, mirror):
            assert_done(root)
        shutil.rmtree(at)


@some_or_all
@pytest.mark.parametrize("verb", ["undo", "purge"])
def test_undo_and_purge_killed_at_any_call_are_ended_by_the_next_one(place: Path, verb: str, every: bool) -> None:
    counted = place / "counted"
    primary, mirror = build(counted)
    run(words(primary, mirror, "--grace", "1d"), counted / "state.db")
    asked = [verb, *(["--yes"] if verb == "purge" else []), "--json"]
    there = count([*asked, *roots(primary, mirror)], counted / "state.db", CALLS, counted / "log")
    kept = {f"step-{step}" for step in STEPS} if verb == "undo" else KEPT
    for call in ("renameat", "renameat2", "unlinkat", "fsync", "fdatasync"):
        for when in spread(there[call], None if every else 2):
            at = place / f"{call}-{when}"
            primary, mirror = build(at)
            whole = {name: inside(primary / name) for name in names(primary)}
            assert run(words(primary, mirror, "--grace", "1d"), at / "state.db").returncode == 0
            asked_here = [*asked, *roots(primary, mirror)]

            run(asked_here, at / "state.db", inject=f"{call}:signal=KILL:when={when}")

            for root in (primary, mirror):
                assert_no_half_names(root, whole)
            again = run(asked_here, at / "state.db")
            assert again.returncode == 0, (call, when, again.stderr)
            for root in (primary, mirror):
                assert names(root) == kept, (call, when)
                assert os.listdir(root / ".prune" / "trash") == [], (call, when)
                assert_kept(root)
            shutil.rmtree(at)
