"""One file from one place to another: copied in the kernel, synced, read back, and both sides' hashes compared.

Hashing the source runs beside the copying, reading back what landed beside the syncing, so that neither costs the
time of a second pass.
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

from prune.publish.stream import start_writing_back

SMALL = 4 << 20  # a file of no more bytes is copied in one thread
_STRIDE = 16 << 20  # bytes asked of the kernel in one call: what a wish to stop has to wait for
_PIECE = 128 << 10  # buffers of about this size hash fastest
_NO_OFFLOAD = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EBADF, errno.ETXTBSY})

Tick = Callable[[int], None]  # told the bytes just copied; what it raises stops the copying


class Differs(Exception):
    """What landed is not what was sent."""


class SourceDamaged(Exception):
    """The source is not what its manifest or sidecar says."""


@dataclass(frozen=True, slots=True)
class Landed:
    """What was read back of a file: its length and SHA-256."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """How files are copied. ``cold`` reads back from the device and not from memory.

    ``landed`` is called with the open target when all bytes were handed over and before they are checked.
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
        with ThreadPoolExecutor(1, thread_name_prefix="hash") as beside:
            follower = _Follower(source) if expected is None else None
            sent = beside.submit(follower.run, size) if follower else None
            try:
                self._move(source, target, size, follower)
                self.landed(target)
                back = self._read_back(beside, target, size, wait_for=sent)
            except BaseException:
                if follower is not None:
                    follower.give_up()
                raise
        return _compared(source, size, back, expected or (sent.result() if sent else None), recorded=expected)

    def _move(self, source: int, target: int, size: int, follower: _Follower | None) -> None:
        at = _kept_beginning(target, size)
        if follower is not None:
            follower.reached(at)
        for start, end in _segments(source, at, size):
            at = start
            while at < end:
                moved = _hand_over(source, target, at, min(_STRIDE, end - at))
                if not moved:
                    raise OSError(errno.EIO, "the source became shorter while it was copied")
                start_writing_back(target, at, moved)
                at += moved
                if follower is not None:
                    follower.reached(at)
                self.tick(moved)
        os.ftruncate(target, size)  # a hole at the end is no segment
        if follower is not None:
            follower.reached(size)

    def _read_back(self, beside: ThreadPoolExecutor, target: int, size: int, *, wait_for: Future[str] | None) -> str:
        if self.cold:
            os.fsync(target)
            os.posix_fadvise(target, 0, 0, os.POSIX_FADV_DONTNEED)
            return beside.submit(_hash, target, size).result()
        back = beside.submit(_hash, target, size)  # behind the source's hash, beside the syncing
        os.fsync(target)
        found = back.result()
        os.posix_fadvise(target, 0, 0, os.POSIX_FADV_DONTNEED)  # nobody trains from the mirror
        return found

    def _copy_small(self, source: int, target: int, size: int, expected: str | None) -> Landed:
        _kept_beginning(target, 0)
        digest, at = hashlib.sha256(), 0
        while at < size:
            piece = os.pread(source, min(1 << 20, size - at), at)
            if not piece:
                raise OSError(errno.EIO, "the source became shorter while it was copied")
            digest.update(piece)
            _write(target, piece, at)
            at += len(piece)
            self.tick(len(piece))
        self.landed(target)
        os.fsync(target)
        if self.cold:
            os.posix_fadvise(target, 0, 0, os.POSIX_FADV_DONTNEED)
        back = _hash(target, size)
        return _compared(source, size, back, digest.hexdigest(), recorded=expected)


@contextlib.contextmanager
def _as_it_was(source: int, size: int) -> Iterator[None]:
    """Leaves memory to the training job: a source that was not in it is dropped from it again."""
    cold = _is_cold(source, size // 2)
    try:
        yield
    finally:
        if cold:
            os.posix_fadvise(source, 0, 0, os.POSIX_FADV_DONTNEED)


def _is_cold(fd: int, at: int) -> bool:
    """Whether a byte is not in memory; False where that cannot be told."""
    try:
        os.preadv(fd, [bytearray(1)], at, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


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
            at = _feed(digest, self._fd, buffer, at, upto)
        return digest.hexdigest()


def _compared(source: int, size: int, back: str, sent: str | None, *, recorded: str | None) -> Landed:
    """What landed, when it is what was recorded or sent; else whose fault it is."""
    if recorded is not None and back != recorded:
        found = _hash(source, size) if sent is None or sent == recorded else sent
        if found != recorded:
            raise SourceDamaged(f"expected SHA-256 {recorded}, found {found} ({size} bytes)")
        raise Differs(f"expected SHA-256 {recorded}, read back {back}: the bytes changed on their way")
    if back != sent and recorded is None:
        raise Differs(f"sent SHA-256 {sent}, read back {back}: the bytes changed on their way")
    return Landed(size, back)


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


def _write(target: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(target, view, at)
        view, at = view[done:], at + done


def _hash(fd: int, size: int) -> str:
    digest = hashlib.sha256()
    _feed(digest, fd, memoryview(bytearray(_PIECE)), 0, size)
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, fd: int, buffer: memoryview, at: int, upto: int) -> int:
    while at < upto:
        got = os.preadv(fd, [buffer[: min(len(buffer), upto - at)]], at)
        if not got:
            raise OSError(errno.EIO, "the file became shorter while it was read")
        digest.update(buffer[:got])
        at += got
    return at
