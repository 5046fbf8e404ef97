"""One deleter at a time in a bucket: a key that is only ever written under a condition, and leased by its clock.

The key names its holder and for how long from the time at which the store says it was written. Whoever finds it run
out takes it over by replacing exactly that version, with the next number of fencing; the one before sees another
ETag at its next look, and its own clock tells a sleeper that it slept too long.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from dataclasses import dataclass

from prune.control.lock import LEASE_NS, Held, boot_id
from prune.model import SECOND
from prune.stores.object.client import Object
from prune.stores.object.root import ObjectRoot
from prune.stores.object.troubles import Changed

NAME = "lock"
CLOCK = "clock"
_MARGIN_NS = 10 * SECOND  # before the end of the lease: what a request may still take


@dataclass
class ObjectLock:
    """A held lock on one control prefix. Use as a context manager, or call ``release``."""

    folder: ObjectRoot
    token: str
    fence: int
    etag: str
    taken_ns: int  # by this host's clock that goes on while it sleeps: before the key was last written
    stored_ns: int  # when it was last written, by the store's clock
    looked_ns: int = 0  # when it was last looked at, by this host's clock

    def __enter__(self) -> ObjectLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def now_ns(self) -> int:
        """The store's own clock: the time it gave to our key, and what has passed since."""
        return self.stored_ns + uptime_ns() - self.taken_ns

    def overdue(self) -> bool:
        """Whether so much time has passed that the lease must be looked at again. Costs no request."""
        return uptime_ns() - max(self.taken_ns, self.looked_ns) > LEASE_NS // 4

    def still_held(self) -> bool:
        """Whether the key is still ours and will be for a while; renewed from half of the lease on."""
        passed = uptime_ns() - self.taken_ns
        if not self.etag or passed > LEASE_NS - _MARGIN_NS:
            return False  # slept past our own lease: another host may have taken it in good faith
        try:
            if passed > LEASE_NS // 2:
                self._renew()
                return True
            self.looked_ns = uptime_ns()
            return self.folder.object(NAME).etag == self.etag
        except OSError:
            return False

    def release(self) -> None:
        """Lets others have it at once; where that fails, they wait for the lease to run out."""
        if self.etag:
            try:
                self._write(0)
            except OSError:
                pass  # it runs out by itself
            self.etag = ""

    def _renew(self) -> None:
        before = uptime_ns()
        self._write(LEASE_NS)
        self.taken_ns, self.stored_ns = before, self.folder.object(NAME).modified_ns

    def _write(self, lease_ns: int) -> None:
        key = self.folder.address.key(NAME)
        self.etag = self.folder.bucket.put(key, _told(self.token, self.fence, lease_ns), etag=self.etag)


def acquire(folder: ObjectRoot) -> ObjectLock:
    """Takes the lock of a control prefix. Raises Held when another has it, OSError when it cannot be written."""
    key, token = folder.address.key(NAME), os.urandom(8).hex()
    _see_that_conditions_hold(folder)
    try:
        before = uptime_ns()
        try:
            text, there = folder.bucket.read(key)
        except FileNotFoundError:
            etag = folder.bucket.put(key, _told(token, 1, LEASE_NS), new=True)
            return _held(folder, token, 1, etag, before)
        holder = _holder(text)
        if not _is_free(folder, holder, there):
            raise Held(f"{folder.root}/{NAME} is leased by process {holder.get('pid')} on {holder.get('host')}")
        fence = _whole(holder.get("fence")) + 1
        before = uptime_ns()
        etag = folder.bucket.put(key, _told(token, fence, LEASE_NS), etag=there.etag)
        return _held(folder, token, fence, etag, before)
    except (FileExistsError, Changed) as error:
        raise Held(f"{folder.root}/{NAME} was taken by another process a moment ago") from error


def _see_that_conditions_hold(folder: ObjectRoot) -> None:
    """Raises OSError where the store writes over what is there although it was told not to: no lock can be held there.

    Some stores that speak S3 pass over the conditions of a write without a word. Asked once in the life of a process.
    """
    key = folder.address.key(CLOCK)
    for _ in range(2):  # the first may be the first ever
        if folder.bucket.conditional:
            return
        try:
            folder.bucket.put(key, os.urandom(8).hex().encode(), new=True)
        except FileExistsError:
            folder.bucket.conditional = True
    if not folder.bucket.conditional:
        raise OSError(errno.ENOTSUP, "this store passes over the conditions of writes: no lock can be held in it", key)


def _held(folder: ObjectRoot, token: str, fence: int, etag: str, before: int) -> ObjectLock:
    seen = folder.object(NAME)
    if seen.etag != etag:
        raise Held(f"{folder.root}/{NAME} was taken by another process a moment ago")
    return ObjectLock(folder, token, fence, etag, before, seen.modified_ns)


def _is_free(folder: ObjectRoot, holder: dict[str, object], there: Object) -> bool:
    """Released, run out by the store's clock, or held by a process of this very machine that is no more."""
    lease_ns = _whole(holder.get("lease_ns"))
    if lease_ns == 0 or _is_dead(holder):
        return True
    return _store_now_ns(folder) > there.modified_ns + lease_ns


def _is_dead(holder: dict[str, object]) -> bool:
    if (holder.get("boot"), holder.get("pids")) != (boot_id(), _pid_space()) or _pid_space() == "unknown":
        return False
    try:
        os.kill(_whole(holder.get("pid")) or os.getpid(), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _store_now_ns(folder: ObjectRoot) -> int:
    """The time by the store's clock, which it gives to a key that is written for that."""
    folder.bucket.put(folder.address.key(CLOCK), os.urandom(8).hex().encode())
    return folder.object(CLOCK).modified_ns


def _told(token: str, fence: int, lease_ns: int) -> bytes:
    data = {"host": socket.gethostname(), "boot": boot_id(), "pids": _pid_space(), "pid": os.getpid(),
            "token": token, "fence": fence, "lease_ns": lease_ns, "said": os.urandom(4).hex()}  # fmt: skip
    return json.dumps(data).encode()


def _holder(text: bytes) -> dict[str, object]:
    """What a lock's key says; one that cannot be read is held by somebody for a whole lease."""
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    return data if isinstance(data, dict) else {"lease_ns": LEASE_NS}


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _pid_space() -> str:
    """What process numbers of two containers on one machine do not share."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "unknown"


def uptime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
