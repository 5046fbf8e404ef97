"""Entries of open directories on a file system, one by one."""

from __future__ import annotations

import os
from collections.abc import Iterator

from prune.model import Kind
from prune.stores.base import Entry, FileStat
from prune.stores.measure import file_stat
from prune.stores.tree import DIR


def walk_at(fd: int, prefix: str, *, inodes: bool) -> Iterator[tuple[Entry, FileStat]]:
    """Everything below an open directory, links not followed; ``prefix`` is its path. Raises OSError."""
    deeper: list[str] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            status = file_stat(entry.stat(follow_symlinks=False), inodes=inodes)
            yield Entry(f"{prefix}/{entry.name}", status.kind), status
            if status.kind is Kind.DIR:
                deeper.append(entry.name)
    for name in deeper:
        below = os.open(name, DIR, dir_fd=fd)
        try:
            yield from walk_at(below, f"{prefix}/{name}", inodes=inodes)
        finally:
            os.close(below)


def listed_kind(entry: os.DirEntry[str]) -> Kind:
    """What a listing tells of an entry without asking for its status."""
    if entry.is_symlink():
        return Kind.LINK
    if entry.is_dir(follow_symlinks=False):
        return Kind.DIR
    return Kind.FILE if entry.is_file(follow_symlinks=False) else Kind.OTHER
