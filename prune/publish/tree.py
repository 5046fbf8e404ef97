"""Every file of a directory hashed and on disk, before its name says so."""

from __future__ import annotations

import os

from prune.errors import Failed, UsageError
from prune.integrity.hashing import Hashed, Tick, for_each, hash_file
from prune.model import Kind
from prune.stores.local import LocalRoot

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_THREADS = 4  # hashing and waiting for the disk overlap


def settle_tree(above: LocalRoot, name: str) -> dict[str, Hashed]:
    """Hashes and syncs all files below the directory ``name`` in ``above``, and all its directories.

    Returns size and hash by path below ``name``. Raises OSError when any of it cannot be read or synced, UsageError
    for what no checkpoint may hold, Failed where there is no file at all.
    """
    files, folders = _contents(above, name)
    if not files:
        raise Failed(f"{name} was not published: there is no file in it, and an empty directory is no save")

    def settle(path: str, tick: Tick) -> Hashed:
        found = hash_file(above, path, tick)
        _sync(above, path)
        return found

    done: dict[str, Hashed] = {}
    for path, found in for_each(files, settle, threads=_THREADS).items():
        if isinstance(found, OSError):
            raise found
        done[path[len(name) + 1 :]] = found
    for folder in reversed(folders):
        above.fsync(folder)
    return done


def _contents(above: LocalRoot, name: str) -> tuple[list[str], list[str]]:
    """Plain files and directories by path, directories before what is in them."""
    files, folders = [], [name]
    for entry, _ in above.walk(name):
        match entry.kind:
            case Kind.FILE:
                files.append(entry.path)
            case Kind.DIR:
                folders.append(entry.path)
            case Kind.OTHER:
                raise UsageError(f"{entry.path} is neither a file, a directory nor a link; it cannot be published")
    return files, folders


def _sync(above: LocalRoot, path: str) -> None:
    with above.parent(path) as (parent, name):
        fd = os.open(name, _FILE, dir_fd=parent)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
