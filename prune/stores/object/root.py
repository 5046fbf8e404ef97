"""A prefix of a bucket, read as a root.

Keys are files, common prefixes are directories whose time is that of the newest object below them. What is listed is
remembered until ``refresh``: one listing of everything below answers every question about names, sizes and times.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import threading
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import BinaryIO, cast

from prune.model import Kind
from prune.stores.base import Entry, FileStat, Space
from prune.stores.local import LocalRoot
from prune.stores.measure import Measure
from prune.stores.object.address import Address
from prune.stores.object.client import Bucket, Object, bucket
from prune.stores.object.listing import everything
from prune.stores.object.reading import ObjectFile
from prune.stores.object.tree import Folder, Tree, some_file, status_of, walk
from prune.stores.object.troubles import Changed

_TRIES = 5


class ObjectRoot(LocalRoot):
    """Answers what a local root answers when it is read. Nothing in it can be renamed, linked or locked.

    ``path`` of every method is below the prefix. Opening asks nothing of the store; the first question does.
    """

    def __init__(self, url: str) -> None:
        self.address = Address.of(url)
        self.root = self.real = str(self.address)
        self.fd = -1
        self.dev = _number(f"{self.address.scheme}://{self.address.bucket}")
        self.ino = _number(self.root)
        self.bucket: Bucket = bucket(self.address)
        self._tree: Tree | None = None
        self._turn = threading.RLock()

    def close(self) -> None:
        self.refresh()

    # --- reading ---------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Forgets what was listed."""
        with self._turn:
            self._tree = None

    def forget(self, folders: Iterable[str]) -> None:
        """Takes folders that were deleted off the listing; all of it is forgotten where they were no folders."""
        with self._turn:
            for folder in folders:
                if self._tree is not None and not self._tree.without(folder):
                    self._tree = None

    def reach(self) -> None:
        """Raises OSError when the store does not answer for this prefix."""
        next(iter(self.bucket.pages(self.address.prefix)), None)

    @property
    def tree(self) -> Tree:
        """What stands below the prefix. Raises OSError when it cannot be listed completely."""
        with self._turn:
            if self._tree is None:
                self._tree = Tree.of(self.dev, self.objects())
            return self._tree

    def objects(self, path: str = "", *, after: str | None = None) -> Iterator[tuple[str, Object]]:
        """Every object below a directory, by path, as it is now. Raises OSError, also at the very end."""
        start = None if after is None else self.address.key(after)
        for found in everything(self.bucket, self.address.key(path), after=start):
            yield self.address.below(found.key), found

    def object(self, path: str) -> Object:
        """One object as it is now. Raises FileNotFoundError, OSError."""
        return self.bucket.head(self.address.key(path))

    def is_still(self, path: str, etag: str, size: int) -> bool:
        """Whether the listing shows the version of that ETag. Raises OSError."""
        wanted = status_of(path, Object(path, size, 0, etag), self.dev)
        return bool(etag) and self.stat(path).ino == wanted.ino

    def scan(self, path: str = "") -> Iterator[Entry]:
        folder = self._folder(path)
        prefix = f"{path}/" if path else ""
        for name in folder.folders:
            yield Entry(prefix + name, Kind.DIR)
        for name in folder.files or ():
            yield Entry(prefix + name, Kind.FILE)

    def stat(self, path: str) -> FileStat:
        try:
            found = self.tree.stat(path)
        except KeyError:
            return status_of(path, self.object(path), self.dev)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def walk(self, path: str) -> Iterator[tuple[Entry, FileStat]]:
        top = self.stat(path)
        if top.kind is not Kind.DIR:
            yield Entry(path, top.kind), top
            return
        try:
            below = list(walk(self._folder(path), path, self.dev))
        except KeyError:
            below = list(walk(self._listed_again(path), path, self.dev))
        yield from below

    def measure(self, path: str, *, inodes: set[int] | None = None) -> Measure:
        top = self.stat(path)
        if top.kind is Kind.DIR:
            return self._folder(path, files=False).measure(self.dev)
        total = Measure()
        total.count(top)
        return total

    def open(self, path: str) -> BinaryIO:
        status = self.stat(path)
        if status.kind is not Kind.FILE:
            raise OSError(errno.EINVAL, "not a plain file", path)
        mark = status.ino
        file = ObjectFile(
            self.bucket, self.address.key(path), status.size, lambda found: status_of(path, found, self.dev).ino == mark
        )
        return cast(BinaryIO, io.BufferedReader(file, 64 << 10))

    def readlink(self, path: str) -> str:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)

    @contextlib.contextmanager
    def at_hand(self) -> Iterator[None]:
        yield

    def space(self) -> Space:
        raise OSError(errno.ENOTSUP, "a bucket has no free space of its own", self.root)

    def used(self) -> int:
        """Bytes of everything below the prefix, ours included. Raises OSError."""
        return self.tree.top.size

    def keeps_versions(self) -> bool:
        """Whether the bucket was seen to keep versions of what is deleted. Asks for one object, once; what cannot be
        told is no."""
        bucket = self.bucket
        if not bucket.versioned and not bucket.asked_for_versions:
            with contextlib.suppress(OSError):
                path = some_file(self.tree.top)
                if path is not None:
                    self.object(path)
                    bucket.asked_for_versions = True
        return bucket.versioned

    def still_there(self) -> bool:
        return True

    def _folder(self, path: str, *, files: bool = True) -> Folder:
        found = self.tree.folder(path)
        if found is None:
            code = errno.ENOENT if self.tree.stat(path) is None else errno.ENOTDIR
            raise OSError(code, os.strerror(code), path)
        return self._listed_again(path) if files and found.files is None else found

    def _listed_again(self, path: str) -> Folder:
        """A folder with all its files, from a listing of its own: the big one could not remember them."""
        folder = Tree.of(self.dev, self.objects(path), whole=True).folder(path)
        if folder is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return folder

    # --- small objects of ours -------------------------------------------------------------------------------

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        """Prefixes need no making."""

    def fsync(self, path: str = "") -> None:
        """What a store has acknowledged is durable."""

    def set_mtime(self, path: str, mtime_ns: int) -> None:
        """A prefix has no time of its own that anybody could go by."""

    def write_atomic(self, path: str, data: bytes) -> None:
        self.bucket.put(self.address.key(path), data)
        self.refresh()

    def write_new(self, path: str, data: bytes) -> str:
        """Writes an object where none is; returns its ETag. Raises FileExistsError, OSError."""
        etag = self.bucket.put(self.address.key(path), data, new=True)
        self.refresh()
        return etag

    def append(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Reads, adds and writes under the condition that nobody wrote meanwhile; then again. Raises OSError."""
        key = self.address.key(path)
        for attempt in range(_TRIES):
            try:
                try:
                    there, found = self.bucket.read(key)
                except FileNotFoundError:
                    self.bucket.put(key, data, new=True)
                else:
                    self.bucket.put(key, there + data, etag=found.etag)
                self.refresh()
                return
            except (Changed, FileExistsError):
                if attempt == _TRIES - 1:
                    raise

    def unlink(self, path: str) -> None:
        """Raises FileNotFoundError where nothing is there."""
        self.object(path)
        self.bucket.delete([self.address.key(path)])
        self.refresh()

    def remove(self, path: str) -> int:
        """Deletes an object, or everything below a prefix; returns how many went."""
        keys = [found.key for _, found in self.objects(path)]
        if not keys:
            keys = [self.object(path).key]
        self.bucket.delete(keys)
        self.refresh()
        return len(keys)

    # --- what no store has -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def directory(self, path: str) -> Iterator[int]:
        raise _no_such_thing(path)
        yield

    @contextlib.contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        raise _no_such_thing(path)
        yield

    def rename(self, source: str, target: str, *, into: LocalRoot | None = None) -> None:
        raise _no_such_thing(source)

    def rename_new(self, source: str, target: str, *, into: LocalRoot | None = None) -> None:
        raise _no_such_thing(source)

    def exchange(self, one: str, other: str, *, into: LocalRoot | None = None) -> None:
        raise _no_such_thing(one)

    def rmdir(self, path: str) -> None:
        raise _no_such_thing(path)

    def create(self, path: str, mode: int = 0o666) -> BinaryIO:
        raise _no_such_thing(path)


def in_store(root: LocalRoot | None) -> ObjectRoot | None:
    """The root as one in an object store, None when it is none."""
    return root if isinstance(root, ObjectRoot) else None


def room(root: LocalRoot, capacity: int | None) -> Space | None:
    """What is left of a budget; None without one. Raises OSError when what is used cannot be listed."""
    objects = in_store(root)
    if capacity is None or objects is None:
        return None
    return Space(max(0, capacity - objects.used()), capacity, None, None)


def _no_such_thing(path: str) -> OSError:
    return OSError(errno.ENOTSUP, "an object store has no such thing", path)


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1
