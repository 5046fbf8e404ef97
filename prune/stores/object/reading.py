"""One object as a seekable file: read in ranges that grow as long as it is read in order."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from prune.stores.object.client import Bucket, Object
from prune.stores.object.troubles import Changed

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

FIRST = 128 << 10  # bytes of the first range: heads and tails of formats fit
LARGEST = 8 << 20
WHOLE = 1 << 20  # an object of no more bytes is fetched at once


class ObjectFile(io.RawIOBase):
    """Reads one version of an object: the first answer must be of the one that ``is_it``, all others of the same.

    Reading raises Changed when it is another one by now, OSError.
    """

    def __init__(self, bucket: Bucket, key: str, size: int, is_it: Callable[[Object], bool]) -> None:
        self.bucket, self.key, self.size, self._is_it = bucket, key, size, is_it
        self.etag = ""
        self.name = f"{bucket.address}/{key}"
        self._at = 0
        self._start = 0
        self._window = b""
        self._next = size if size <= WHOLE else FIRST

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.name)
        self._at = base + offset
        return self._at

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        if self._at >= self.size or not view:
            return 0
        if not self._start <= self._at < self._start + len(self._window):
            self._fetch(len(view))
        begin = self._at - self._start
        piece = self._window[begin : begin + len(view)]
        view[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def _fetch(self, wanted: int) -> None:
        in_order = self._at == self._start + len(self._window) and self._at > 0
        self._next = min(LARGEST, self._next * 2) if in_order else min(self._next, max(FIRST, WHOLE))
        start = 0 if self.size <= WHOLE else self._at
        length = min(max(self._next, min(wanted, LARGEST)), self.size - start)
        self._window, found = self.bucket.read_range(self.key, start, length, etag=self.etag)
        if not self.etag and not self._is_it(found):
            raise Changed(errno.ESTALE, "it is no longer the object that was listed", self.name)
        self.etag = found.etag
        self._start = start
        if len(self._window) < min(length, self._at - start + 1):
            raise OSError(errno.EIO, f"the store sent {len(self._window)} of {length} bytes", self.name)
