"""Hashing: right whatever the threads, told of every byte, stopped when asked."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from prune.integrity import hashing, stream
from prune.integrity.hashing import Hashed, for_each, hash_file, hash_many
from prune.stores.local import LocalRoot
from tests.integrity.made import write

SIZES = (0, 1, stream.PIECE - 1, stream.PIECE, stream.PIECE + 1, 3_000_001)


def bytes_of(size: int) -> bytes:
    return (b"%d " % size * size)[:size]


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_the_hash_is_that_of_the_bytes(size: int, ahead: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "_BIG", 0)
    write(tmp_path, {"a": bytes_of(size)})
    told: list[int] = []
    with LocalRoot(str(tmp_path)) as reader:
        found = hash_file(reader, "a", told.append, ahead=ahead)
    assert found == Hashed(size, hashlib.sha256(bytes_of(size)).hexdigest())
    assert sum(told) == size


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_several_files_are_hashed_each_by_its_name(threads: int, tmp_path: Path) -> None:
    write(tmp_path, {f"d/{size}": bytes_of(size) for size in SIZES})
    told: list[int] = []
    with LocalRoot(str(tmp_path)) as reader:
        found = hash_many(reader, [f"d/{size}" for size in SIZES], threads=threads, tick=told.append)
    assert found == {f"d/{size}": Hashed(size, hashlib.sha256(bytes_of(size)).hexdigest()) for size in SIZES}
    assert sum(told) == sum(SIZES)


def test_a_file_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    write(tmp_path, {"a": b"x"})
    with LocalRoot(str(tmp_path)) as reader:
        found = hash_many(reader, ["a", "gone"])
    assert isinstance(found["a"], Hashed)
    assert isinstance(found["gone"], FileNotFoundError)


@pytest.mark.parametrize("ahead", [False, True])
def test_what_the_progress_raises_stops_the_work(ahead: bool, tmp_path: Path) -> None:
    write(tmp_path, {str(n): bytes(5_000_000) for n in range(4)})

    class Enough(Exception):
        pass

    def enough(_: int) -> None:
        raise Enough

    before = threading.active_count()
    with LocalRoot(str(tmp_path)) as reader:
        with pytest.raises(Enough):
            hash_many(reader, map(str, range(4)), threads=2, tick=enough)
        with pytest.raises(Enough):
            hash_file(reader, "0", enough, ahead=ahead)
    assert threading.active_count() <= before


def test_one_failing_job_stops_the_others_at_their_next_tick() -> None:
    started = threading.Event()

    def job(item: str, tick: hashing.Tick) -> str:
        if item == "bad":
            started.wait(10)
            raise ZeroDivisionError
        started.set()
        while True:
            tick(1)

    with pytest.raises(ZeroDivisionError):
        for_each(["endless", "bad"], job, threads=2)


def test_a_file_that_shrinks_while_it_is_read_ends_where_it_ends(tmp_path: Path) -> None:
    write(tmp_path, {"a": bytes_of(3_000_000)})
    with open(tmp_path / "a", "rb") as file:
        os.truncate(tmp_path / "a", 1000)
        assert sum(len(piece) for piece in stream.pieces(file, 0, 3_000_000)) == 1000
        assert sum(len(piece) for piece in stream.pieces_ahead(file, 0, 3_000_000)) == 1000


def test_an_error_of_the_reading_thread_is_raised_to_the_caller() -> None:
    class Bad:
        def seek(self, *_: int) -> int:
            return 0

        def readinto(self, _: memoryview) -> int:
            raise OSError(5, "Input/output error")

    file: BinaryIO = Bad()  # type: ignore[assignment]
    with pytest.raises(OSError, match="Input/output"):
        list(stream.pieces_ahead(file, 0, 10))


def resident(path: Path) -> int:
    """Bytes of a file in the page cache, or skips."""
    try:
        out = subprocess.run(["fincore", "-nbo", "RES", str(path)], capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("fincore is not installed")
    return int(out.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's page cache")
def test_pages_that_were_not_in_memory_do_not_stay_and_those_that_were_do(tmp_path: Path) -> None:
    path, size = tmp_path / "a", 96 << 20
    with open(path, "wb") as file:
        file.write(os.urandom(size))
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if resident(path) > size // 10:
        pytest.skip("this file system keeps its pages")
    with LocalRoot(str(tmp_path)) as reader:
        hash_file(reader, "a")
        assert resident(path) < size // 3
        path.read_bytes()
        hash_file(reader, "a")
        assert resident(path) > size // 2
