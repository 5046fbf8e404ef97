"""One copy on its way: its source checked, its bytes copied and compared, its names given under the locks."""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prune.checking import Checking, Interrupted, Ledger, Means
from prune.control.lock import SHARED
from prune.deletion.locks import Locks
from prune.engine import fresh_id
from prune.errors import Busy
from prune.journal import Event
from prune.mirror.appear import appear, sha256_of
from prune.mirror.build import Build, Changed
from prune.mirror.expected import Recorded, recorded_for
from prune.mirror.order import Order
from prune.mirror.outcome import Copied
from prune.mirror.transfer import Differs, SourceDamaged, Transfer
from prune.model import Health, Verdict
from prune.settings.schema import MINUTE
from prune.stores.pace import measure_copy

if TYPE_CHECKING:
    from prune.mirror.job import Job

PUBLISH_WAIT_NS = 10 * MINUTE  # a copy that took an hour waits longer for a lock than a question does


class Unfit(Exception):
    """The source is not fit to be copied."""


@dataclass(frozen=True)
class Delivery:
    """Carries out one order of a job."""

    job: Job
    build: Build

    def run(self) -> None:
        """Raises Unfit, Changed, Interrupted, PruneError, OSError; what does not compare is noted as failed."""
        build, order = self.build, self.build.order
        try:
            recorded = self._check_source()
            build.run(self._transfer(), recorded.hashes)
        except (Interrupted, Busy):
            raise
        except SourceDamaged as damage:
            build.discard()
            self._source_is(Verdict(Health.BROKEN, f"{order.name}: {damage}"))
            raise Unfit from damage
        except Differs as error:
            build.discard()
            self.job.fail(order, f"{order.name}: {error}")
            return
        except BaseException:
            build.discard()
            raise
        if recorded.complete:
            self._source_is(Verdict(Health.INTACT))
        try:
            self._publish()
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):  # what was built would keep the disk full
                build.discard()
            raise

    def _check_source(self) -> Recorded:
        """What is recorded for the source's files; where that is not all, the source is read in full first."""
        job, order = self.job, self.build.order
        copy = order.source
        means = Means(stop=job.conduct.stop, clock=job.conduct.clock)
        checking = Checking(job.site, means, Ledger(job.journal))
        look = checking.look(copy)
        if look is None or look.copy.identity != copy.identity:
            raise Changed(f"{order.name} changed before it was copied")
        recorded = recorded_for(self.build.source, copy, self.build.members)
        found = look.copy
        if look.to_read and not recorded.complete:
            found = checking.read(look)
        if found.health is None or not found.health.restorable:
            if not order.pointer:
                checking.tell([found])
                job.found[copy.step, copy.replica] = replace(found, listed=copy.listed)
            raise Unfit
        return recorded

    def _transfer(self) -> Transfer:
        """Where memory proves nothing, what landed is read back from the device unless a person says otherwise."""
        conduct, mount = self.job.conduct, self.build.target.mount
        kind = mount.file_system if mount else None
        remote = kind is None or kind in SHARED or kind.startswith("fuse.")
        cold = remote if conduct.cold is None else conduct.cold
        return Transfer(tick=self.job.tick, cold=cold, landed=conduct.landed)

    def _source_is(self, verdict: Verdict) -> None:
        """Copying read all of the source: what that says of it is remembered as a check would be."""
        job, build, copy, now = self.job, self.build, self.build.order.source, self.job.conduct.clock()
        assert build.source.root is not None
        if build.order.pointer:
            return
        job.journal.verified(build.source.root.real, copy.paths, copy.identity, verdict, now)
        if verdict.health is Health.BROKEN:
            data = {"detail": verdict.detail}
            job.journal.add([Event(now, job.site.run.name, "damage", copy.step, copy.replica, data=data)])
        verified = now if verdict.health is Health.INTACT else None
        job.found[copy.step, copy.replica] = replace(
            copy, health=verdict.health, detail=verdict.detail, verified_ns=verified
        )

    def _source_is_what_landed(self, now: int) -> None:
        """The source was hashed and compared with a copy that has a manifest now: that vouches for both."""
        source, root = self.build.order.source, self.build.source.root
        assert root is not None
        self.job.journal.verified(root.real, source.paths, source.identity, Verdict(Health.INTACT), now)

    def _publish(self) -> None:
        job, build, order = self.job, self.build, self.build.order
        with Locks() as locks:
            if not job.lock(locks, max(job.conduct.wait_ns, PUBLISH_WAIT_NS)):
                job.settled.add((order.step, order.target))
                return  # what was built waits for the next run
            if not (self._still_stands() and build.source_unchanged() and build.replaced_unchanged()):
                build.discard()
                raise Changed(f"{order.name} was changed, pruned or copied by another while it was copied")
            assert job.site.layout is not None
            now, repaired_ns = locks.now_ns(job.conduct.clock()), job.site.run.guards.repaired
            plan = fresh_id(job.conduct.clock())
            manifest = appear(build, job.site.layout, now_ns=now, repaired_ns=repaired_ns, plan=plan)
        self._tell(sha256_of(manifest), plan)

    def _still_stands(self) -> bool:
        """Whether a fresh look still gives this very order; a pointer's copy needs none."""
        if self.build.order.pointer:
            return True
        self.job.look()
        aims = [self._without_what_gives_way(order) for order in (self.build.order, *self.job.orders())]
        return any(_same(aims[0], now) for now in aims[1:])

    def _without_what_gives_way(self, order: Order) -> Order:
        """In an object store a damaged copy gives way while the new one is sent."""
        return replace(order, replaces=None) if self.build.target.in_store else order

    def _tell(self, sha256: str, plan: str) -> None:
        job, build, order, now = self.job, self.build, self.build.order, self.job.conduct.clock()
        job.settled.add((order.step, order.target))
        if order.pointer:
            job.moved_pointers.append((order.target, order.name))
            return
        size = sum(landed.size for landed in build.landed.values())
        job.copied.append(Copied(order.step, order.target, size, sha256, order.replaces is not None))
        assert build.target.root is not None
        measure, first = measure_copy(build.target.root, order.source.paths)
        real, identity = build.target.root.real, measure.identity(first)
        job.journal.verified(real, order.source.paths, identity, Verdict(Health.INTACT), now)
        self._source_is_what_landed(now)
        data = {"bytes": size, "sha256": sha256, "from": order.source.replica, "repaired": order.replaces is not None}
        job.journal.add([Event(now, job.site.run.name, "mirrored", order.step, order.target, plan, data)])


def _same(order: Order, now: Order) -> bool:
    """Whether an order still stands as it was carried out, as far as the top entries tell."""
    return (order.step, order.target) == (now.step, now.target) and all(
        (one and (one.replica, one.paths, one.listed)) == (other and (other.replica, other.paths, other.listed))
        for one, other in ((order.source, now.source), (order.replaces, now.replaces))
    )
