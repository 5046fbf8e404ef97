"""A passthrough FUSE file system that misbehaves as it is told, while it is mounted.

    python -m tests.faults.fuse SOURCE MOUNTPOINT FAULTS.json

``FAULTS.json`` is read again before each call:

    {"mtime": "zero" | "1601" | "coarse",        what it says of times: none, Windows' epoch, or even seconds only
     "inodes": "changing",                       another number each time it is asked
     "flags": "ignored",                         renames with flags are done as if without (else they are refused)
     "touch": "literal",                         touching sets a time in 1970, as some small file systems do
     "skew": 90,                                 its clock is so many seconds ahead of ours
     "fail": {"readdir": ["EIO", "/step-3"]},    a call that fails, on paths that begin so
     "hang": {"readdir": "/M"},                  a call that does not come back while it stands here
     "slow": {"unlink": 0.01}}                   a call that takes so many seconds
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mfusepy

_NOW = (1 << 30) - 1  # UTIME_NOW, by which touching is asked for; who takes it for nanoseconds sets 1970
_STATFS = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_flag", "f_frsize",
           "f_namemax")  # fmt: skip
_TIMES = {"zero": lambda _ns: 0, "1601": lambda _ns: -11_644_473_600 * 10**9, "coarse": lambda ns: ns // 2_000_000_000 * 2_000_000_000}  # fmt: skip # noqa: E501


class Passthrough(mfusepy.Operations):
    """Every call on the directory below, after whatever fault is due."""

    use_ns = True

    def __init__(self, source: str, faults: str) -> None:
        self.source = os.path.realpath(source)
        self.place = Path(faults)
        self.numbers = itertools.count(1000)

    @property
    def faults(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self.place.read_text()))
        except (OSError, ValueError):
            return {}

    def at(self, path: str) -> str:
        return self.source + path

    def _do(self, op: str, path: str, work: Callable[[], Any]) -> Any:
        faults = self.faults
        time.sleep(faults.get("slow", {}).get(op, 0))
        while path.startswith(self.faults.get("hang", {}).get(op, "\0")):
            time.sleep(0.02)
        name, below = faults.get("fail", {}).get(op, ("", ""))
        if name and path.startswith(below):
            raise mfusepy.FuseOSError(getattr(errno, name))
        try:
            return work()
        except OSError as error:
            raise mfusepy.FuseOSError(error.errno or errno.EIO) from None

    # --- what it says ----------------------------------------------------------------------------------------

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        status = self._do("getattr", path, lambda: os.lstat(self.at(path)))
        faults = self.faults
        shown = _TIMES.get(faults.get("mtime", ""), lambda ns: ns)
        ahead = int(faults.get("skew", 0) * 10**9)
        number = next(self.numbers) if faults.get("inodes") == "changing" else status.st_ino
        return {
            "st_mode": status.st_mode, "st_nlink": status.st_nlink, "st_uid": status.st_uid, "st_gid": status.st_gid,
            "st_size": status.st_size, "st_blocks": status.st_blocks, "st_ino": number,
            "st_atime": status.st_atime_ns, "st_mtime": shown(status.st_mtime_ns + ahead),
            "st_ctime": shown(status.st_ctime_ns + ahead),
        }  # fmt: skip

    def readdir(self, path: str, fh: int) -> list[tuple[str, dict[str, Any], int]]:
        """Names with their kind and a number, for an entry numbered zero is none to libc."""
        names = [".", "..", *self._do("readdir", path, lambda: os.listdir(self.at(path)))]
        return [(name, self._shown(os.path.join(self.at(path), name)), 0) for name in names]

    def _shown(self, path: str) -> dict[str, Any]:
        try:
            return {"st_mode": os.lstat(path).st_mode, "st_ino": 1}
        except OSError:  # gone in between
            return {"st_mode": 0, "st_ino": 1}

    def readlink(self, path: str) -> str:
        return str(self._do("readlink", path, lambda: os.readlink(self.at(path))))

    def statfs(self, path: str) -> dict[str, int]:
        found = self._do("statfs", path, lambda: os.statvfs(self.at(path)))
        return {name: getattr(found, name) for name in _STATFS}

    def open(self, path: str, flags: int) -> int:
        return int(self._do("open", path, lambda: os.open(self.at(path), flags & ~(os.O_CREAT | os.O_NOFOLLOW))))

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return bytes(self._do("read", path, lambda: os.pread(fh, size, offset)))

    # --- what it does ----------------------------------------------------------------------------------------

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        return int(self._do("create", path, lambda: os.open(self.at(path), flags, mode)))

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return int(self._do("write", path, lambda: os.pwrite(fh, data, offset)))

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        return self._do("truncate", path, lambda: os.truncate(self.at(path), length)) or 0

    def flush(self, path: str, fh: int) -> int:
        return self._do("flush", path, lambda: 0) or 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        return self._do("fsync", path, lambda: os.fsync(fh)) or 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        return self._do("fsyncdir", path, lambda: 0) or 0

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0

    def unlink(self, path: str) -> int:
        return self._do("unlink", path, lambda: os.unlink(self.at(path))) or 0

    def rmdir(self, path: str) -> int:
        return self._do("rmdir", path, lambda: os.rmdir(self.at(path))) or 0

    def mkdir(self, path: str, mode: int) -> int:
        return self._do("mkdir", path, lambda: os.mkdir(self.at(path), mode)) or 0

    def rename(self, old: str, new: str) -> int:
        return self._do("rename", old, lambda: os.rename(self.at(old), self.at(new))) or 0

    def symlink(self, target: str, source: str) -> int:
        return self._do("symlink", target, lambda: os.symlink(source, self.at(target))) or 0

    def link(self, target: str, source: str) -> int:
        return self._do("link", target, lambda: os.link(self.at(source), self.at(target), follow_symlinks=False)) or 0

    def chmod(self, path: str, mode: int) -> int:
        return self._do("chmod", path, lambda: os.chmod(self.at(path), mode)) or 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        return self._do("chown", path, lambda: os.lchown(self.at(path), uid, gid)) or 0

    def utimens(self, path: str, times: Any = None) -> int:
        given = {} if times is None else {"ns": times}
        if given and times[1] == _NOW and self.faults.get("touch") != "literal":
            given = {}
        return self._do("utimens", path, lambda: os.utime(self.at(path), follow_symlinks=False, **given)) or 0


class Mount(mfusepy.FUSE):
    """libfuse hands over the flags of a rename; most small file systems refuse them, and some do not look."""

    def rename_fuse_3(self, old: bytes, new: bytes, flags: int) -> int:
        if flags and self.operations.faults.get("flags") != "ignored":
            return -errno.EINVAL
        return int(self.rename_fuse_2(old, new))


def main(source: str, mountpoint: str, faults: str) -> None:
    options: dict[str, Any] = {"attr_timeout": 0, "entry_timeout": 0, "negative_timeout": 0, "use_ino": True}
    if os.geteuid() == 0:
        options["allow_other"] = True
    Mount(Passthrough(source, faults), mountpoint, foreground=True, nothreads=False, **options)


if __name__ == "__main__":
    main(*sys.argv[1:4])
