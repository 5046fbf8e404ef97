"""Who works on a run: one daemon at a time, by a lease in the shared database, beside the lock in each replica.

The lock is the real guard. The lease spares many hosts from waiting at each other's locks, and ends the work of a host
that was paused: one that wakes past its lease deletes nothing more, even where nobody took over.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.dialects.postgresql import insert

from prune.journal.base import Refused
from prune.journal.server import Server, Unavailable
from prune.journal.tables import LEASES, spelled

SECONDS = 60.0
MARGIN = 0.05  # our clock may run this much slower than the database's


def boot_seconds() -> float:
    """A clock that goes on while the process is stopped, and while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class RunLease:
    """A lease that was taken. A thread of its own renews it while the holder is at work."""

    server: Server
    run: str
    holder: str
    token: int
    seconds: float
    until: float  # by our own clock, on the safe side
    lost: str | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def take(cls, server: Server, run: str) -> RunLease:
        """Raises Refused while another holds it, and where the database cannot be asked."""
        seconds = SECONDS
        holder = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(6).hex()}"
        asked = boot_seconds()
        try:
            server.prepare(write=True)
            token = _take(server, run, holder, seconds)
        except Unavailable as error:
            raise Refused(f"who works on it cannot be told: {error}") from error
        found = cls(server, run, holder, token, seconds, asked + seconds * (1 - MARGIN))
        threading.Thread(target=found._keep_alive, name=f"lease of {run}", daemon=True).start()
        return found

    def held(self) -> bool:
        """Whether it is still ours. Asks nobody, and so can be asked before each deletion."""
        if self.lost is None and boot_seconds() > self.until:
            self.lost = "it ran out before it could be renewed: this process was paused, or the database not reached"
        return self.lost is None

    def renew(self) -> None:
        """Makes it last again. One that ran out, or that another took since, is never renewed."""
        asked = boot_seconds()
        if not self.held():
            return
        mine = (LEASES.c.run == spelled(self.run), LEASES.c.holder == self.holder, LEASES.c.token == self.token)
        query = (
            LEASES.update().where(*mine, LEASES.c.until > _NOW).values(until=_in(self.seconds)).returning(LEASES.c.run)
        )
        try:
            with self.server.transaction(patience=min(self.seconds / 4, 5.0)) as connection:
                renewed = connection.execute(query).first() is not None
        except Unavailable:
            return  # it may still be reached in time; until then it is ours
        if renewed:
            self.until = asked + self.seconds * (1 - MARGIN)
        else:
            self.lost = "another took it after it ran out"

    def release(self) -> None:
        """Lets the next one in at once. Where that cannot be said, it runs out by itself."""
        self._ended.set()
        mine = (LEASES.c.run == spelled(self.run), LEASES.c.holder == self.holder, LEASES.c.token == self.token)
        try:
            with self.server.transaction() as connection:
                connection.execute(LEASES.update().where(*mine).values(until=_NOW))
        except Unavailable:
            return

    def _keep_alive(self) -> None:
        while not self._ended.wait(self.seconds / 4) and self.held():
            self.renew()


_NOW: Any = func.clock_timestamp()


def _in(seconds: float) -> Any:
    return _NOW + func.make_interval(0, 0, 0, 0, 0, 0, seconds)


def _take(server: Server, run: str, holder: str, seconds: float) -> int:
    run = spelled(run)
    new = insert(LEASES).values(run=run, holder=holder, token=1, until=_in(seconds), taken_at=_NOW)
    query = new.on_conflict_do_update(
        index_elements=[LEASES.c.run],
        set_={"holder": holder, "token": LEASES.c.token + 1, "until": _in(seconds), "taken_at": _NOW},
        where=or_(LEASES.c.until <= _NOW, LEASES.c.holder == holder),
    ).returning(LEASES.c.token)
    with server.transaction() as connection:
        token = connection.execute(query).scalar()
        if token is not None:
            return int(token)
        left = func.extract("epoch", LEASES.c.until - _NOW)
        other = connection.execute(select(LEASES.c.holder, left).where(LEASES.c.run == run)).first()
    raise Refused(_held_by(other))


def _held_by(other: Any) -> str:
    if other is None:
        return "another daemon took it a moment ago"
    host, process, _ = str(other[0]).rsplit(":", 2)
    return f"process {process} on {host} works on it; unless it goes on, for {max(0, round(float(other[1])))} s more"
