"""What stands on a replica: copies of steps, temporaries, pointers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

SECOND = 1_000_000_000
EMPTY: Mapping[Any, Any] = MappingProxyType({})


def nothing() -> Mapping[Any, Any]:
    """The empty mapping, as a default that Python 3.11 takes too."""
    return EMPTY


class Kind(StrEnum):
    """What a directory entry is, without following a link."""

    FILE = "file"
    DIR = "dir"
    LINK = "link"
    OTHER = "other"


class Health(StrEnum):
    """How much can be said for a copy; the order of declaration is from best to worst."""

    INTACT = "intact"
    WHOLE = "whole"
    UNVERIFIED = "unverified"
    SUSPECT = "suspect"
    IN_FLIGHT = "in-flight"
    UNKNOWN = "unknown"
    BROKEN = "broken"

    @property
    def restorable(self) -> bool:
        return self in _RESTORABLE


_RESTORABLE = frozenset({Health.INTACT, Health.WHOLE, Health.UNVERIFIED})


@dataclass(frozen=True, slots=True)
class Identity:
    """What must not have changed between looking at a copy and deleting it.

    For a directory: device and inode of its top, the sum of sizes, the newest mtime and ctime below it, the
    number of files. ``files`` is -1 where only the top was looked at.
    """

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    files: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Health of one copy with the sentence that says why (None when there is nothing to say)."""

    health: Health
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Spare:
    """What of a copy only resuming needs, and can be told apart from its weights: files or whole directories in it.

    ``paths`` in the order in which they go; ``identity`` is that of a copy made of them alone. ``folders`` are the
    directories that hold them, with their mtimes, which must be the same again once they have gone.
    """

    paths: tuple[str, ...]
    identity: Identity
    bytes: int
    files: int
    folders: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """What one replica holds of one step.

    ``paths`` are its top-most entries in the order in which they are withdrawn. A copy that was only listed has
    ``measured=False``: sizes and times then speak of the top entries alone and ``bytes``/``files`` are None.
    ``health`` is None while nobody has judged it.
    """

    step: int
    replica: str
    paths: tuple[str, ...]
    identity: Identity
    mtime_ns: int | None  # newest; None: cannot be read
    oldest_mtime_ns: int | None  # oldest, the one that betrays an mtime nobody set
    measured: bool = False
    size: int | None = None  # apparent bytes of what carries the checkpoint, sidecars left out
    sidecars: int = 0  # apparent bytes of its sidecars
    bytes: int | None = None  # allocated bytes that deleting would free; files with other links count nothing
    files: int | None = None
    health: Health | None = None
    detail: str | None = None
    created_at_ns: int | None = None  # from its manifest
    verified_ns: int | None = None  # when its content was last checked in full, for exactly this identity
    content: str | None = None  # digest over its manifest's hashes: equal content has equal digests
    link: str | None = None  # why it is no plain file or directory (guard ``linked``)
    busy: str | None = None  # who holds it open or locked (guard ``busy``)
    listed: Identity | None = None  # as its top entries alone showed it
    load_path: str | None = None  # what a loader is given, where that is not the first of the paths
    weights_only: bool = False  # thinned, or saved without what resuming needs
    thinned: tuple[str, ...] = ()  # what was taken out of it and has not come back
    spare: Spare | None = None  # what thinning would take out of it; known once it was judged
    leans_on: frozenset[tuple[int, int]] = frozenset()  # (device, inode) of all that links in it lead to or through


@dataclass(frozen=True, slots=True)
class Temporary:
    """An entry under a temporary name: a save in flight, or an orphan."""

    replica: str
    path: str
    step: int | None
    bytes: int
    mtime_ns: int | None
    identity: Identity
    busy: str | None = None


class PointerState(StrEnum):
    OK = "ok"
    DANGLING = "dangling"  # names a step that is not there: attention only
    UNREADABLE = "unreadable"  # empty and fresh, cannot be read, cannot be parsed: a block


@dataclass(frozen=True, slots=True)
class Pointer:
    """A file or symlink by which a stack names a checkpoint (``latest``, ``last.ckpt``, ``checkpoint``)."""

    replica: str
    path: str
    step: int | None
    state: PointerState
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Pick:
    """What the stack's own trainer would resume from, and how it comes to that."""

    step: int | None
    path: str
    how: str  # e.g. "highest number", "latest"
    apart: bool = (
        False  # a full copy under a name of its own (``last.ckpt``): the health of its step says nothing of it
    )
