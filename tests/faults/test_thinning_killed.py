"""Thinning killed, or refused, at each of its calls on the disk in turn."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.faults.strace import count, needs_strace, run, spread
from tests.trees.build import age, mirrored
from tests.trees.stacks import hf, put_torch

pytestmark = [pytest.mark.faults, needs_strace]

EVERY = bool(os.environ.get("PRUNE_EVERY_CALL"))  # else a spread of them: every one takes many minutes
CALLS = ("rename", "renameat", "renameat2", "unlink", "unlinkat", "utimensat", "fsync", "fdatasync")
STEPS = (1, 2, 3)
FULL = {"optimizer.pt", "pytorch_model.bin", "rng_state.pth", "trainer_state.json"}
THIN = {"pytorch_model.bin", "trainer_state.json"}


def build(at: Path) -> tuple[Path, Path]:
    """Three checkpoints of the Hugging Face Trainer on two replicas; all but the newest are to be thinned."""
    primary = at / "P"
    for step in STEPS:
        put_torch(hf(primary, step) / "rng_state.pth")
        age(primary / f"checkpoint-{step}", 36000 - 3600 * step)
    return primary, mirrored(primary, at / "M")


def words(verb: str, primary: Path, mirror: Path) -> list[str]:
    roots = ["--primary", str(primary), "--mirror", str(mirror)]
    return [verb, "--json", *roots, "--keep-last", "3", "--keep-full", "1", *(["--yes"] if verb == "apply" else [])]


def mtimes(root: Path) -> dict[str, int]:
    return {name: os.stat(root / name).st_mtime_ns for name in os.listdir(root) if name.startswith("checkpoint-")}


def assert_nothing_kept_is_touched(root: Path) -> None:
    """Weights and state of every step, and all of the newest, whatever was cut off."""
    assert set(os.listdir(root / "checkpoint-3")) == FULL
    for step in (1, 2):
        assert set(os.listdir(root / f"checkpoint-{step}")) >= THIN


def assert_never_resumed_from_half(primary: Path, mirror: Path, state: Path) -> None:
    """What lost any part is weights alone to whoever looks at it before the next pass."""
    looked = run(words("plan", primary, mirror), state)
    document = json.loads(looked.stdout)["runs"][0]
    assert document["resume_candidate"]["step"] == 3
    for step in document["steps"]:
        for copy in step["copies"]:
            root = primary if copy["replica"] == "primary" else mirror
            lost = FULL - set(os.listdir(root / copy["paths"][0]))
            assert copy["weights_only"] or not lost, (step["step"], copy["replica"], lost)


def assert_done(root: Path, before: dict[str, int]) -> None:
    assert [set(os.listdir(root / f"checkpoint-{step}")) for step in STEPS] == [THIN, THIN, FULL]
    assert os.listdir(root / ".prune" / "trash") == []
    assert mtimes(root) == before


@pytest.fixture(scope="module")
def calls_made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    at = tmp_path_factory.mktemp("counted")
    return count(words("apply", *build(at)), at / "state.db", CALLS, at / "log")


@pytest.mark.parametrize("call", CALLS)
def test_killed_at_any_call_no_half_thinned_step_is_resumed_from_and_the_next_pass_ends_it(
    tmp_path: Path, calls_made: dict[str, int], call: str
) -> None:
    for when in spread(calls_made[call], None if EVERY else 6):
        at = tmp_path / str(when)
        primary, mirror = build(at)
        before = {root: mtimes(root) for root in (primary, mirror)}

        killed = run(words("apply", primary, mirror), at / "state.db", inject=f"{call}:signal=KILL:when={when}")

        if killed.returncode == 0:
            break  # strace counts by thread, and no thread came this far
        for root in (primary, mirror):
            assert_nothing_kept_is_touched(root)
        assert_never_resumed_from_half(primary, mirror, at / "state.db")
        after = run(words("apply", primary, mirror), at / "state.db")
        assert after.returncode == 0, (call, when, after.stdout, after.stderr)
        for root in (primary, mirror):
            assert_done(root, before[root])
        shutil.rmtree(at)


@pytest.mark.parametrize("error", ["EIO", "EPERM", "ENOSPC"])
@pytest.mark.parametrize("call", ["renameat", "renameat2", "utimensat", "fsync", "fdatasync"])
def test_refused_at_any_call_it_is_told_and_no_mtime_is_left_changed(
    tmp_path: Path, calls_made: dict[str, int], call: str, error: str
) -> None:
    for when in spread(calls_made[call], None if EVERY else 2):
        at = tmp_path / str(when)
        primary, mirror = build(at)
        before = {root: mtimes(root) for root in (primary, mirror)}

        refused = run(words("apply", primary, mirror), at / "state.db", inject=f"{call}:error={error}:when={when}")

        where = f"{error} from {call} number {when}"
        assert refused.returncode in (0, 1, 3), (where, refused.stderr)
        assert "Traceback" not in refused.stderr, where
        for root in (primary, mirror):
            assert_nothing_kept_is_touched(root)
        assert_never_resumed_from_half(primary, mirror, at / "state.db")
        after = run(words("apply", primary, mirror), at / "state.db")
        assert after.returncode == 0, (where, after.stdout, after.stderr)
        for root in (primary, mirror):
            assert_done(root, before[root])
        shutil.rmtree(at)
