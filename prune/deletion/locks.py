"""The locks of all local replicas of a run, taken in order of real path so that two passes never wait crosswise."""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from prune.control import Control
from prune.control.lock import Held, HeldLock, Lock, acquire, between_looks_ns
from prune.inventory.site import OpenReplica, Site
from prune.journal.base import Lease
from prune.model import SECOND, Block

_RETRY_SECONDS = 0.1


@dataclass
class Locks:
    """Held locks by replica name, and the run's lease where its state is shared."""

    held: dict[str, HeldLock] = field(default_factory=dict)
    lease: Lease | None = None
    _lost: Block | None = None
    _looking: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)
    _keeper: threading.Thread | None = None

    def __enter__(self) -> Locks:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._keeper is not None:
            self._keeper.join()
        for lock in self.held.values():
            lock.release()
        self.held.clear()
        if self.lease is not None:
            self.lease.release()
            self.lease = None

    def lost(self) -> Block | None:
        """Set once the lock on a replica is no longer ours."""
        return self._lost_among(self.held)

    def passed_on(self) -> Block | None:
        """Set once the run is no longer ours by the shared state, or the lock on a replica is not, where so much time
        has passed that it may have been taken. Costs no call on the disk or the network but after such a pause."""
        if self.lease is not None and not self.lease.held():
            return Block("locked", None, f"the lease on the run was lost: {self.lease.lost}; nothing more is deleted")
        return self._lost_among({name: lock for name, lock in self.held.items() if lock.overdue()})

    def keep(self) -> None:
        """Renews leases from now on, however long a single call takes: content is read for many minutes."""
        for_good = all(isinstance(lock, Lock) and not lock.shared for lock in self.held.values())
        if not for_good and self._keeper is None:
            self._keeper = threading.Thread(target=self._renew_until_ended, daemon=True)
            self._keeper.start()

    def _renew_until_ended(self) -> None:
        while not self._ended.wait(between_looks_ns() / SECOND) and self._lost is None:
            with contextlib.suppress(OSError):  # asked again in time, and by whoever deletes
                self.passed_on()

    def _lost_among(self, held: Mapping[str, HeldLock]) -> Block | None:
        """What is lost once is lost for good."""
        with self._looking:
            name = None if self._lost else next((name for name, lock in held.items() if not lock.still_held()), None)
            if name is not None:
                detail = "the lock was lost to another process; nothing more is deleted"
                self._lost = Block("locked", name, detail)
            return self._lost

    def now_ns(self, local_ns: int) -> int:
        """The earliest of all clocks: ours and each volume's own, so that every age is the smaller one."""
        return min([local_ns, *(lock.now_ns() for lock in self.held.values())])

    def skew_seconds(self, local_ns: int) -> float | None:
        """How far the furthest volume's clock is from ours; positive: it is ahead."""
        skews = [lock.now_ns() - local_ns for lock in self.held.values()]
        return max(skews, key=abs) / SECOND if skews else None


def make_controls(site: Site, *, spare_blank: bool = False) -> list[Block]:
    """Makes and furnishes each usable replica's control folder where it is missing. Blocks for those that cannot.

    ``spare_blank``: not where nothing ever was.
    """
    blocks = []
    for replica in _lockable(site):
        assert replica.place is not None
        if spare_blank and replica.blank:
            continue
        try:
            if replica.control is None:
                replica.control = Control.make(replica.place.path)
            else:
                replica.control.furnish()
        except OSError as error:
            detail = f"{replica.place.path} cannot be made: {error.strerror}; {_mend(error)}"
            blocks.append(Block("control-unusable", replica.name, detail))
    return blocks


def take(site: Site, locks: Locks, *, wait_ns: int, clock: Callable[[], int] = time.monotonic_ns) -> Block | None:
    """Takes every lock or none. Waits up to ``wait_ns`` for others to finish."""
    until = clock() + wait_ns
    for replica in sorted(_lockable(site), key=lambda r: r.root.real if r.root else ""):
        if replica.control is None:
            continue
        while True:
            try:
                locks.held[replica.name] = _acquire(replica, replica.control)
                break
            except Held as held:
                if clock() >= until:
                    return Block("locked", replica.name, f"{held}; wait for it with --wait")
                time.sleep(_RETRY_SECONDS)
            except OSError as error:
                return Block("control-unusable", replica.name, f"{replica.control.path}/lock: {error.strerror}")
    locks.keep()
    return None


def _acquire(replica: OpenReplica, control: Control) -> HeldLock:
    if replica.in_store:
        from prune.stores.object import lock
        from prune.stores.object.root import in_store

        keys = in_store(control.folder)
        assert keys is not None
        return lock.acquire(keys)
    return acquire(control.folder, file_system=replica.mount.file_system if replica.mount else None)


def _lockable(site: Site) -> Iterable[OpenReplica]:
    """Replicas in no trouble, also before anything is listed."""
    return [r for r in site.replicas if r.root is not None and not r.trouble and r.place is not None]


def _mend(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "give this user write permission there"
    if error.errno == errno.ENOSPC:
        return "the disk is full to the last block or inode: free one by hand, then run this again"
    return 'set control = "…" to a place on the same file system where it can be made'
