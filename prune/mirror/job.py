"""The pass of one run: choose under the locks, copy without them, publish under them; newest missing first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from prune import planner
from prune.checking import Interrupted
from prune.deletion.locks import Locks, make_controls, take
from prune.deletion.recovery import recover
from prune.deletion.turns import take_turn
from prune.deletion.volumes import write_volumes
from prune.errors import PruneError
from prune.inventory import gather
from prune.inventory.site import OpenReplica, Site
from prune.journal import Event, Journal
from prune.mirror import pointers, room
from prune.mirror.build import Build, Changed, bytes_needed, entries_needed, under_construction
from prune.mirror.delivery import Delivery, Unfit
from prune.mirror.order import Key, Order, Wishes, as_if_mirrored, linked_away, not_kept, orders
from prune.mirror.outcome import Conduct, Copied, Mirrored
from prune.mirror.remains import in_the_way, over_remains
from prune.mirror.staging import leftovers, sweep_staging, token_of
from prune.model import Attention, Block, Copy, FailedCopy, Inventory, RunPlan


@dataclass
class Job:
    """Mirrors one open site."""

    site: Site
    journal: Journal
    conduct: Conduct
    state: str | None = None
    steps: frozenset[int] = frozenset()
    source: str | None = None
    copied: list[Copied] = field(default_factory=list)
    failed: list[FailedCopy] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    moved_pointers: list[tuple[str, str]] = field(default_factory=list)
    attention: list[Attention] = field(default_factory=list)
    settled: set[Key] = field(default_factory=set)
    _relieved: set[Key] = field(default_factory=set)
    found: dict[Key, Copy] = field(default_factory=dict)
    _inventory: Inventory | None = None
    _plan: RunPlan | None = None
    _recovered: bool = False
    _done: int = 0
    _total: int = 0

    def run(self) -> Mirrored:
        """Copies what is missing or damaged. Trouble with one copy or replica stands in the outcome."""
        self.look()
        if not self._stand_in_the_way() and self._anything_to_do():
            while not self.conduct.stop and (order := self._choose()) is not None:
                self._carry_out(order)
            self._finish()
        self._say_what_is_left()
        return Mirrored(
            self.site.run.name,
            tuple(self.copied),
            tuple(self.failed),
            tuple(dict.fromkeys(self.blocks)),
            tuple(self.moved_pointers),
            tuple(dict.fromkeys(self.attention)),
        )

    # --- looking ---------------------------------------------------------------------------------------------

    @property
    def targets(self) -> list[OpenReplica]:
        """Replicas that may be written: the mirrors; where a person names the source, all others."""
        named = self.source is not None
        return [
            replica
            for replica in self.site.replicas
            if replica.usable and not replica.read_only and replica.name != self.source
            and (named or replica.settings.role == "mirror")
        ]  # fmt: skip

    @property
    def wishes(self) -> Wishes:
        stones = tuple(
            stone
            for replica in self.site.replicas
            if replica.control is not None
            for stone in replica.control.tombstones()
        )
        names = tuple(replica.name for replica in self.targets)
        return Wishes(names, self.steps, self.source, stones, frozenset(self.settled), dict(self.found))

    def look(self) -> None:
        """The site as it is now, and what the plan would be with every mirror up to date."""
        now = self.conduct.clock()
        wishes: list[Wishes] = []

        def imagine(found: Inventory) -> Inventory:
            if not wishes:
                wishes.append(self.wishes)
            return as_if_mirrored(found, wishes[0])

        self._inventory = gather(
            self.site, now_ns=now, evidence=self.journal.evidence, before=self._inventory, imagine=imagine
        )
        self._plan = planner.plan(imagine(self._inventory), self.site.run, now)

    def orders(self) -> list[Order]:
        return self.over_remains(self._orders_for(self.wishes))

    def over_remains(self, found: list[Order]) -> list[Order]:
        """The orders with what each has to clear out of its way; those that a writer may be in the way of wait."""
        aims = over_remains(self.site, found, now_ns=self.conduct.clock())
        for order in aims.waiting:
            assert order.replaces is not None
            self._note(order, f"{order.replaces.paths[0]} was written moments ago, and what it belongs to is not there")
        return aims.orders

    def _orders_for(self, wishes: Wishes) -> list[Order]:
        assert self._inventory is not None
        assert self._plan is not None
        return orders(self._inventory, self._plan, wishes)

    def _stand_in_the_way(self) -> bool:
        """Notes what keeps replicas from being mirrored; true where nothing can be done at all."""
        self.blocks += self.site.blocks
        for replica in self.site.replicas:
            if replica.trouble and replica.settings.required:
                self.blocks += replica.trouble
            elif replica.read_only and replica.settings.role == "mirror":
                detail = f"{replica.settings.root} is mounted read-only"
                if replica.settings.required:
                    self.blocks.append(Block("read-only", replica.name, detail))
                else:
                    self.attention.append(Attention("read-only", replica.name, detail, "mount it for writing"))
        return bool(self.site.blocks) or not self.site.primary.usable or not self.targets

    def _anything_to_do(self) -> bool:
        assert self._inventory is not None
        if self.orders():
            return True
        return any(
            pointers.lagging(self.site, target, self._inventory) or self._left_behind(target) for target in self.targets
        )

    def _left_behind(self, target: OpenReplica) -> bool:
        try:
            return target.control is not None and bool(leftovers(target))
        except OSError:
            return False  # no staging, or not to be read: then there is nothing to go on with either

    # --- choosing --------------------------------------------------------------------------------------------

    def _choose(self) -> Order | None:
        """The next order, chosen under the locks."""
        with Locks() as locks:
            if not self.lock(locks, self.conduct.wait_ns):
                return None
            self.look()
            found = self.orders()
        self._total = max(self._total, self._done + sum(order.source.size or 0 for order in found))
        return found[0] if found else None

    def lock(self, locks: Locks, wait_ns: int) -> bool:
        blocks = make_controls(self.site)
        block = blocks[0] if blocks else take_turn(locks, self.journal, self.site.run.name, wait_ns=wait_ns)
        block = block or take(self.site, locks, wait_ns=wait_ns)
        if block is not None:
            self.blocks.append(block)
            return False
        if not self._recovered:
            recover(self.site, now_ns=locks.now_ns(self.conduct.clock()))
            self._recovered = True
        for replica in self.site.replicas:
            if replica.control is not None:
                replica.control.tombstones(afresh=True)
        return True

    # --- one order -------------------------------------------------------------------------------------------

    def _carry_out(self, order: Order) -> None:
        """One copy from its order to its final name; whatever goes wrong is noted, and the order not tried again."""
        key = (order.step, order.target)
        source, target = self.site.by_name(order.source.replica), self.site.by_name(order.target)
        try:
            with under_construction(order, source, target, hidden=self._hidden) as build:
                if self._has_room(build, key):
                    Delivery(self, build).run()
        except Interrupted:
            return
        except Unfit:
            return  # chosen again from another replica, or not at all
        except (Changed, FileNotFoundError) as error:
            self.settled.add(key)
            self._note(order, str(error))
        except PruneError as error:
            self.fail(order, str(error))
        except FileExistsError as error:
            self.fail(order, in_the_way(order, error))
        except OSError as error:
            self.fail(order, f"{order.name}: {error.strerror}{f' ({error.filename})' if error.filename else ''}")

    # --- room ------------------------------------------------------------------------------------------------

    def _has_room(self, build: Build, key: Key) -> bool:
        """Whether the copy fits; where it does not, policy is carried out once, and the order chosen again."""
        need = room.Need(max(0, bytes_needed(build.members) - build.staged_bytes), entries_needed(build.members))
        short = room.shortage(build.target, need, used=self._used(key[1]))
        if short is None:
            return True
        if key in self._relieved:
            self.settled |= {(order.step, order.target) for order in self.orders() if order.target == key[1]}
            root = build.target.settings.root
            self.fail(build.order, f"{short} on {root}, and policy lets go of nothing more there")
            self.attention.append(
                Attention("mirror-too-small", key[1], f"step {key[0]} {short}",
                          "give it a larger volume, or keep fewer steps: it needs room for N + 1")
            )  # fmt: skip
            return False
        self._relieved.add(key)
        room.make_room(
            self.site.run, key[1], need, state=self.state, stop=self.conduct.stop, wait_ns=self.conduct.wait_ns
        )
        return False

    def _used(self, target: str) -> int:
        assert self._inventory is not None
        held = (copies.get(target) for copies in self._inventory.copies.values())
        return sum(copy.bytes or copy.size or 0 for copy in held if copy is not None)

    # --- the end ---------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Pointers last; then who each volume is and what it holds, and what dead copiers left."""
        assert self._inventory is not None
        mirrors = [target for target in self.targets if target.settings.role == "mirror"]
        for target in mirrors:
            for order in pointers.stand_ins(self.site, target, self._inventory):
                self._carry_out(order)
        if self.conduct.stop or any(block.block == "locked" for block in self.blocks):
            return
        with Locks() as locks:
            if not self.lock(locks, self.conduct.wait_ns):
                return
            self.look()
            assert self._inventory is not None
            for target in mirrors:
                done, failed = pointers.follow(self.site, target, self._inventory, hidden=self._hidden)
                self.moved_pointers += [(target.name, path) for path in done]
                self.failed += failed
            for target in self.targets:
                self._sweep(target, locks)
            self.attention += write_volumes(self.site)

    def _sweep(self, target: OpenReplica, locks: Locks) -> None:
        try:
            now = locks.now_ns(self.conduct.clock())
            pending = self._orders_for(replace(self.wishes, steps=frozenset(), settled=frozenset()))
            wanted = {token_of(order) for order in pending if order.target == target.name}
            sweep_staging(target, wanted=wanted, older_than_ns=now - self.site.run.guards.orphans)
        except OSError as error:
            self.attention.append(Attention("staging", target.name, f"{target.settings.root}: {error.strerror}",
                                            "the next run tries again"))  # fmt: skip

    def _say_what_is_left(self) -> None:
        if self._plan is None or self._inventory is None:
            return
        wishes = self.wishes
        for step in not_kept(self._plan, wishes):
            if step in self._inventory.copies:
                self.attention.append(Attention("not-kept", None, f"step {step} is not kept by policy, so it is not "
                                                "copied", f"prune pin {step} keeps it"))  # fmt: skip
        for step, link in linked_away(self._inventory, self._plan, wishes).items():
            self.attention.append(Attention("linked", None, f"step {step} is not copied: {link}",
                                            "put what it leads to in its place"))  # fmt: skip
        self.attention += [note for note in self._plan.attention if note.kind in ("differs", "damaged", "unreadable")]

    # --- small things ----------------------------------------------------------------------------------------

    @property
    def _hidden(self) -> bool:
        return self.site.layout is not None and self.site.layout.reads_every_entry

    def tick(self, count: int) -> None:
        if self.conduct.stop:
            raise Interrupted
        self._done += count
        self.conduct.progress("copying", self._done, max(self._total, self._done))

    def fail(self, order: Order, error: str) -> None:
        self.settled.add((order.step, order.target))
        self.failed.append(FailedCopy(order.step, order.target, error))
        now = self.conduct.clock()
        self.journal.add([Event(now, self.site.run.name, "failed", order.step, order.target,
                                data={"error": error, "doing": "mirror"})])  # fmt: skip

    def _note(self, order: Order, detail: str) -> None:
        self.attention.append(Attention("changed", order.target, f"step {order.step}: {detail}",
                                        "the next run copies it as it is then"))  # fmt: skip
