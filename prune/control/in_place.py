"""Logs that can be written on a full disk, also where a disk writes everything to a new place."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct

from prune.stores.mounts import mount_of

_GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of linux/fs.h, as all but a few architectures have them
_SET_FLAGS = 0x40086602
_NO_COPY_ON_WRITE = 0x00800000  # FS_NOCOW_FL
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE of linux/falloc.h


def reserve(fd: int, size: int) -> None:
    """Asks for blocks ahead for an empty file, without changing its length; a file system that cannot gives none."""
    _write_in_place(fd)
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "fallocate"):
        libc.fallocate(fd, _KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(size))


def _write_in_place(fd: int) -> None:
    """Btrfs needs a new block even to write again into an old one, unless the file is excepted while it is empty."""
    mount = mount_of(os.path.realpath(f"/proc/self/fd/{fd}"))
    if mount is None or mount.file_system != "btrfs":
        return
    with contextlib.suppress(OSError):  # then a full disk is pruned as far as it can be
        (flags,) = struct.unpack("l", fcntl.ioctl(fd, _GET_FLAGS, struct.pack("l", 0)))
        fcntl.ioctl(fd, _SET_FLAGS, struct.pack("l", flags | _NO_COPY_ON_WRITE))
