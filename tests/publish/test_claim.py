# ruff: noqa: PT012  (the block is what is tested)
from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import prune
from prune.errors import Busy, Failed
from prune.publish import claim as claims
from prune.publish import is_alive, writer, writer_of
from tests.publish.looking import fits, manifest, names

WRITE_AND_WAIT = """
import sys, time, prune
with prune.publish(sys.argv[1], step=1) as file:
    file.write(b"theirs" * 1000)
    file.flush()
    print("ready", flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def another_writer(path: Path, script: str = WRITE_AND_WAIT) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def save(path: Path, data: bytes = b"ours") -> None:
    with prune.publish(path, step=1) as file:
        file.write(data)


def test_a_second_writer_of_a_name_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    with another_writer(tmp_path / "step_1.pt") as other:
        with pytest.raises(Busy, match=f"process {other.pid} on "):
            save(tmp_path / "step_1.pt")
        assert names(tmp_path) == ["step_1.pt.part"]
        save(tmp_path / "step_2.pt")


def test_a_paused_writer_is_not_taken_for_dead(tmp_path: Path) -> None:
    with another_writer(tmp_path / "step_1.pt") as other:
        other.send_signal(signal.SIGSTOP)
        with pytest.raises(Busy):
            save(tmp_path / "step_1.pt")


def test_a_dead_writers_leftover_is_replaced(tmp_path: Path) -> None:
    with another_writer(tmp_path / "step_1.pt") as other:
        other.kill()
        other.wait()
        assert names(tmp_path) == ["step_1.pt.part"]
        save(tmp_path / "step_1.pt")
    assert (tmp_path / "step_1.pt").read_bytes() == b"ours"
    assert names(tmp_path) == ["step_1.pt"]


def test_a_leftover_of_any_other_program_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "step_1.pt.part").write_bytes(b"left by a copy" * 9999)
    save(tmp_path / "step_1.pt")
    assert (tmp_path / "step_1.pt").read_bytes() == b"ours"


def test_the_writer_can_be_told_while_it_writes(tmp_path: Path) -> None:
    with another_writer(tmp_path / "step_1.pt") as other:
        found = writer_of(tmp_path / "step_1.pt.part")
        assert found is not None
        assert (found.pid, is_alive(found)) == (other.pid, True)
        other.send_signal(signal.SIGSTOP)
        assert is_alive(found) is True
        other.kill()
        other.wait()
        assert is_alive(found) is False
        assert writer_of(tmp_path / "step_1.pt.part") == found


def test_a_reused_process_number_is_another_process() -> None:
    me = writer.this_process()
    assert is_alive(me) is True
    assert is_alive(replace(me, started=me.started + 1)) is False


def test_what_cannot_be_told_from_here_is_unknown() -> None:
    me = writer.this_process()
    assert is_alive(replace(me, boot="another machine")) is None
    assert is_alive(replace(me, boot="before the restart"), shared=False) is False
    assert is_alive(replace(me, space=1)) is None


def test_nothing_or_rubbish_names_no_writer(tmp_path: Path) -> None:
    assert writer_of(tmp_path / "nothing.part") is None
    (tmp_path / "a.part").write_bytes(b"")
    assert writer_of(tmp_path / "a.part") is None
    os.setxattr(tmp_path / "a.part", writer.ATTRIBUTE, b"[1, 2")
    assert writer_of(tmp_path / "a.part") is None


def test_the_same_process_cannot_write_a_name_twice_at_once(tmp_path: Path) -> None:
    with prune.publish(tmp_path / "step_1.pt") as file:
        file.write(b"first")
        with pytest.raises(Busy, match="this very process"):
            save(tmp_path / "step_1.pt")
    assert (tmp_path / "step_1.pt").read_bytes() == b"first"


def test_a_child_that_inherited_the_lock_of_a_dead_writer_holds_nobody_up(tmp_path: Path) -> None:
    fork_and_die = """
import os, signal, sys, time, prune
publication = prune.publish(sys.argv[1], step=1)
file = publication.__enter__()
file.write(b"theirs")
child = os.fork()
if child == 0:
    time.sleep(600)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    child = int(_first_line(fork_and_die, tmp_path / "step_1.pt"))
    try:
        save(tmp_path / "step_1.pt")
        assert (tmp_path / "step_1.pt").read_bytes() == b"ours"
    finally:
        os.kill(child, signal.SIGKILL)


def _first_line(script: str, path: Path) -> str:
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    process.wait()
    return line


