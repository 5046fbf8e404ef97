"""The pass over a plan's victims: look again, withdraw, look at what was withdrawn, purge; oldest first.

The locks are held and what a dead pass left is settled before this begins.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from prune import guards, planner
from prune.control import record
from prune.control.holds import held_steps
from prune.deletion import trash
from prune.deletion.hands import Hands
from prune.deletion.locks import Locks
from prune.deletion.purging import Purging
from prune.deletion.signs import Signs, signs
from prune.deletion.survivors import another, gone_or_another
from prune.deletion.tally import Tally
from prune.deletion.withdraw import Batch, Going, batch_of, look_at_withdrawn, withdraw
from prune.inventory import gather
from prune.inventory.judging import Evidence
from prune.inventory.site import OpenReplica, Site
from prune.model import (
    SECOND,
    Copy,
    DeletedCopy,
    FailedCopy,
    Inventory,
    RunPlan,
    StepPlan,
)
from prune.stop import Stop
from prune.stores.open_files import look

BATCH = 32
BATCH_IN_STORE = 1000  # what one request deletes
FILES_IN_STORE = 50_000  # of one batch: each is remembered until it is gone
BATCH_REMOTE = 64  # where each call waits, a look and a sync are shared by more
SMALL = 64  # copies of no more files are measured again before they are withdrawn, larger ones only afterwards
LOOK_EVERY_NS = SECOND


@dataclass(frozen=True, slots=True)
class Terms:
    """What a sweep may do, beyond its plan."""

    plan_id: str
    grace_ns: int = 0
    batch: int = BATCH
    keep_last: int | None = None
    allow_many: bool = False
    allow_rewound: bool = False


@dataclass
class Sweep:
    site: Site
    locks: Locks
    inventory: Inventory
    plan: RunPlan
    terms: Terms
    clock: Callable[[], int]  # local nanoseconds since the epoch
    evidence: Evidence
    stop: Stop
    told: Callable[[DeletedCopy], None] = lambda _copy: None
    keep_going: Callable[[], bool] = lambda: True  # asked before each batch; pressure stops where there is room
    seen: Signs | None = None  # those at the look that the plan was made of
    tally: Tally = field(default_factory=Tally)
    _hands: Hands = field(init=False, repr=False)
    _purging: Purging = field(init=False, repr=False)
    _fresh: dict[int, StepPlan] | None = None  # the latest look's, where there was one
    _signs: Signs = field(init=False, repr=False)
    _looked_ns: int = 0
    _look_cost_ns: int = 0

    def run(self) -> Tally:
        """Deletes the plan's victims, then thins. Everything that went otherwise stands in the tally."""
        victims = [*self.plan.victims, *self.plan.thinned]
        self._signs = self.seen or signs(self.site, self.inventory)
        self._looked_ns = time.monotonic_ns()
        with Hands(self.site, victims) as self._hands:
            self._purging = Purging(self._hands, self.tally, self.told)
            while victims and not self.stop and self.tally.blocked is None and self.keep_going():
                chosen = self._next(victims)
                victims = victims[len(chosen) :]
                self._batch(chosen)
            self._purging.collect(wait=True)
        for went in (self.tally.deleted, self.tally.thinned):
            went.sort(key=lambda copy: (copy.step, copy.replica))
        return self.tally

    @property
    def _in_store(self) -> bool:
        return any(replica.in_store for replica in self.site.replicas)

    def _next(self, victims: Sequence[StepPlan]) -> Sequence[StepPlan]:
        """The next steps that go together: one at the least, and in an object store no more than are held in mind."""
        most = min(len(victims), self.terms.batch)
        if not self._in_store:
            return victims[:most]
        held = accumulate(sum(copy.files or 0 for copy in step.goes) for step in victims[:most])
        return victims[: max(1, sum(1 for files in held if files <= FILES_IN_STORE))]

    def _batch(self, chosen: Sequence[StepPlan]) -> None:
        chosen = self._standing(self._look_again(chosen))
        self.tally.blocked = self.tally.blocked or self.locks.passed_on()
        if not chosen or self.tally.blocked is not None:
            return
        if self._in_store:
            self._purging.collect(wait=True)  # what is on its way out there is held in mind, a batch at a time
        now = self.locks.now_ns(self.clock())
        until = now + self.terms.grace_ns if self.terms.grace_ns else None
        batch = batch_of(self.site, chosen, plan_id=self.terms.plan_id, now_ns=now, until_ns=until)
        withdraw(batch, self._hands.each, lambda: self.locks.passed_on() is None)
        look_at_withdrawn(batch, self._vetoes(batch), self._hands.measure_all)
        self._settle(batch)
        self._signs = replace(self._signs, shared=signs(self.site, self.inventory).shared)

    # --- 1. look again ---------------------------------------------------------------------------------------

    def _look_again(self, chosen: Sequence[StepPlan]) -> list[StepPlan]:
        """The steps that a fresh look still deletes. Blocks end the sweep."""
        self.tally.blocked = self.locks.passed_on()
        if self.tally.blocked is not None:
            return []
        self.tally.blocked = self.locks.lost()
        if self.tally.blocked is not None:
            return []
        since = time.monotonic_ns() - self._looked_ns
        if signs(self.site, self.inventory) != self._signs or since >= max(LOOK_EVERY_NS, 20 * self._look_cost_ns):
            self._look_afresh()
        if self.tally.blocked is not None:
            return []
        return list(chosen) if self._fresh is None else self._still_victims(chosen, self._fresh)

    def _look_afresh(self) -> None:
        """Lists and plans again; what has not changed is not looked at again."""
        started = time.monotonic_ns()
        now = self.locks.now_ns(self.clock())
        before = signs(self.site, self.inventory)
        self.inventory = gather(
            self.site, now_ns=now, evidence=self.evidence, keep_last=self.terms.keep_last, before=self.inventory
        )
        fresh = planner.plan(
            self.inventory, self.site.run, now, keep_last=self.terms.keep_last,
            allow_many=self.terms.allow_many or bool(self.tally.deleted), allow_rewound=self.terms.allow_rewound,
        )  # fmt: skip
        self._signs = before
        self._looked_ns = time.monotonic_ns()
        self._look_cost_ns = self._looked_ns - started
        self.tally.blocked = fresh.blocked
        self._fresh = {step.step: step for step in fresh.steps}

    def _still_victims(self, chosen: Sequence[StepPlan], fresh: dict[int, StepPlan]) -> list[StepPlan]:
        still = []
        for step in chosen:
            now = fresh.get(step.step)
            if now is None:
                self._gone(step.copies)
            elif now.goes and now.decision is step.decision:
                still.append(self._unchanged_copies(step, now))
            elif holds := now.guards or (now.thin.guards if now.thin is not None else ()):
                for hold in holds:
                    self.tally.hold(step.step, hold.replica, hold.guard, hold.detail)
            else:
                self.tally.hold(step.step, None, "changed", f"is kept now: {', '.join(now.reasons)}")
        return [step for step in still if step.copies]

    def _unchanged_copies(self, planned: StepPlan, found: StepPlan) -> StepPlan:
        """The planned step with copies as they are now; any change holds them all."""
        there = {copy.replica: copy for copy in found.copies}
        missing = [copy for copy in planned.copies if copy.replica not in there]
        self._gone(missing)
        for copy in planned.copies:
            now = there.get(copy.replica)
            why = guards.changed(copy, now) if now is not None else None
            if why is not None:
                self.tally.hold(planned.step, copy.replica, "changed", why)
                return replace(planned, copies=())
        return replace(planned, copies=tuple(there[c.replica] for c in planned.copies if c.replica in there))

    def _gone(self, copies: Sequence[Copy]) -> None:
        self.tally.gone += [(copy.step, copy.replica) for copy in copies]

    def _standing(self, chosen: Sequence[StepPlan]) -> list[StepPlan]:
        """A last look at the copies themselves: those that are as planned; the others are held by what changed."""
        moved: dict[int, tuple[str, str]] = {}
        for replica in self.site.replicas:
            planned = [copy for step in chosen for copy in (*step.copies, *(step.goes if step.thinned else ()))]
            mine = [copy for copy in planned if copy.replica == replica.name]
            for copy, why in self._moved_on(replica, mine):
                moved.setdefault(copy.step, (replica.name, why))
        for step, (name, why) in moved.items():
            self.tally.hold(step, name, "changed", why)
        return [step for step in chosen if step.step not in moved]

    def _moved_on(self, replica: OpenReplica, copies: Sequence[Copy]) -> Iterator[tuple[Copy, str]]:
        """Copies that are no longer what was planned. What went away is counted by the look at what was withdrawn."""
        root = replica.root
        if root is None:
            return
        small = [copy for copy in copies if copy.files is not None and copy.files <= SMALL]
        for copy, found in zip(small, self._hands.look_at(root, [copy.paths for copy in small]), strict=True):
            if isinstance(found, FileNotFoundError):
                continue
            if isinstance(found, OSError):
                yield copy, f"{copy.paths[0]}: {found.strerror}"
                continue
            why = guards.changed(copy, replace(copy, identity=found[0].identity(found[1])))
            if why is not None:
                yield copy, why
        for copy in (copy for copy in copies if copy not in small):  # its files are looked at once it is withdrawn
            try:
                why = another(root, copy)
            except FileNotFoundError:
                continue
            except OSError as error:
                why = f"{copy.paths[0]}: {error.strerror}"
            if why is not None:
                yield copy, why

    def _vetoes(self, batch: Batch) -> dict[int, str]:
        """Steps that somebody opened, pinned or leased while they were withdrawn; all, where the run was passed on."""
        passed_on = self.locks.passed_on()
        if passed_on is not None:
            self.tally.blocked = passed_on
            return {going.copy.step: passed_on.detail for going in batch.going}
        if (why := self._others_acted()) is not None:
            self._looked_ns = 0  # the next steps are looked at afresh
            return {going.copy.step: why for going in batch.going}
        found: dict[int, str] = {}
        trashes = [os.path.join(r.control.folder.real, "trash") for r in batch.replicas if r.control is not None]
        open_files = look(trashes)
        for replica in batch.replicas:
            control = replica.control
            assert control is not None
            try:
                held = held_steps(control.pins(""), control.leases(""), self.clock())
            except (OSError, ValueError) as error:
                return {going.copy.step: f"pins cannot be read: {error}" for going in batch.going}
            for going in batch.of(replica):
                paths = [os.path.join(control.folder.real, path) for path in trash.trash_paths(going.withdrawal)]
                who = next((who for path in paths if (who := open_files.holder(path))), None)
                if who is not None:
                    found[going.copy.step] = f"{who} holds it open"
                elif going.copy.step in held:
                    found[going.copy.step] = "was pinned or leased meanwhile"
        return found

    def _others_acted(self) -> str | None:
        """What happened to pointers, pins, volumes and the steps that are to survive while victims were withdrawn."""
        if signs(self.site, self.inventory).foreign != self._signs.foreign:
            return "a pointer, a pin or a volume changed meanwhile"
        return gone_or_another(self.site, self.plan.steps if self._fresh is None else self._fresh.values())

    # --- 5. purge --------------------------------------------------------------------------------------------

    def _settle(self, batch: Batch) -> None:
        for step, why in batch.put_back.items():
            self.tally.hold(step, None, "changed", why)
        out: list[Going] = []
        for going in batch.going:
            copy = going.copy
            if going.error is not None:
                self.tally.failed.append(FailedCopy(copy.step, copy.replica, going.error))
            elif going.out:
                out.append(going)
            elif going.unlinked:
                self._purging.went(going, purged=True)
            elif copy.step not in batch.put_back and going.withdrawal.why != record.THINNED:
                self.tally.gone.append((copy.step, copy.replica))
        if self.terms.grace_ns:
            for going in out:
                self._purging.went(going, purged=False)
            return
        self._purging.begin(out)
        self._purging.collect(wait=self.terms.batch == 1)
