from __future__ import annotations

import hashlib
import io
import mmap
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prune.publish.stream import GATHER, PIECE, PartFile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[PartFile]:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    handed = PartFile(fd, str(tmp_path / "file"))
    yield handed
    handed.release()
    os.close(fd)


def finish(file: PartFile) -> bytes:
    """Ends the file, checks what it says of itself, and returns its bytes."""
    said = file.finish(file._fd)
    data = Path(file.name).read_bytes()
    assert said.size == len(data)
    assert said.sha256 == hashlib.sha256(data).hexdigest()
    return data


def reads_back(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collects the lengths of what is read from now on."""
    lengths: list[int] = []
    real = os.pread

    def pread(fd: int, length: int, offset: int) -> bytes:
        lengths.append(length)
        return real(fd, length, offset)

    monkeypatch.setattr(os, "pread", pread)
    return lengths


@pytest.mark.parametrize("chunk", [1, 1000, GATHER - 1, GATHER, PIECE + 7])
def test_what_is_written_in_order_is_never_read_back(
    file: PartFile, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = reads_back(monkeypatch)
    data = os.urandom(min(3 * chunk, 9 << 20) if chunk > 1 else 5000)
    for at in range(0, len(data), chunk):
        assert file.write(data[at : at + chunk]) == len(data[at : at + chunk])
    assert file.tell() == len(data)
    assert finish(file) == data
    assert lengths == []


def test_a_buffer_that_changes_after_the_write_is_hashed_as_it_was_written(file: PartFile) -> None:
    buffer = bytearray(os.urandom(2 * PIECE + 1))
    first = bytes(buffer)
    file.write(buffer)
    buffer[:] = bytes(len(buffer))
    file.write(buffer)
    assert finish(file) == first + bytes(len(buffer))


def test_what_is_written_over_has_the_right_hash(file: PartFile) -> None:
    file.write(b"a" * (3 << 20))
    file.seek(5)
    file.write(b"XY")
    file.seek(0, os.SEEK_END)
    file.write(b"end")
    assert finish(file) == b"a" * 5 + b"XY" + b"a" * ((3 << 20) - 7) + b"end"


def test_what_is_skipped_reads_as_zeros(file: PartFile) -> None:
    file.seek(1000)
    file.write(b"x")
    assert finish(file) == bytes(1000) + b"x"


def test_what_is_cut_off_is_not_hashed(file: PartFile) -> None:
    file.write(b"a" * (2 << 20))
    file.truncate(10)
    file.seek(0, os.SEEK_END)
    file.write(b"b")
    assert finish(file) == b"a" * 10 + b"b"


def test_it_reads_what_was_written(file: PartFile) -> None:
    file.write(b"hello world")
    file.seek(6)
    assert file.read(3) == b"wor"
    into = bytearray(8)
    assert file.readinto(into) == 2
    assert file.read() == b""
    file.seek(0)
    assert io.BufferedReader(file).read() == b"hello world"  # type: ignore[type-var]


def test_whoever_writes_to_the_descriptor_shares_the_position_and_the_hash(file: PartFile) -> None:
    file.write(b"abc")
    os.write(file.fileno(), b"D")
    os.write(file.fileno(), b"EF")
    file.write(b"ghi")
    assert file.tell() == 9
    os.fsync(file.fileno())
    file.seek(1)
    os.write(file.fileno(), b"!")
    assert finish(file) == b"a!cDEFghi"


@pytest.mark.parametrize("mapped", [False, True])
def test_whoever_writes_over_it_by_its_path_shares_the_hash(file: PartFile, mapped: bool) -> None:
    """Also where its length stays: a header by hand, the arrays mapped into memory by another library."""
    file.write(b"header" + bytes(PIECE))
    file.flush()
    with open(file.name, "r+b") as other:
        if mapped:
            with mmap.mmap(other.fileno(), 0) as memory:
                memory[6:11] = b"array"
        else:
            other.seek(6)
            other.write(b"array")
    assert finish(file) == b"headerarray" + bytes(PIECE - 5)


def test_closing_it_loses_nothing_and_writing_after_it_is_an_error(file: PartFile) -> None:
    file.write(b"content")
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.write(b"more")
    assert finish(file) == b"content"


def test_arrays_of_any_order_and_kind_are_taken_by_their_bytes(file: PartFile) -> None:
    np = pytest.importorskip("numpy")
    arrays = [np.arange(6, dtype=">i4"), np.float64(2.5).reshape(()), np.zeros(3, dtype="i4,f8"), np.empty(0)]
    for array in arrays:
        assert file.write(array) == array.nbytes
    assert finish(file) == b"".join(array.tobytes() for array in arrays)


def test_a_seek_to_nowhere_is_an_error(file: PartFile) -> None:
    with pytest.raises(ValueError, match="negative"):
        file.seek(-1)
    with pytest.raises(ValueError, match="whence"):
        file.seek(0, 9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_order_the_bytes_come_in_it_equals_an_ordinary_file(seed: int) -> None:
    chance = random.Random(seed)
    path = f"/tmp/prune-stream-{os.getpid()}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    ours, plain = PartFile(fd, path), io.BytesIO()
    try:
        for _ in range(chance.randrange(1, 30)):
            data = chance.randbytes(chance.choice([0, 1, 500, GATHER // 3, GATHER + 11]))
            match chance.randrange(6):
                case 0:
                    to = chance.randrange(plain.seek(0, 2) + 100)
                    ours.seek(to), plain.seek(to)
                case 1:
                    back = chance.randrange(plain.tell() + 1)
                    ours.seek(-back, 1), plain.seek(-back, 1)
                case 2:
                    cut = chance.randrange(len(plain.getvalue()) + 1)
                    ours.truncate(cut), plain.truncate(cut)
                case 3:
                    assert ours.read(len(data)) == plain.read(len(data))
                case _:
                    ours.write(data), plain.write(data)
            assert ours.tell() == plain.tell()
        assert finish(ours) == plain.getvalue()
    finally:
        ours.release()
        os.close(fd)
        os.unlink(path)
