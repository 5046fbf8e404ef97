"""A good copy on a mirror put back on the primary, because a person asked to resume from it there."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from prune import planner
from prune.control.tombstones import binding
from prune.deletion.locks import Locks
from prune.deletion.volumes import write_volumes
from prune.errors import Blocked, Failed
from prune.inventory import gather, open_site
from prune.inventory.site import OpenReplica
from prune.journal import Journal
from prune.mirror import pointers
from prune.mirror.job import Job
from prune.mirror.order import Order
from prune.mirror.outcome import Conduct
from prune.model import Copy
from prune.settings.schema import RunSettings


@dataclass
class _Restore(Job):
    """A job with one order, on which no policy and no tombstone has a say: nothing newer verifies."""

    copy: Copy = field(kw_only=True)

    @property
    def targets(self) -> list[OpenReplica]:
        return [self.site.primary]

    def once(self) -> None:
        self.look()
        self._refuse()
        while not self._there and not self.conduct.stop and (order := self._choose()) is not None:
            self._carry_out(order)
        if not self._there:
            raise self._why_not()
        self._settle()

    @property
    def _there(self) -> bool:
        return bool(self.copied or self.moved_pointers)

    def look(self) -> None:
        now = self.conduct.clock()
        self._inventory = gather(self.site, now_ns=now, evidence=self.journal.evidence, before=self._inventory)
        self._plan = planner.plan(self._inventory, self.site.run, now)

    def orders(self) -> list[Order]:
        assert self._inventory is not None
        name = self.site.primary.name
        held = self._inventory.copies.get(self.copy.step, {})
        source = held.get(self.copy.replica)
        if (self.copy.step, name) in self.settled:
            return []
        if source is None or source.paths != self.copy.paths:  # a full copy under a pointer's name
            return [Order(self.copy.step, self.copy, name, pointer=True)]
        return self.over_remains([Order(self.copy.step, source, name, held.get(name))])

    def _refuse(self) -> None:
        primary = self.site.primary
        if not primary.usable or primary.read_only:
            detail = primary.trouble[0].detail if primary.trouble else "it is mounted read-only"
            raise Blocked(f"{self.site.run.name}: the primary cannot be restored to: {detail}")
        there = next((order.replaces for order in self.orders()), None)
        if there is not None and there.busy is not None:
            raise Failed(f"step {there.step} on the primary is not replaced: {there.busy} has it open")

    def _why_not(self) -> Exception:
        if self.blocks:
            return Blocked(f"{self.site.run.name}: {self.blocks[0].detail}")
        if self.failed:
            return Failed(f"step {self.copy.step} could not be restored: {self.failed[0].error}")
        why = self.attention[0].detail if self.attention else f"the copy on {self.copy.replica} changed meanwhile"
        return Failed(f"step {self.copy.step} could not be restored: {why}")

    def _settle(self) -> None:
        """It is wanted again: no tombstone binds it any more; pointers that the primary lost come back with it."""
        with Locks() as locks:
            if not self.lock(locks, self.conduct.wait_ns):
                return  # it is there and whole; the next pass does the rest
            self.look()
            for replica in self.site.replicas:
                if replica.control is not None and replica.usable:
                    with suppress(OSError):  # a stone that stays keeps mirrors from getting it, and is told then
                        self._lift(replica)
            assert self._inventory is not None
            mirror = self.site.by_name(self.copy.replica)
            with suppress(OSError):  # the path is told, whatever pointers say
                pointers.bring_back(self.site, mirror, self.copy.step, self._inventory, hidden=self._hidden)
            write_volumes(self.site)

    def _lift(self, replica: OpenReplica) -> None:
        assert replica.control is not None
        identity = self.copy.identity
        stones = [
            stone
            for stone in replica.control.tombstones()
            if any(
                binding([stone], name=path, step=self.copy.step, size=identity.size, mtime_ns=identity.mtime_ns,
                        content=self.copy.content)
                for path in self.copy.paths
            )
        ]  # fmt: skip
        if stones:
            replica.control.lift(stones)


def restore(run: RunSettings, copy: Copy, *, conduct: Conduct, journal: Journal, state: str | None) -> None:
    """Puts a mirror's copy on the primary, whole or not at all; what it replaces waits in the trash.

    Raises Blocked when the primary may not be written, Failed when the copy did not land, with all as it was.
    """
    with open_site(run) as site:
        _Restore(site, journal, conduct, state, copy=copy).once()
