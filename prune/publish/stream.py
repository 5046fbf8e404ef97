"""The file a publication hands out: bytes go to disk and through SHA-256 in one pass, whatever order they come in."""

from __future__ import annotations

import ctypes
import io
import os
from hashlib import sha256
from typing import TYPE_CHECKING

from prune.integrity.hashing import Hashed
from prune.publish.helper import Helper

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

GATHER = 1 << 20  # small writes are gathered up to this much
PIECE = 4 << 20  # large ones are taken apart into this much
_READ = 1 << 20
_WRITE = 2  # SYNC_FILE_RANGE_WRITE: start writing back what is dirty, wait for nothing


class PrefixHash:
    """SHA-256 of a file's beginning, as far as it was seen in order.

    What was seen and is then written over, or cut off, is forgotten; what was skipped is not seen. ``upto`` says
    how much of the file the hash speaks of; the rest is read back at the end.
    """

    def __init__(self) -> None:
        self.upto = 0
        self._hash = sha256()

    def saw(self, offset: int, data: ReadableBuffer, length: int) -> None:
        if offset < self.upto:
            self.forget()
        if offset == self.upto:
            self._hash.update(data)
            self.upto += length

    def cut(self, size: int) -> None:
        if size < self.upto:
            self.forget()

    def forget(self) -> None:
        self.upto = 0
        self._hash = sha256()

    def complete(self, fd: int, size: int) -> str:
        """Reads what was not seen and returns the hash of the whole file in hexadecimal."""
        while self.upto < size:
            data = os.pread(fd, min(_READ, size - self.upto), self.upto)
            if not data:
                raise OSError(5, "the file became shorter while it was read back")
            self.saw(self.upto, data, len(data))
        return self._hash.hexdigest()


class PartFile(io.BufferedIOBase):
    """A writable, readable, seekable binary file. ``name`` is the path of the temporary it writes.

    Closing it publishes nothing and loses nothing: that is the context manager's work. Not for several threads.
    """

    mode = "w+b"

    def __init__(self, fd: int, name: str) -> None:
        super().__init__()
        self._name = name
        self.trouble: OSError | None = None  # the first write that failed: what follows it cannot be trusted
        self._fd = fd
        self._hash = PrefixHash()
        self._helper = Helper()
        self._gathered = bytearray()
        self._start = 0  # where in the file the gathered bytes belong
        self._end = 0  # how long we made the file
        self._lent = False  # somebody has the descriptor and may write past us
        self._told = False  # somebody has the path and may write behind us

    # --- the file --------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The path, for libraries that write to one: the hash is then read back at the end."""
        self._told = True
        return self._name

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        self._check()
        view = _as_bytes(data)
        length = view.nbytes
        self._sync_position()
        if length < GATHER:
            self._gathered += view
            if len(self._gathered) >= GATHER or self._lent:
                self._put_gathered()
        else:
            self._put_gathered()
            # The caller's bytes may change or be gone once we return: what is hashed later is a copy of them.
            ours = type(data) is bytes
            for at in range(0, length, PIECE):
                piece = view[at : at + PIECE]
                self._put(piece if ours else memoryview(bytes(piece)))
        return length

    def tell(self) -> int:
        self._check()
        self._sync_position()
        return self._position()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._check()
        self._sync_position()
        self._put_gathered()
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._start, os.SEEK_END: os.fstat(self._fd).st_size}.get(whence)
        if base is None:
            raise ValueError(f"invalid whence ({whence})")
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._move(base + offset)
        return self._start

    def truncate(self, size: int | None = None, /) -> int:
        self._check()
        self._sync_position()
        self._put_gathered()
        size = self._start if size is None else size
        self._helper.wait()
        os.ftruncate(self._fd, size)
        self._hash.cut(size)
        self._end = size
        return size

    def read(self, size: int | None = -1, /) -> bytes:
        self._check()
        self._sync_position()
        self._put_gathered()
        found = bytearray()
        while size is None or size < 0 or len(found) < size:
            want = _READ if size is None or size < 0 else min(_READ, size - len(found))
            piece = os.pread(self._fd, want, self._start)
            if not piece:
                break
            found += piece
            self._move(self._start + len(piece))
        return bytes(found)

    def read1(self, size: int = -1, /) -> bytes:
        return self.read(_READ if size < 0 else size)

    def flush(self) -> None:
        if not self.closed:
            self._sync_position()
            self._put_gathered()

    def fileno(self) -> int:
        """The descriptor, for fsync and for libraries that write to it: the hash is then read back at the end."""
        self._check()
        self._sync_position()
        self._put_gathered()
        self._lent = True
        self._move(self._start)
        return self._fd

    def isatty(self) -> bool:
        return False

    # --- the end ---------------------------------------------------------------------------------------------

    def finish(self, fd: int) -> Hashed:
        """Flushes, syncs to disk, and returns size and hash of what ``fd`` holds.

        ``fd`` is the file's own descriptor, or that of another file which a library put in its place. Raises the
        OSError of the first write that failed, also where whoever wrote passed it over.
        """
        self.flush()
        if self.trouble is not None:
            raise self.trouble
        self._helper.wait()
        size = os.fstat(fd).st_size
        if fd != self._fd or self._lent or self._told or size != self._end:
            self._hash.forget()
        digests: list[str] = []
        self._helper.start(lambda: digests.append(self._hash.complete(fd, size)))
        try:
            os.fsync(fd)
        finally:
            self._helper.wait()
        return Hashed(size, digests[0])

    def release(self) -> None:
        """Ends the helping thread. The descriptor is its owner's to close."""
        self._helper.stop()
        self._gathered.clear()
        self.close()

    # --- inside ----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on a closed file")

    def _position(self) -> int:
        return self._start + len(self._gathered)

    def _move(self, position: int) -> None:
        self._start = position
        if self._lent:
            os.lseek(self._fd, position, os.SEEK_SET)

    def _sync_position(self) -> None:
        """Where the descriptor is lent, its own offset is the position: others move it."""
        if self._lent:
            self._start = os.lseek(self._fd, 0, os.SEEK_CUR)

    def _put_gathered(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, bytearray()
            self._put(memoryview(gathered))

    def _put(self, view: memoryview) -> None:
        """Writes bytes that nobody will change any more, and has them hashed."""
        offset, length = self._start, view.nbytes
        try:
            _write_at(self._fd, view, offset)
        except OSError as error:
            error.filename = error.filename or self._name
            self.trouble = self.trouble or error
            raise
        self._move(offset + length)
        self._end = max(self._end, self._start)
        self._helper.start(lambda: self._hash.saw(offset, view, length))
        start_writing_back(self._fd, offset, length)


def _write_at(fd: int, view: memoryview, offset: int) -> None:
    while view:
        done = os.pwrite(fd, view, offset)
        view, offset = view[done:], offset + done


def start_writing_back(fd: int, offset: int, length: int) -> None:
    """Lets the disk begin with these bytes while the next are made. A hint: sync(2) at the end is what counts."""
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "sync_file_range"):
        libc.sync_file_range(fd, ctypes.c_int64(offset), ctypes.c_int64(length), ctypes.c_uint(_WRITE))


def _as_bytes(data: ReadableBuffer) -> memoryview:
    view = memoryview(data)
    if view.nbytes == 0:
        return memoryview(b"")
    try:
        return view.cast("B")
    except (TypeError, ValueError):  # a foreign byte order, records, no dimension
        return memoryview(view.tobytes())
