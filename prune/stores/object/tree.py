"""Keys as folders: one listing of a prefix, summed up folder by folder in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

from prune.model import Kind
from prune.stores.base import Entry, FileStat
from prune.stores.measure import Measure
from prune.stores.object.client import Object

FEW = 64  # files of a folder that are remembered however many there are in all
MANY = 100_000  # files remembered in all; beyond that, folders below the root with more than FEW are listed again


@dataclass(slots=True)
class Folder:
    """A common prefix: what is directly in it, and the sums over all that is below it."""

    files: dict[str, FileStat] | None = field(default_factory=dict)  # None: too many to remember
    folders: dict[str, Folder] = field(default_factory=dict)
    own: Measure = field(default_factory=Measure)  # over its own files alone
    newest_ns: int = 0  # of all below
    digest: int = 0  # over names and ETags of all below
    size: int = 0  # bytes of all below
    count: int = 0  # objects below

    def status(self, dev: int) -> FileStat:
        """What passes for a folder's own status: its time is that of the newest object below it."""
        return FileStat(Kind.DIR, 0, 0, 1, self.newest_ns, 0, dev, self.digest)

    def measure(self, dev: int) -> Measure:
        """Sums over itself and all below, as looking at each would give."""
        total = Measure()
        total.count(self.status(dev))
        total.merge(self.own)
        for folder in self.folders.values():
            total.merge(folder.measure(dev))
        return total


@dataclass
class Tree:
    """A listing of one prefix. ``dev`` stands for the bucket in identities."""

    dev: int
    top: Folder = field(default_factory=Folder)
    whole: bool = False  # every file is remembered
    _held: int = 0

    @classmethod
    def of(cls, dev: int, objects: Iterable[tuple[str, Object]], *, whole: bool = False) -> Tree:
        """From objects by their paths below the prefix. Raises what the listing raises."""
        tree = cls(dev, whole=whole)
        for path, found in objects:
            if path:
                tree._add(path, found)
        return tree

    def folder(self, path: str) -> Folder | None:
        found: Folder | None = self.top
        for part in path.split("/") if path else ():
            found = found.folders.get(part) if found is not None else None
        return found

    def without(self, path: str) -> bool:
        """Takes a folder and all below it out, as it was listed; False where there is no such folder."""
        gone = self.folder(path)
        if gone is None or gone is self.top:
            return False
        *parents, name = path.split("/")
        folder = self.top
        for part in ["", *parents]:
            folder = folder.folders[part] if part else folder
            folder.digest ^= gone.digest
            folder.size -= gone.size
            folder.count -= gone.count
        del folder.folders[name]
        return True

    def stat(self, path: str) -> FileStat | None:
        """None where nothing is there. Raises KeyError when only a new listing can tell."""
        folder = self.folder(path)
        if folder is not None and (folder is not self.top or not path):
            return folder.status(self.dev)
        head, _, name = path.rpartition("/")
        parent = self.folder(head)
        if parent is None:
            return None
        if parent.files is None:
            raise KeyError(path)
        return parent.files.get(name)

    def _add(self, path: str, found: Object) -> None:
        status = status_of(path, found, self.dev)
        *parents, name = path.split("/")
        folder = self.top
        _grow(folder, status)
        for part in parents:
            if part not in folder.folders:
                folder.folders[part] = Folder()
                _forget_marker(folder, part)
            folder = folder.folders[part]
            _grow(folder, status)
        if name in folder.folders and not status.size:
            return  # an empty object that some tools leave where a folder begins
        folder.own.count(status)
        if folder.files is None:
            return
        folder.files[name] = status
        self._held += 1
        if self._held > MANY and len(folder.files) > FEW and folder is not self.top and not self.whole:
            self._held -= len(folder.files)
            folder.files = None


def status_of(path: str, found: Object, dev: int) -> FileStat:
    """An object's status. Its ETag stands where file systems have an inode, and marks it as this very version."""
    mark = _mark(path, found)
    return FileStat(Kind.FILE, found.size, found.size, 1, found.modified_ns, 0, dev, mark, tag=mark)


def walk(folder: Folder, path: str, dev: int) -> Iterator[tuple[Entry, FileStat]]:
    """Everything below a folder, folders before what is in them. Raises KeyError where one forgot its files."""
    if folder.files is None:
        raise KeyError(path)
    for name, status in folder.files.items():
        yield Entry(f"{path}/{name}", Kind.FILE), status
    for name, below in folder.folders.items():
        yield Entry(f"{path}/{name}", Kind.DIR), below.status(dev)
        yield from walk(below, f"{path}/{name}", dev)


def some_file(folder: Folder) -> str | None:
    """The path of any file at or below a folder that is remembered."""
    for name in folder.files or ():
        return name
    return next((f"{name}/{found}" for name, below in folder.folders.items() if (found := some_file(below))), None)


def _grow(folder: Folder, status: FileStat) -> None:
    folder.newest_ns = max(folder.newest_ns, status.mtime_ns)
    folder.digest ^= status.tag
    folder.size += status.size
    folder.count += 1


def _forget_marker(parent: Folder, name: str) -> None:
    """An empty object of a folder's own name is the folder itself, as some tools mark it."""
    marker = parent.files.get(name) if parent.files is not None else None
    if marker is not None and not marker.size:
        assert parent.files is not None
        del parent.files[name]


def _mark(path: str, found: Object) -> int:
    """63 bits that another object of that name, or the same under another ETag, hardly ever shares."""
    told = f"{path}\0{found.etag or found.modified_ns}\0{found.size}".encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(told, digest_size=8).digest()) >> 1
