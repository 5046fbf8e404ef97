"""One root on a local file system, reached by directory descriptors and never through a symlink below it."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat as modes
import threading
from collections.abc import Iterator
from typing import BinaryIO

from prune.model import Kind
from prune.stores.base import Entry, FileStat, Space
from prune.stores.measure import Measure, file_stat
from prune.stores.renames import EXCHANGE, rename_new_at, renameat2
from prune.stores.tree import open_below, parts, remove_at, sum_at
from prune.stores.walking import listed_kind, walk_at

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_AT_HAND = 64


class _Hand(threading.local):
    """Folders that one thread keeps open; None while it keeps none."""

    folders: dict[str, int] | None = None


class LocalRoot:
    """A root directory held open. The root's own path may lead through links; nothing below it is followed.

    Raises OSError from the constructor when the root cannot be opened as a directory.
    """

    keeps_inodes = True  # False where numbers of inodes change while nothing else does: they are all told as 0

    def __init__(self, root: str) -> None:
        self.root = root
        self.real = os.path.realpath(root)
        self.fd = os.open(self.real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        status = os.fstat(self.fd)
        self.dev, self.ino = status.st_dev, status.st_ino
        self._hand = _Hand()

    @classmethod
    def at(cls, fd: int) -> LocalRoot:
        """A root by a descriptor that somebody else opened, and will close."""
        root = cls.__new__(cls)
        root.root = root.real = f"/proc/self/fd/{fd}"
        root.fd = fd
        root._hand = _Hand()
        status = os.fstat(fd)
        root.dev, root.ino = status.st_dev, status.st_ino
        return root

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> LocalRoot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- reading ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def directory(self, path: str) -> Iterator[int]:
        """An open descriptor of a directory below the root, reached component by component without links."""
        fd = open_below(self.fd, path)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The descriptor of the directory that holds ``path``, and the last name."""
        head, _, name = path.rpartition("/")
        parts(name)
        if not head:
            yield self.fd, name
        elif self._hand.folders is not None:
            yield self._kept_at_hand(head, self._hand.folders), name
        else:
            with self.directory(head) as fd:
                yield fd, name

    @contextlib.contextmanager
    def at_hand(self) -> Iterator[None]:
        """While the block runs, folders this thread reached stay open: for many small reads in few folders.

        Only for reading what is compared with an identity afterwards: a folder that is replaced meanwhile is still
        read as it was.
        """
        if self._hand.folders is not None:
            yield
            return
        self._hand.folders = {}
        try:
            yield
        finally:
            held, self._hand.folders = self._hand.folders, None
            for fd in held.values():
                os.close(fd)

    def _kept_at_hand(self, folder: str, held: dict[str, int]) -> int:
        if folder not in held:
            if len(held) >= _AT_HAND:
                os.close(held.pop(next(iter(held))))
            with self.directory(folder) as fd:
                held[folder] = os.dup(fd)
        return held[folder]

    def scan(self, path: str = "") -> Iterator[Entry]:
        prefix = f"{path}/" if path else ""
        with self.directory(path) as fd, os.scandir(fd) as entries:
            for entry in entries:
                yield Entry(prefix + entry.name, listed_kind(entry))

    def stat(self, path: str) -> FileStat:
        if not path:
            return file_stat(os.fstat(self.fd), inodes=self.keeps_inodes)
        with self.parent(path) as (fd, name):
            return file_stat(os.stat(name, dir_fd=fd, follow_symlinks=False), inodes=self.keeps_inodes)

    def walk(self, path: str) -> Iterator[tuple[Entry, FileStat]]:
        top = self.stat(path)
        if top.kind is not Kind.DIR:
            yield Entry(path, top.kind), top
            return
        with self.directory(path) as fd:
            yield from walk_at(fd, path, inodes=self.keeps_inodes)

    def measure(self, path: str, *, inodes: set[int] | None = None) -> Measure:
        """Sums over a file, or over a directory and all below it. Raises OSError if any of it cannot be looked at."""
        total = Measure(inodes)
        with self.parent(path) as (parent, name):
            sum_at(parent, name, path, total)
        return total

    def open(self, path: str) -> BinaryIO:
        head, _, name = path.rpartition("/")
        held = self._hand.folders
        if held is not None and head in held:  # the quick way to the next of many files in one folder
            (name,) = parts(name)
            fd = os.open(name, _READ, dir_fd=held[head])
        else:
            with self.parent(path) as (parent, name):
                fd = os.open(name, _READ, dir_fd=parent)
        if not modes.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "not a plain file", path)
        return io.BufferedReader(io.FileIO(fd))

    def readlink(self, path: str) -> str:
        with self.parent(path) as (parent, name):
            return os.readlink(name, dir_fd=parent)

    def exists(self, path: str) -> bool:
        """Whether the name is there; raises OSError when that cannot be told."""
        try:
            self.stat(path)
        except FileNotFoundError:
            return False
        return True

    def space(self) -> Space:
        """Room for an ordinary user on this root's volume."""
        found = os.fstatvfs(self.fd)
        counted = found.f_files > 0
        return Space(
            found.f_bavail * found.f_frsize,
            found.f_blocks * found.f_frsize,
            found.f_favail if counted else None,
            found.f_files if counted else None,
        )

    def still_there(self) -> bool:
        """Whether the root's path still leads to the directory that is held open."""
        try:
            status = os.stat(self.real)
            mine = os.fstat(self.fd)
        except OSError:
            return False
        # Where the very directory that is open has another number than it had, numbers tell nothing.
        same = status.st_ino == mine.st_ino or mine.st_ino != self.ino
        return same and status.st_dev == mine.st_dev

    # --- writing ---------------------------------------------------------------------------------------------

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        with self.parent(path) as (parent, name):
            os.mkdir(name, mode, dir_fd=parent)

    def rename(self, source: str, target: str, *, into: LocalRoot | None = None) -> None:
        """Renames within the root, or into another one, replacing what is there as rename(2) does."""
        with self.parent(source) as (src, old), (into or self).parent(target) as (dst, new):
            os.rename(old, new, src_dir_fd=src, dst_dir_fd=dst)

    def rename_new(self, source: str, target: str, *, into: LocalRoot | None = None) -> None:
        """Renames and never replaces. Raises FileExistsError when the target is there."""
        with self.parent(source) as (src, old), (into or self).parent(target) as (dst, new):
            rename_new_at(src, old, dst, new)

    def exchange(self, one: str, other: str, *, into: LocalRoot | None = None) -> None:
        """Swaps two names atomically, the other one also in another root. Raises OSError(EINVAL) where the file
        system cannot."""
        with self.parent(one) as (src, old), (into or self).parent(other) as (dst, new):
            renameat2(src, old, dst, new, EXCHANGE)

    def unlink(self, path: str) -> None:
        with self.parent(path) as (parent, name):
            os.unlink(name, dir_fd=parent)

    def rmdir(self, path: str) -> None:
        with self.parent(path) as (parent, name):
            os.rmdir(name, dir_fd=parent)

    def remove(self, path: str) -> int:
        """Removes a file, or a directory with all below it, on this device only; returns how many files went.

        Raises OSError at the first entry that cannot be removed, after trying all the others.
        """
        with self.parent(path) as (parent, name):
            return remove_at(parent, name, self.dev)

    def set_mtime(self, path: str, mtime_ns: int) -> None:
        """Sets the mtime of a directory; its atime stays."""
        with self.directory(path) as fd:
            os.utime(fd, ns=(os.fstat(fd).st_atime_ns, mtime_ns))

    def fsync(self, path: str = "") -> None:
        """Makes the names in a directory durable."""
        with self.directory(path) as fd:
            sync_directory(fd)

    def create(self, path: str, mode: int = 0o666) -> BinaryIO:
        """A new file for writing. Raises FileExistsError when the name is taken."""
        with self.parent(path) as (parent, name):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.fdopen(os.open(name, flags, mode, dir_fd=parent), "w+b")

    def write_atomic(self, path: str, data: bytes) -> None:
        """Writes a small file under ``path.next``, syncs it and renames it over ``path``."""
        with self.parent(path) as (parent, name):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(name + ".next", flags, 0o666, dir_fd=parent)
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(name + ".next", name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name + ".next", dir_fd=parent)
                raise
            sync_directory(parent)

    def append(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Appends to a file that is there, and syncs it."""
        with self.parent(path) as (parent, name):
            fd = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            try:
                _write_all(fd, data)
                if sync:
                    os.fdatasync(fd)
            finally:
                os.close(fd)


def sync_directory(fd: int) -> None:
    """fsync of a directory; file systems that know no such thing are taken at their word."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
            raise


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