def test_a_writer_taken_for_dead_publishes_nothing(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no longer the file"), prune.publish(tmp_path / "step_1.pt") as file:
        file.write(b"the slow one")
        os.unlink(file.name)
        with prune.publish(tmp_path / "step_1.pt") as other:
            other.write(b"the other one")
    assert (tmp_path / "step_1.pt").read_bytes() == b"the other one"


def test_a_writer_taken_for_dead_leaves_the_other_ones_temporary_alone(tmp_path: Path) -> None:
    with contextlib.ExitStack() as other_stack:
        with pytest.raises(ZeroDivisionError), prune.publish(tmp_path / "step_1.pt") as file:
            file.write(b"the slow one")
            os.unlink(file.name)
            other = other_stack.enter_context(prune.publish(tmp_path / "step_1.pt"))
            other.write(b"the other one")
            raise ZeroDivisionError
        assert names(tmp_path) == ["step_1.pt.part"]
    assert (tmp_path / "step_1.pt").read_bytes() == b"the other one"


@pytest.mark.parametrize(
    ("grip", "shared", "age_s", "alive", "expected"),
    [
        (claims.Grip.THEIRS, False, 9999, True, True),
        (claims.Grip.THEIRS, False, 9999, None, True),
        (claims.Grip.THEIRS, True, 9999, False, False),  # a forked child of a dead one
        (claims.Grip.OURS, False, 0, True, False),  # the kernel knows best
        (claims.Grip.OURS, False, 0, None, False),
        (claims.Grip.OURS, True, 0, None, True),  # a lock that may not reach the other machine
        (claims.Grip.OURS, True, 9999, None, False),
        (claims.Grip.OURS, True, 0, False, False),
        (claims.Grip.NONE, False, 9999, True, True),
        (claims.Grip.NONE, False, 0, None, True),
        (claims.Grip.NONE, False, 9999, None, False),
        (claims.Grip.NONE, False, 0, False, False),
    ],
)
def test_who_may_still_live(
    grip: claims.Grip, shared: bool, age_s: int, alive: bool | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "is_alive", lambda *_, **__: alive)
    mtime_ns = time.time_ns() - age_s * 1_000_000_000
    note = writer.this_process()
    assert claims.may_live(grip, note, shared=shared, mtime_ns=mtime_ns) is expected


def test_where_there_are_no_locks_a_living_writers_note_protects_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with prune.publish(tmp_path / "step_1.pt") as file:
        file.write(b"first")
        with pytest.raises(Busy):
            save(tmp_path / "step_1.pt")
    assert (tmp_path / "step_1.pt").read_bytes() == b"first"


def test_where_files_take_no_attributes_the_note_stands_in_the_control_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object, **__: object) -> bytes:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    for call in ("setxattr", "getxattr", "removexattr"):
        monkeypatch.setattr(os, call, none)
    with prune.publish(tmp_path / "step_1.pt") as file:
        file.write(b"content")
        found = writer_of(file.name)
        assert found is not None
        assert found.pid == os.getpid()
    assert os.listdir(tmp_path / ".prune" / "staging") == []


def test_a_forked_child_that_unwinds_takes_nothing_away_and_publishes_nothing(tmp_path: Path) -> None:
    script = """
import os, sys, prune
root = sys.argv[1]
with prune.publish(os.path.join(root, "step_1.pt")) as file, prune.publish_directory(os.path.join(root, "step-2")) as d:
    file.write(b"a" * 3_000_000)
    (d / "model").write_bytes(b"m")
    if os.fork() == 0:
        sys.exit(0)
    os.wait()
    file.write(b"b")
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=60, stderr=subprocess.DEVNULL)
    assert names(tmp_path) == ["step-2", "step_1.pt"]
    assert fits(tmp_path, manifest(tmp_path, "step_1.pt"))
    assert fits(tmp_path, manifest(tmp_path, "step-2"))


def test_a_child_forked_during_a_save_keeps_no_lock_on_the_published_file(tmp_path: Path) -> None:
    with prune.publish(tmp_path / "step_1.pt") as file:
        file.write(b"content")
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
    try:
        with (tmp_path / "step_1.pt").open("rb") as published:
            fcntl.flock(published, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_of_many_writers_that_start_at_once_exactly_one_publishes_a_whole_file(tmp_path: Path) -> None:
    script = """
import sys, time, prune
path, mark, start = sys.argv[1], sys.argv[2].encode(), float(sys.argv[3])
while time.time() < start: pass
try:
    with prune.publish(path, step=1) as file:
        for _ in range(40):
            file.write(mark * 50_000)
        time.sleep(0.3)
except prune.errors.Busy:
    sys.exit(9)
"""
    for _ in range(4):
        start = str(time.time() + 1.0)
        writers = [
            subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "step_1.pt"), mark, start])
            for mark in "abcd"
        ]
        codes = [process.wait() for process in writers]
        assert codes.count(0) >= 1, codes
        assert set(codes) <= {0, 9}, codes
        data = (tmp_path / "step_1.pt").read_bytes()
        assert len(data) == 2_000_000
        assert len(set(data)) == 1
        assert fits(tmp_path, manifest(tmp_path, "step_1.pt"))
        assert names(tmp_path) == ["step_1.pt"]
