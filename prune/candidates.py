"""What training could resume from: newest step first, each replica in turn, every one that is passed over told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from prune.agreement import Agreement
from prune.checking import Checking
from prune.inventory.copies import listed_copy
from prune.layouts.base import Claim, Part
from prune.model import Copy, Health, Inventory, Kind, Pick, PointerState

_NO_STEP = -1
_RANK = {Health.INTACT: 0, Health.WHOLE: 1, Health.UNVERIFIED: 2}


@dataclass(frozen=True, slots=True)
class Skipped:
    """A copy that was passed over, and why."""

    step: int
    replica: str
    path: str
    health: Health
    detail: str | None


@dataclass
class Search:
    """Goes through the copies of one open site, best first. ``tell`` hears of every copy that is passed over."""

    checking: Checking
    inventory: Inventory
    fresh_ns: int  # younger than this may be being written
    min_step: int | None = None
    tell: Callable[[Skipped], None] = lambda _skipped: None
    skipped: list[Skipped] = field(default_factory=list)
    checked: dict[tuple[int, str, tuple[str, ...]], Copy] = field(default_factory=dict)

    def usable(self) -> Iterator[Copy]:
        """Copies that training could resume from. Copies of weights alone come last, and only where none holds more."""
        weights: list[Copy] = []
        for step in self._steps():
            for copy in self._of_step(step):
                if copy.weights_only:
                    weights.append(copy)
                    continue
                self._leave_out(weights)
                yield copy
        if self._anything_full():
            self._leave_out(weights)
        yield from weights

    def path(self, copy: Copy) -> str:
        """The full path that the stack's own loader is given."""
        return os.path.join(self._root(copy), copy.load_path or copy.paths[0])

    def paths(self, copy: Copy) -> tuple[str, ...]:
        """The full paths of a copy's entries."""
        return tuple(os.path.join(self._root(copy), path) for path in copy.paths)

    def _root(self, copy: Copy) -> str:
        replica = self.checking.site.by_name(copy.replica)
        return replica.root.real if replica.root is not None else replica.settings.root

    def check(self, copy: Copy) -> Copy | None:
        """A copy checked, once; None when it is gone. Raises Interrupted."""
        key = (copy.step, copy.replica, copy.paths)
        if key not in self.checked:
            found = self.checking.one(copy)
            if found is None:
                return None
            self.checked[key] = self._in_flight_or_suspect(found, copy)
        return self.checked[key]

    @cached_property
    def stand_ins(self) -> list[Copy]:
        """Full copies of a step under a pointer's name, such as ``last.ckpt``, in the order of the replicas, and of
        several on one what its trainer would pick first."""
        site, found = self.checking.site, list[Copy]()
        for pointer in self.inventory.pointers:
            replica = next((each for each in site.replicas if each.name == pointer.replica), None)
            if pointer.step is None or pointer.state is not PointerState.OK or replica is None or site.layout is None:
                continue
            claim = self._claim(pointer.replica, pointer.path)
            if claim is None or claim.kind not in (Kind.FILE, Kind.DIR) or not site.layout.stands_in(pointer.path):
                continue
            copy = listed_copy(replica, site.layout, pointer.step, [claim])
            if copy is not None:
                found.append(copy)
        order = [replica.name for replica in site.replicas]
        picked = {(name, pick.path) for name, pick in self.inventory.picks.items()}
        return sorted(
            found,
            key=lambda copy: (-copy.step, order.index(copy.replica), (copy.replica, copy.paths[0]) not in picked),
        )

    def apart(self, pick: Pick) -> Copy | None:
        """What the primary's trainer would pick, where that is no step's own: ``last.ckpt``, a backup."""
        site = self.checking.site
        claim = self._claim(site.primary.name, pick.path)
        if not pick.apart or claim is None or site.layout is None:
            return None
        return listed_copy(site.primary, site.layout, pick.step if pick.step is not None else _NO_STEP, [claim])

    def pass_over(self, copy: Copy, detail: str | None) -> None:
        """Tells that a copy is not taken, and why."""
        skipped = Skipped(copy.step, copy.replica, self.path(copy), copy.health or Health.UNKNOWN, detail)
        self.skipped.append(skipped)
        self.tell(skipped)

    # --- inside ----------------------------------------------------------------------------------------------

    def _steps(self) -> list[int]:
        steps = {*self.inventory.copies, *(copy.step for copy in self.stand_ins)}
        return sorted((step for step in steps if self.min_step is None or step >= self.min_step), reverse=True)

    def _of_step(self, step: int) -> Iterator[Copy]:
        """The usable copies of one step: intact ones as they are found, then whole, then unverified ones."""
        waiting: list[Copy] = []
        units = self._in_order(self.inventory.copies.get(step, {}).values())
        others = [copy for copy in self.stand_ins if copy.step == step]
        for copy in [*units, *others]:
            if waiting and (copy in others or not self._may_be_intact(copy)) and waiting[0].health is Health.WHOLE:
                yield from waiting
                waiting.clear()
            found = self.check(copy)
            if found is None:
                self.pass_over(copy, "went away while it was looked at")
            elif found.health is None or not found.health.restorable:
                self.pass_over(found, found.detail)
            elif found.health is Health.INTACT:
                for earlier in list(waiting):
                    weighed = self._weighed(earlier, found)
                    if weighed.health is Health.INTACT:
                        waiting.remove(earlier)
                        yield weighed
                    else:
                        self.pass_over(weighed, f"the copy on {found.replica} is verified, this one is not")
                yield found
            else:
                waiting = sorted([*waiting, found], key=lambda copy: _RANK[copy.health or Health.UNVERIFIED])
        yield from waiting

    def _weighed(self, copy: Copy, intact: Copy) -> Copy:
        """A copy of the same step as an intact one, intact itself where it holds the same bytes."""
        if self.checking.means.check != "sha256" or copy.paths != intact.paths or copy.replica == intact.replica:
            return copy
        return Agreement(self.checking).of([copy, intact])[0]

    def _in_order(self, copies: Iterable[Copy]) -> list[Copy]:
        order = [replica.name for replica in self.checking.site.replicas]
        return sorted(copies, key=lambda copy: order.index(copy.replica))

    def _anything_full(self) -> bool:
        """Whether any copy holds more than weights; of what is broken or being written it cannot be told."""
        untold = (Health.BROKEN, Health.IN_FLIGHT)
        return any(not copy.weights_only and copy.health not in untold for copy in self.checked.values())

    def _leave_out(self, weights: list[Copy]) -> None:
        for copy in weights:
            self.pass_over(copy, "holds weights alone, not what resuming needs")
        weights.clear()

    def _may_be_intact(self, copy: Copy) -> bool:
        """Whether anything could prove a copy whose twin's format proves nothing: a manifest, or sums beside it."""
        control = self.checking.site.by_name(copy.replica).control
        names = control.manifest_names() if control is not None else frozenset()
        return any(path.endswith(".sha256") or os.path.basename(path) in names for path in copy.paths)

    def _in_flight_or_suspect(self, found: Copy, listed: Copy) -> Copy:
        """What nothing proves, but its siblings' sizes or an open file tell."""
        if found.health is not Health.UNVERIFIED:
            return found
        if listed.health is Health.SUSPECT:
            return replace(found, health=Health.SUSPECT, detail=listed.detail)
        if listed.busy is not None and self._fresh(found):
            return replace(found, health=Health.IN_FLIGHT, detail=f"written moments ago, and {listed.busy} has it open")
        return found

    def _fresh(self, copy: Copy) -> bool:
        return copy.mtime_ns is None or copy.mtime_ns > self.checking.means.clock() - self.fresh_ns

    def _claim(self, replica: str, path: str) -> Claim | None:
        listing = self.checking.site.by_name(replica).listing
        if listing is None or listing.view is None:
            return None
        claim = listing.view.by_path.get(path)
        return claim if claim is not None and claim.part is Part.POINTER else None
