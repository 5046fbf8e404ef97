"""inotify(7) through the C library: what happens in directories, as it happens."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
from collections.abc import Iterator
from dataclasses import dataclass

MODIFY, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x8, 0x40, 0x80, 0x100, 0x200
IS_DIRECTORY, OVERFLOW, IGNORED = 0x40000000, 0x4000, 0x8000
_ONLY_DIRECTORY, _DONT_FOLLOW = 0x01000000, 0x02000000
_WANTED = MODIFY | CLOSE_WRITE | MOVED_TO | CREATE | DELETE | MOVED_FROM
_HEADER = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
_READ = 1 << 16


@dataclass(frozen=True, slots=True)
class Event:
    """One event: bits of what happened, and the path it happened to."""

    mask: int
    path: str

    @property
    def is_directory(self) -> bool:
        return bool(self.mask & IS_DIRECTORY)


class Inotify:
    """Watches on directories. Raises OSError from the constructor where the kernel gives none."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._checked(self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK), "inotify")
        self._paths: dict[int, str] = {}

    def watch(self, directory: str) -> None:
        """Raises OSError: ENOSPC when the user may have no more watches, ENOENT when it is gone."""
        mask = ctypes.c_uint32(_WANTED | _ONLY_DIRECTORY | _DONT_FOLLOW)
        number = self._checked(self._libc.inotify_add_watch(self._fd, os.fsencode(directory), mask), directory)
        self._paths[number] = directory

    def events(self, timeout_s: float) -> Iterator[Event]:
        """What happened since the last call, after waiting at most so long for the first of it."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            return
        data = os.read(self._fd, _READ)
        at = 0
        while at < len(data):
            number, mask, _, length = _HEADER.unpack_from(data, at)
            name = os.fsdecode(data[at + _HEADER.size : at + _HEADER.size + length].rstrip(b"\0"))
            at += _HEADER.size + length
            if mask & OVERFLOW:
                yield Event(OVERFLOW, "")
            elif mask & IGNORED:
                self._paths.pop(number, None)
            elif number in self._paths:
                yield Event(mask, os.path.join(self._paths[number], name))

    def close(self) -> None:
        os.close(self._fd)

    def _checked(self, result: int, path: str) -> int:
        if result < 0:
            code = ctypes.get_errno() or errno.EIO
            raise OSError(code, os.strerror(code), path)
        return result
