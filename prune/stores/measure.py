"""Sums over a copy on a file system, and statuses as the rest of the product reads them."""

from __future__ import annotations

import os
import stat as modes

from prune.model import Identity, Kind
from prune.stores.base import FileStat
from prune.stores.tree import Sums


class Measure(Sums):
    """Sums over a copy, and what makes it this copy and no other."""

    __slots__ = ()

    def count(self, status: FileStat) -> None:
        """The same as ``add``, for a status already read."""
        mtime = status.mtime_ns
        self.mtime_ns = mtime if self.mtime_ns is None else max(self.mtime_ns, mtime)
        self.oldest_mtime_ns = mtime if self.oldest_mtime_ns is None else min(self.oldest_mtime_ns, mtime)
        self.ctime_ns = max(self.ctime_ns, status.ctime_ns)
        self.tag ^= status.tag
        if status.kind is Kind.DIR:
            self.freed += status.allocated
            return
        self.files += 1
        self.size += status.size
        if status.links <= 1:
            self.freed += status.allocated
        else:
            self.linked += status.allocated

    def identity(self, top: FileStat) -> Identity:
        """The identity of the copy whose first path is ``top``. Tags stand where file systems have a ctime."""
        return Identity(top.dev, top.ino, self.size, self.mtime_ns or 0, self.ctime_ns ^ self.tag, self.files)


def kind_of(mode: int) -> Kind:
    if modes.S_ISREG(mode):
        return Kind.FILE
    if modes.S_ISDIR(mode):
        return Kind.DIR
    return Kind.LINK if modes.S_ISLNK(mode) else Kind.OTHER


def file_stat(status: os.stat_result, *, inodes: bool = True) -> FileStat:
    """What a status says; the number of the inode is 0 where it means nothing."""
    return FileStat(
        kind_of(status.st_mode),
        status.st_size,
        status.st_blocks * 512,
        status.st_nlink,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_dev,
        status.st_ino if inodes else 0,
    )
