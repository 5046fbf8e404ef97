"""One file from one place to another: copied in the kernel, hashed on its way, synced, read back and compared.

The source is hashed beside the copying. Then what landed is compared with the source byte by byte beside the syncing,
which costs a fraction of hashing it a second time and proves as much.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from prune.integrity.stream import is_cold
from prune.publish.stream import start_writing_back

SMALL = 4 << 20  # a file of no more bytes is copied by way of memory
_STRIDE = 16 << 20  # bytes asked of the kernel in one call: what a wish to stop has to wait for
_PIECE = 128 << 10  # buffers of about this size stay in the processor's cache
_NO_OFFLOAD = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EBADF, errno.ETXTBSY})

Tick = Callable[[int], None]  # told the bytes just copied; what it raises stops the copying


class Differs(Exception):
    """What landed is not what was sent."""


class SourceDamaged(Exception):
    """The source is not what its manifest or sidecar says."""


@dataclass(frozen=True, slots=True)
class Landed:
    """What landed, and was read back: its length and SHA-256."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """How files are copied. ``cold`` reads back from the device and not from memory.

    ``landed`` is called with the open target when all bytes were handed over and before they are compared.
    """

    tick: Tick = lambda _bytes: None
    cold: bool = False
    landed: Callable[[int], None] = lambda _target: None

    def copy(self, source: int, target: int, expected: str | None) -> Landed:
        """Copies an open file into another one that may hold the beginning of it already, and syncs it.

        ``expected`` is the SHA-256 recorded for the source, None where none is. Raises Differs, SourceDamaged,
        OSError, and whatever ``tick`` raises.
        """
        size = os.fstat(source).st_size
        if size <= SMALL:
            return self._copy_small(source, target, size, expected)
        with _as_it_was(source, size):
            return self._copy_big(source, target, size, expected)

    def _copy_big(self, source: int, target: int, size: int, expected: str | None) -> Landed:
        follower = _Follower(source)
        with ThreadPoolExecutor(2, thread_name_prefix="mirror") as beside:
            sent = beside.submit(follower.run, size)
            try:
                self._move(source, target, size, follower)
                self.landed(target)
                astray = self._read_back(beside, source, target, size)
            except BaseException:
                follower.give_up()
                raise
        return _judged(size, sent, astray.result(), expected)

    def _move(self, source: int, target: int, size: int, follower: _Follower) -> None:
        at = _kept_beginning(target, size)
        follower.reached(at)
        for start, end in _segments(source, at, size):
            at = start
            while at < end:
                moved = _hand_over(source, target, at, min(_STRIDE, end - at))
                if not moved:
                    raise OSError(errno.EIO, "the source became shorter while it was copied")
                start_writing_back(target, at, moved)
                at += moved
                follower.reached(at)
                self.tick(moved)
        os.ftruncate(target, size)  # a hole at the end is no segment
        follower.reached(size)

    def _read_back(self, beside: ThreadPoolExecutor, source: int, target: int, size: int) -> Future[int | None]:
        if self.cold:
            os.fsync(target)
            os.posix_fadvise(target, 0, 0, os.POSIX_FADV_DONTNEED)
            return beside.submit(_first_difference, source, target, size)
        astray = beside.submit(_first_difference, source, target, size)
        os.fsync(target)
        astray.result()
        os.posix_fadvise(target, 0, 0, os.POSIX_FADV_DONTNEED)  # nobody trains from the mirror
        return astray

    def _copy_small(self, source: int, target: int, size: int, expected: str | None) -> Landed:
        data = _read(source, 0, size)
        if len(data) < size:
            raise OSError(errno.EIO, "the source became shorter while it was copied")
        sent = hashlib.sha256(data).hexdigest()
        if expected not in (None, sent):
            raise SourceDamaged(_damage(expected, sent, size))
        os.ftruncate(target, 0)
        _write(target, data, 0)
        self.tick(size)
        self.landed(target)
        os.fsync(target)
        if self.cold:
            os.posix_fadvise(target, 0, 0, os.POSIX_FADV_DONTNEED)
        if _read(target, 0, size + 1) != data:
            raise Differs(_ASTRAY)
        return Landed(size, sent)


_ASTRAY = "what was read back is not what was sent: the bytes changed on their way"


def _judged(size: int, sent: Future[str], astray: int | None, expected: str | None) -> Landed:
    """What landed, when it is what was recorded and sent; else whose fault it is."""
    digest = sent.result()
    if expected not in (None, digest):
        raise SourceDamaged(_damage(expected, digest, size))
    if astray is not None:
        raise Differs(f"from byte {astray} on, {_ASTRAY}")
    return Landed(size, digest)


def _damage(expected: str | None, found: str, size: int) -> str:
    return f"expected SHA-256 {expected}, found {found} ({size} bytes)"


@contextlib.contextmanager
def _as_it_was(source: int, size: int) -> Iterator[None]:
    """Leaves memory to the training job: a source that was not in it is dropped from it again."""
    cold = is_cold(source, size // 2)
    try:
        yield
    finally:
        if cold:
            os.posix_fadvise(source, 0, 0, os.POSIX_FADV_DONTNEED)


class _Follower:
    """Hashes a file behind the one who copies it, while its bytes are still in memory."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._upto = 0
        self._gone = False
        self._more = threading.Condition()

    def reached(self, at: int) -> None:
        with self._more:
            self._upto = max(self._upto, at)
            self._more.notify()

    def give_up(self) -> None:
        with self._more:
            self._gone = True
            self._more.notify()

    def run(self, size: int) -> str:
        digest, at = hashlib.sha256(), 0
        buffer = memoryview(bytearray(_PIECE))
        while at < size:
            with self._more:
                while not self._gone and self._upto <= at:
                    self._more.wait()
                upto = self._upto
            if self._gone:
                return ""
            while at < upto:
                got = os.preadv(self._fd, [buffer[: min(len(buffer), upto - at)]], at)
                if not got:
                    raise OSError(errno.EIO, "the source became shorter while it was read")
                digest.update(buffer[:got])
                at += got
        return digest.hexdigest()


