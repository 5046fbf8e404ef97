"""Whose turn it is on a run that several daemons look after. Asked before the locks in the replicas, which stay the
real guard; without a shared state there is nobody to ask."""

from __future__ import annotations

import time
from collections.abc import Callable

from prune.deletion.locks import Locks
from prune.journal.base import Journal, Lease, Refused
from prune.model import Block

_RETRY_SECONDS = 0.5


def take_turn(
    locks: Locks, journal: Journal, run: str, *, wait_ns: int, clock: Callable[[], int] = time.monotonic_ns
) -> Block | None:
    """Leases the run where its state is shared; the lease then stands among the locks, and ends with them.

    A block where another daemon works on it, or where nobody can tell: what is not known deletes nothing.
    """
    lease: Callable[[str], Lease] | None = getattr(journal, "lease", None)
    if lease is None:
        return None
    until = clock() + wait_ns
    while True:
        try:
            locks.lease = lease(run)
            return None
        except Refused as refused:
            if clock() >= until:
                return Block("locked", None, f"shared state: {refused}")
            time.sleep(_RETRY_SECONDS)
