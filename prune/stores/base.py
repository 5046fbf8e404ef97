"""What the rest of the product may ask of a place where checkpoints live, when it only reads."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, Protocol

from prune.model import Kind


class Entry(NamedTuple):
    """One name in a directory, as listed: nothing but its kind is known yet."""

    path: str  # relative to the root
    kind: Kind

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class FileStat(NamedTuple):
    """What one entry's own status says, links not followed."""

    kind: Kind
    size: int
    allocated: int  # bytes of blocks
    links: int
    mtime_ns: int
    ctime_ns: int
    dev: int
    ino: int
    tag: int = 0  # of stores that tell versions apart by tags: a number made of name and tag


@dataclass(frozen=True, slots=True)
class Space:
    """Room on a volume. ``free_inodes`` is None where inodes are not counted."""

    free_bytes: int
    total_bytes: int
    free_inodes: int | None
    total_inodes: int | None


class Reader(Protocol):
    """Read-only access to one root. Paths are relative to it; ``""`` is the root itself.

    Every method may raise OSError (FileNotFoundError for what is not there). No method follows a symlink below
    the root; ``open`` of one raises OSError.
    """

    root: str

    def scan(self, path: str = "") -> Iterator[Entry]:
        """Entries directly in a directory, in no particular order. Raises OSError if any of it cannot be listed."""
        ...

    def walk(self, path: str) -> Iterator[tuple[Entry, FileStat]]:
        """Everything below a directory (itself excluded), directories before their contents; or a lone file."""
        ...

    def stat(self, path: str) -> FileStat: ...

    def open(self, path: str) -> BinaryIO:
        """A seekable binary file open for reading."""
        ...

    def readlink(self, path: str) -> str: ...


def led_to(reader: Reader, path: str) -> str | None:
    """Where a link leads by its words alone, as a path in the root; None where that lies outside. Raises OSError."""
    words = reader.readlink(path)
    for root in (reader.root, getattr(reader, "real", reader.root)):
        prefix = root.rstrip("/") + "/"
        if words.startswith(prefix):
            return posixpath.normpath(words[len(prefix) :])
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), words))
    return None if joined.startswith(("/", "../")) else joined


def read_text(reader: Reader, path: str, limit: int = 1 << 20) -> str:
    """The text of a small file. Raises ValueError when it is longer than ``limit`` bytes or not UTF-8."""
    with reader.open(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"{path}: longer than {limit} bytes")
    return data.decode("utf-8")