def _first_difference(one: int, other: int, size: int) -> int | None:
    """Where two files of the same length begin to differ, to the piece; None where they do not."""
    for at in range(0, size, _PIECE):
        length = min(_PIECE, size - at)
        mine, theirs = os.pread(one, length, at), os.pread(other, length, at)
        if len(mine) == length and mine == theirs:
            continue
        mine, theirs = _read(one, at, length), _read(other, at, length)  # one call may give less than there is
        if len(mine) < length or mine != theirs:
            return at
    return None if os.fstat(other).st_size == size else size


def _kept_beginning(target: int, size: int) -> int:
    """How much of the file is there already; what is beyond ``size`` is cut off."""
    there = os.fstat(target).st_size
    if there > size:
        os.ftruncate(target, size)
    return min(there, size)


def _segments(source: int, at: int, size: int) -> Iterator[tuple[int, int]]:
    """The stretches of a file that hold data, from ``at`` on; the whole of it where nothing tells holes."""
    if os.fstat(source).st_blocks * 512 >= size:
        yield at, size
        return
    while at < size:
        try:
            start = os.lseek(source, at, os.SEEK_DATA)
            end = os.lseek(source, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:
                yield at, size
            return
        yield start, min(end, size)
        at = end


def _hand_over(source: int, target: int, at: int, length: int) -> int:
    """Copies up to ``length`` bytes in the kernel, sharing blocks where the file system can; else through memory."""
    for offload in (_copy_file_range, _sendfile):
        try:
            moved = offload(source, target, at, length)
        except OSError as error:
            if error.errno not in _NO_OFFLOAD:
                raise
            continue
        if moved:
            return moved
    piece = os.pread(source, min(length, 1 << 20), at)
    _write(target, piece, at)
    return len(piece)


def _copy_file_range(source: int, target: int, at: int, length: int) -> int:
    return os.copy_file_range(source, target, length, at, at)


def _sendfile(source: int, target: int, at: int, length: int) -> int:
    os.lseek(target, at, os.SEEK_SET)
    return os.sendfile(target, source, at, length)


def _read(fd: int, at: int, length: int) -> bytes:
    """Up to ``length`` bytes, fewer only where the file ends."""
    found = bytearray()
    while len(found) < length and (piece := os.pread(fd, length - len(found), at + len(found))):
        found += piece
    return bytes(found)


def _write(target: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(target, view, at)
        view, at = view[done:], at + done
