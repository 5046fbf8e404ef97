"""A file seen through small reads at known places, and what a look at it can end with."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import BinaryIO

from prune.integrity import stream

EDGE = 4096  # bytes looked at on either end
MOST = 64 << 20  # no single read is longer, whatever length a file claims


class Damage(ValueError):
    """Evidence that a file is damaged, as the rest of a sentence that begins with its name."""


class Doubt(ValueError):
    """Something is off with a file and nothing decides."""


class Window:
    """Reads at offsets of one open file, or of a part of it, each bounded.

    The length is the file's own, not one that was listed. Raises OSError where the file cannot be read.
    """

    def __init__(self, file: BinaryIO, start: int = 0, size: int | None = None) -> None:
        self.file = file
        self.start = start
        self._fd = stream.descriptor(file)
        end = file.seek(0, os.SEEK_END) if self._fd is None else os.fstat(self._fd).st_size
        rest = max(0, end - start)
        self.size = rest if size is None else min(size, rest)
        self._head: bytes | None = None
        self._tail: bytes | None = None

    @classmethod
    def over(cls, data: bytes) -> Window:
        """A window on bytes in memory."""
        return cls(io.BytesIO(data))

    def part(self, offset: int, size: int) -> Window:
        """A window on some of these bytes."""
        return Window(self.file, self.start + offset, min(size, max(0, self.size - offset)))

    def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer where the window ends, none outside of it."""
        if offset < 0 or offset >= self.size or length <= 0:
            return b""
        start, length = self.start + offset, min(length, self.size - offset, MOST)
        if self._fd is not None:
            return _read_at(self._fd, length, start)
        self.file.seek(start)
        return self.file.read(length)

    def exactly(self, offset: int, length: int, what: str) -> bytes:
        """Exactly ``length`` bytes from ``offset``. Raises Damage naming ``what`` when the file has no such bytes."""
        if length > MOST:
            raise Damage(f"{what} claims {length} bytes, more than any has")
        data = self.read(offset, length)
        if len(data) != length:
            raise Damage(f"{what} reaches to byte {offset + length}, the file has {self.size}")
        return data

    def pieces(self, offset: int, length: int) -> Iterator[memoryview]:
        """The bytes from ``offset``, piece by piece, each valid until the next; fewer where the window ends."""
        length = min(length, max(0, self.size - offset))
        yield from stream.pieces(self.file, self.start + offset, length)

    @property
    def head(self) -> bytes:
        if self._head is None:
            self._head = self.read(0, EDGE)
        return self._head

    @property
    def tail(self) -> bytes:
        if self._tail is None:
            self._tail = self._read_tail()
        return self._tail

    def _read_tail(self) -> bytes:
        return self.head if self.size <= EDGE else self.read(self.size - EDGE, EDGE)

    @property
    def blank(self) -> bool:
        """Whether head and tail are nothing but zero bytes."""
        return self.size > 0 and not any(self.head) and not any(self.tail)


def _read_at(fd: int, length: int, start: int) -> bytes:
    """One read mostly: a file that ends, or a slow file system, may give less at a time."""
    data = os.pread(fd, length, start)
    if len(data) == length or not data:
        return data
    found = [data]
    while data and (length := length - len(data)):
        start += len(data)
        data = os.pread(fd, length, start)
        found.append(data)
    return b"".join(found)
