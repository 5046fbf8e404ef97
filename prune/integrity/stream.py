"""Whole files read in order, leaving the page cache as it was found where the OS allows.

A training job's own pages are worth more than ours: what was not in memory before is dropped again behind the
reader; what was there stays.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

PIECE = 128 << 10  # buffers of about this size hash fastest: they stay in the processor's cache
_AHEAD, _AHEAD_PIECE = 4, 512 << 10  # buffers handed to and fro between two threads: bigger, so fewer hand-overs
_SEGMENT = 16 << 20  # looked up and dropped as one
Passed = Callable[[int], None]  # told how far into the file the reader has come


def pieces(file: BinaryIO, start: int, length: int) -> Iterator[memoryview]:
    """``length`` bytes from ``start``, piece by piece, each valid only until the next.

    Ends early where the file does. Raises OSError.
    """
    buffer = memoryview(bytearray(min(PIECE, max(1, length))))
    file.seek(start)
    at, end = start, start + length
    while at < end and (got := _fill(file, buffer[: min(len(buffer), end - at)])):
        at += got
        yield buffer[:got]


def pieces_ahead(file: BinaryIO, start: int, length: int) -> Iterator[memoryview]:
    """As :func:`pieces`, read by a thread of its own while the last piece is being used."""
    import threading
    from queue import SimpleQueue

    stopped = threading.Event()
    free: SimpleQueue[memoryview] = SimpleQueue()
    full: SimpleQueue[memoryview | BaseException | None] = SimpleQueue()
    for _ in range(_AHEAD):
        free.put(memoryview(bytearray(_AHEAD_PIECE)))

    def read() -> None:
        try:
            file.seek(start)
            at, end = start, start + length
            while at < end and not stopped.is_set():
                buffer = free.get()
                got = _fill(file, buffer[: min(len(buffer), end - at)])
                if not got:
                    break
                at += got
                full.put(buffer[:got])
            full.put(None)
        except BaseException as error:  # raised again by the one who waits for the next piece
            full.put(error)

    reader = threading.Thread(target=read, name="read-ahead", daemon=True)
    reader.start()
    try:
        while (piece := full.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece
            free.put(memoryview(piece.obj))
    finally:
        stopped.set()
        free.put(memoryview(b""))  # wakes a reader that waits for room
        reader.join()


def _fill(file: BinaryIO, buffer: memoryview) -> int:
    readinto = getattr(file, "readinto", None)
    if readinto is not None:
        return readinto(buffer) or 0
    data = file.read(len(buffer))
    buffer[: len(data)] = data
    return len(data)


@contextlib.contextmanager
def considerate(file: BinaryIO, length: int) -> Iterator[Passed]:
    """Reading a file in order from its start: told how far it has come, drops the pages that were not in memory
    when it began."""
    behind = _Behind(descriptor(file), length)
    try:
        yield behind.passed
    finally:
        behind.drop(behind.at)


class _Behind:
    """The pages behind a reader. Little files are not worth the calls."""

    def __init__(self, fd: int | None, length: int) -> None:
        self.fd = fd if length >= _SEGMENT else None
        self.at = self.segment = 0
        self.cold: list[bool] = []
        if self.fd is not None:
            # looked up before the first read: what the kernel reads ahead for us must not look warm
            middles = range(_SEGMENT // 2, length, _SEGMENT)
            self.cold = [*(is_cold(self.fd, middle) for middle in middles), False]
            os.posix_fadvise(self.fd, 0, length, os.POSIX_FADV_SEQUENTIAL)

    def passed(self, at: int) -> None:
        self.at = max(at, self.at)
        if self.at - self.segment >= _SEGMENT:
            self.drop(self.at // _SEGMENT * _SEGMENT)

    def drop(self, upto: int) -> None:
        if self.fd is not None:
            for segment in range(self.segment, upto, _SEGMENT):
                if self.cold[min(segment // _SEGMENT, len(self.cold) - 1)]:
                    os.posix_fadvise(self.fd, segment, min(_SEGMENT, upto - segment), os.POSIX_FADV_DONTNEED)
        self.segment = upto


def is_cold(fd: int, at: int) -> bool:
    """Whether a byte is not in memory; False where that cannot be told."""
    try:
        os.preadv(fd, [bytearray(1)], at, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def descriptor(file: BinaryIO) -> int | None:
    """The descriptor of a file that has one."""
    try:
        return file.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return None
