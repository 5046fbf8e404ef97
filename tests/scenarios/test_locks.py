"""One deleter at a time; a dead one blocks nobody, and a preview blocks nobody at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command import prune
from tests.scenarios.asking import apply, plan
from tests.trees.build import age, mirrored, names, snapshot, step_dirs, step_files, torch_zip

pytestmark = pytest.mark.usefixtures("alone")

HOLDER = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def held(root: Path) -> Iterator[None]:
    """Another process holds the lock of a root."""
    (root / ".prune").mkdir(exist_ok=True)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(root / ".prune" / "lock")], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)  # fmt: skip
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        yield
    finally:
        holder.communicate(b"")


@pytest.mark.parametrize("where", ["primary", "mirror"])
def test_a_lock_held_on_any_replica_blocks_and_touches_neither(tmp_path: Path, where: str) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    mirror = mirrored(primary, tmp_path / "M")
    with held(primary if where == "primary" else mirror):
        done = apply(primary, mirror, keep=2)
    assert (done.code, done.blocked, done.deleted) == (3, "locked", set())
    assert len(names(primary)) == len(names(mirror)) == 5


@pytest.mark.parametrize(
    "verb", [("undo",), ("purge", "--yes"), ("adopt", "mirror"), ("make-room", "900PiB", "--yes", "--wait", "0s")]
)
def test_no_command_that_changes_a_root_does_so_under_another_s_lock(tmp_path: Path, verb: tuple[str, ...]) -> None:
    primary = step_files(tmp_path / "P", range(1, 7))
    mirror = mirrored(primary, tmp_path / "M")
    roots = ("--primary", primary, "--mirror", mirror)
    prune("apply", "--yes", *roots, "--keep-last", "3", "--grace", "1d")
    before = {root: without_times(root) for root in (primary, mirror)}
    with held(mirror):
        done = prune(*verb, *roots)
    assert done.code in (3, 4)
    assert "held" in done.err + done.out
    assert {root: without_times(root) for root in (primary, mirror)} == before


def test_what_another_s_lock_keeps_from_being_put_back_is_told_as_the_block_it_is(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 7))
    prune("apply", "--yes", "--primary", primary, "--keep-last", "3", "--grace", "1d")
    with held(primary):
        done = prune("undo", "--json", "--primary", primary)
    assert done.code == 3
    assert (done.json["runs"][0]["blocked"]["block"], done.json["runs"][0]["blocked"]["replica"]) == (
        "locked",
        "primary",
    )


def without_times(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_a_lock_that_is_let_go_in_time_is_waited_for(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    words = [sys.executable, "-m", "prune", "apply", "--yes", "--primary", str(primary), "--keep-last", "2", "--wait",
             "60s"]  # fmt: skip
    with held(primary):
        waiting = subprocess.Popen(words)
        time.sleep(0.5)
        assert len(names(primary)) == 5
    assert waiting.wait(60) == 0
    assert len(names(primary)) == 2


def test_a_lock_file_that_names_a_living_process_blocks_nobody_when_the_kernel_knows_of_no_lock(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    (primary / ".prune").mkdir()
    lock = primary / ".prune" / "lock"
    lock.write_text(json.dumps({"host": os.uname().nodename, "pid": os.getppid(), "until_ns": 1 << 62}))
    age(lock, 30 * 86_400)
    assert apply(primary, keep=2).deleted == {1, 2, 3}


def test_a_preview_is_not_held_up_by_a_pass_and_holds_up_none(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    with held(primary):
        assert plan(primary, keep=2).deleted == {1, 2, 3}


def test_a_preview_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(1, 60), files=20)
    before = snapshot(primary)
    words = [sys.executable, "-m", "prune", "plan", "--primary", str(primary), "--keep-last", "2"]
    for wait in (0.05, 0.1, 0.2, 0.3):
        preview = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(wait)
        preview.send_signal(signal.SIGKILL)
        preview.wait()
    assert snapshot(primary) == before
    assert not (tmp_path / "state.db").exists()
    assert len(apply(primary, keep=2).deleted) == 57


def test_a_lock_file_replaced_while_it_is_held_ends_the_pass(tmp_path: Path) -> None:
    """Somebody "cleaned up" the lock: two passes could then both believe they hold it."""
    from tests.runs import applied, deleted_steps, run_of

    primary = step_files(tmp_path / "P", range(1, 6))

    def cleaner() -> bool:
        if len(names(primary)) == 4:
            (primary / ".prune" / "lock").unlink()
        return True

    outcome = applied(run_of(primary, last=2), tmp_path / "s.db", keep_going=cleaner, batch=1)
    assert deleted_steps(outcome) == [1]
    assert outcome.blocked is not None
    assert outcome.blocked.block == "locked"


def test_a_lock_that_this_process_s_reader_holds_is_told_by_who_holds_it(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    with held(primary):
        done = prune("apply", "--yes", "--primary", primary, "--keep-last", "2")
    assert done.code == 3
    assert "wait for it with --wait" in done.out + done.err


def test_a_bsd_lock_on_a_checkpoint_keeps_it(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    with held_file(primary / "step_0002.pt"):
        done = apply(primary, keep=2)
    assert done.deleted == {1, 3}
    assert done.guards == {2: {"busy"}}


@contextmanager
def held_file(path: Path) -> Iterator[None]:
    code = "import fcntl, sys; f = open(sys.argv[1], 'rb'); fcntl.flock(f, fcntl.LOCK_SH); print(flush=True); " \
           "sys.stdin.read()"  # fmt: skip
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        yield
    finally:
        holder.communicate(b"")


def test_the_state_locked_by_another_process_stops_no_prune(tmp_path: Path) -> None:
    import sqlite3

    primary = step_files(tmp_path / "P", range(1, 4))
    apply(primary, keep=2)
    (primary / "step_0004.pt").write_bytes(torch_zip())
    age(primary / "step_0004.pt", 3600)
    with sqlite3.connect(tmp_path / "state.db") as database:
        database.execute("BEGIN EXCLUSIVE")
        done = apply(primary, keep=2)
    assert done.deleted == {2}
