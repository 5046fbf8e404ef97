"""One deleter at a time: a BSD lock, and where that may be local to a host a lease beside it.

The lock is the kernel's, so a dead process leaves none behind whatever stands in the file. On network and FUSE file
systems such a lock may not reach other hosts: there the file also names its holder until an hour by the volume's
own clock, and the holder looks at it again before each step.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
from dataclasses import dataclass, field
from typing import Protocol

from prune.evidence import set_by_somebody
from prune.model import SECOND
from prune.stores.local import LocalRoot

LEASE_NS = 120 * SECOND
_LINE = 256  # bytes of the lease in the file, padded
SHARED = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "ceph", "glusterfs", "beegfs", "afs", "9p", "virtiofs",
    "fuse", "fuseblk", "wekafs", "pvfs2", "orangefs", "ocfs2", "gfs2",
})  # fmt: skip


class Held(Exception):
    """Another process holds the lock; says who, as far as the file tells."""


class HeldLock(Protocol):
    """A lock as a pass holds it, on whatever kind of volume."""

    def now_ns(self) -> int:
        """The volume's own clock."""
        ...

    def still_held(self) -> bool: ...

    def overdue(self) -> bool:
        """Whether so much time has passed that the lease must be looked at again. Costs no call on the volume."""
        ...

    def release(self) -> None: ...


@dataclass
class Lock:
    """A held lock on one control folder. Use as a context manager, or call ``release``."""

    folder: LocalRoot
    fd: int
    shared: bool
    token: str = field(default_factory=lambda: os.urandom(8).hex())
    until_ns: int = 0
    looked_ns: int = 0  # when the lease was last looked at, by the clock that a pause does not stop
    ino: int = field(init=False)
    owner: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        self.ino = os.fstat(self.fd).st_ino

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """A child that was forked meanwhile only lets its copy go."""
        if self.fd >= 0:
            if os.getpid() == self.owner:
                self._free()
            os.close(self.fd)
            self.fd = -1

    def _free(self) -> None:
        if self.shared:
            # Else other hosts would wait for the lease to run out. Failing that, they do.
            with contextlib.suppress(OSError):
                if self._names_us():
                    os.ftruncate(self.fd, 0)
        with contextlib.suppress(OSError):  # closing is not enough: children, such as data loaders, keep it
            fcntl.flock(self.fd, fcntl.LOCK_UN)

    def now_ns(self) -> int:
        """The volume's own clock: the mtime it gives to the file we touch."""
        os.utime(self.fd)
        at = os.fstat(self.fd).st_mtime_ns
        return at if set_by_somebody(at) else self._now_by_writing(at)

    def _now_by_writing(self, otherwise_ns: int) -> int:
        """Some small file systems set 1970 on being touched, and know the time when they are written to."""
        with contextlib.suppress(OSError):
            os.pwrite(self.fd, b" ", _LINE - 1)
            os.fsync(self.fd)
            return os.fstat(self.fd).st_mtime_ns
        return otherwise_ns

    def still_held(self) -> bool:
        """Whether the file that is locked is still the one at the lock's name, and the lease still ours."""
        try:
            there = os.stat("lock", dir_fd=self.folder.fd, follow_symlinks=False)
            mine = os.fstat(self.fd)
        except OSError:
            return False
        if not os.path.samestat(there, mine) and not (self.shared and mine.st_ino != self.ino and self._named_ours()):
            return False
        return self._renew() if self.shared else True

    def _named_ours(self) -> bool:
        """Where the locked file itself changes its number: whether what stands at its name holds our token."""
        with self.folder.open("lock") as file:
            holder = read_holder(file.fileno())
        return holder is not None and holder.get("token") == self.token

    def overdue(self) -> bool:
        """Whether so much time has passed that the lease must be looked at again. Costs no call on the volume."""
        return self.shared and uptime_ns() - self.looked_ns > between_looks_ns()

    def _names_us(self) -> bool:
        holder = read_holder(self.fd)
        return holder is not None and holder.get("token") == self.token

    def _renew(self) -> bool:
        if not self._names_us():
            return False
        now = self.now_ns()
        if now > self.until_ns:
            return False  # paused past our own lease: another host may have taken it in good faith
        if self.until_ns - now < LEASE_NS // 2:
            self._write(now)
        self.looked_ns = uptime_ns()
        return True

    def _write(self, now_ns: int) -> None:
        self.until_ns = now_ns + LEASE_NS
        data = json.dumps({"host": socket.gethostname(), "boot": boot_id(), "pid": os.getpid(), "token": self.token,
                           "until_ns": self.until_ns}).encode()  # fmt: skip
        os.pwrite(self.fd, data.ljust(_LINE), 0)
        os.ftruncate(self.fd, max(len(data), _LINE))
        os.fsync(self.fd)
        self.looked_ns = uptime_ns()


def acquire(folder: LocalRoot, *, file_system: str | None) -> Lock:
    """Takes the lock of an existing control folder.

    Raises Held when another has it, OSError when the file cannot be made or locked.
    """
    with folder.parent("lock") as (parent, name):
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=parent)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = read_holder(fd)
        os.close(fd)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise Held(f"{folder.root}/lock is held{_said(holder)}") from error
        raise
    lock = Lock(folder, fd, shared=_is_shared(file_system))
    if lock.shared:
        try:
            _take_lease(lock)
        except BaseException:
            os.close(fd)
            lock.fd = -1
            raise
    return lock


def _take_lease(lock: Lock) -> None:
    holder = read_holder(lock.fd)
    now = lock.now_ns()
    until = holder.get("until_ns", 0) if holder else 0
    if holder is not None and isinstance(until, int) and until > now and holder.get("boot") != boot_id():
        raise Held(f"{lock.folder.root}/lock is leased{_said(holder)}")
    lock._write(now)


def read_holder(fd: int) -> dict[str, object] | None:
    """Who the lock file names, None where it names nobody readable."""
    try:
        data = json.loads(os.pread(fd, 4096, 0).strip(b"\0 ") or b"null")
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def between_looks_ns() -> int:
    """After so long a lease is looked at again, and renewed before it is half over."""
    return LEASE_NS // 4


def uptime_ns() -> int:
    """Time that goes on while this process is stopped or its machine sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """What changes with every boot of this host."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


def _is_shared(file_system: str | None) -> bool:
    if file_system is None:
        return True  # unknown is never "local"
    return file_system in SHARED or file_system.startswith("fuse.")


def _said(holder: dict[str, object] | None) -> str:
    return f" by process {holder.get('pid')} on {holder.get('host')}" if holder else " by another process"
