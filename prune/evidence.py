"""What an inventory says of each step, and which copies must be looked at before that can be relied on.

A plan asks its questions here. Whatever an answer leans on and nobody has looked at yet is written down, so that the
copies a decision needs are exactly those it asked for: no second piece of code has to guess them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from prune.model import SECOND, Copy, Health, Inventory, Replica
from prune.settings.schema import MINUTE, RunSettings

Key = tuple[int, str]  # step and replica name: one copy

SET_BY_NOBODY_NS = 315_619_200 * SECOND  # 1980-01-02 UTC; FAT and ZIP begin on 1980-01-01, so that is nobody's either
SKEW_NS = MINUTE  # clocks of two machines may differ by this much without anybody being wrong

_RANK = {Health.INTACT: 0, Health.WHOLE: 1, Health.UNVERIFIED: 2}


def set_by_somebody(mtime_ns: int | None) -> bool:
    """Whether a time can be one at which somebody wrote: not unread, zero, negative or before 1980-01-02."""
    return mtime_ns is not None and mtime_ns >= SET_BY_NOBODY_NS


def has_unknown_mtime(copy: Copy) -> bool:
    """Whether any file of the copy has a time that nobody set; one such file speaks for all of them."""
    return not (set_by_somebody(copy.mtime_ns) and set_by_somebody(copy.oldest_mtime_ns))


@dataclass(frozen=True)
class Evidence:
    """An inventory under questioning.

    ``unjudged`` is what a copy counts as while its health is None: a restorable one when asking what must be judged
    (so that every copy the answer leans on comes up), ``unknown`` when deciding. ``to_judge`` and ``to_measure``
    collect what was leaned on and is not known.
    """

    inventory: Inventory
    run: RunSettings
    now_ns: int
    unjudged: Health = Health.UNKNOWN
    to_judge: set[Key] = field(default_factory=set, compare=False)
    to_measure: set[Key] = field(default_factory=set, compare=False)
    _aligned: dict[int, bool] = field(default_factory=dict, compare=False, repr=False)
    _times: dict[int, int | None] = field(default_factory=dict, compare=False, repr=False)

    # What stands where.

    @cached_property
    def replicas(self) -> tuple[Replica, ...]:
        """The primary first, then the mirrors as the settings order them."""
        order = {settings.name: place for place, settings in enumerate(self.run.replicas)}
        last = len(order)
        return tuple(
            sorted(self.inventory.replicas, key=lambda r: (r.role != "primary", order.get(r.name, last), r.name))
        )

    @cached_property
    def primary(self) -> str | None:
        """The name of the primary; None in an inventory that has none."""
        return next((replica.name for replica in self.replicas if replica.role == "primary"), None)

    @cached_property
    def required(self) -> tuple[str, ...]:
        return tuple(replica.name for replica in self.replicas if replica.required)

    @cached_property
    def listed(self) -> tuple[str, ...]:
        """Replicas that were listed completely."""
        return tuple(replica.name for replica in self.replicas if replica.listed)

    @cached_property
    def optional(self) -> tuple[str, ...]:
        """Optional mirrors that were listed completely: nothing is said of, or taken from, one that was not."""
        return tuple(replica.name for replica in self.replicas if replica.listed and not replica.required)

    @cached_property
    def copies(self) -> dict[int, dict[str, Copy]]:
        """Step → replica → copy, ascending and by replica; optional ones that were not listed are left out."""
        seen = [replica.name for replica in self.replicas if replica.listed or replica.required]
        ordered = {
            step: {name: held[name] for name in seen if name in held}
            for step, held in sorted(self.inventory.copies.items())
        }
        return {step: held for step, held in ordered.items() if held}

    @cached_property
    def steps(self) -> list[int]:
        """Every step, ascending."""
        return list(self.copies)

    def on(self, replica: str | None) -> list[Copy]:
        """The copies that one replica holds, ascending."""
        return [held[replica] for held in self.copies.values() if replica is not None and replica in held]

    # Health.

    def health(self, copy: Copy) -> Health:
        """The health of a copy; one that nobody has judged is noted as leaned on."""
        if copy.health is None:
            self.to_judge.add((copy.step, copy.replica))
            return self.unjudged
        return copy.health

    def restorable(self, copy: Copy) -> bool:
        return self.health(copy).restorable

    def restorable_anywhere(self, step: int) -> bool:
        return any(self.restorable(copy) for copy in self.copies[step].values())

    def doubtful(self, step: int) -> bool:
        """Whether a copy of it could not be looked at: it may restore for all that anybody knows."""
        return Health.UNKNOWN in [self.health(copy) for copy in self.copies[step].values()]

    def aligned(self, step: int) -> bool:
        """Restorable on every required replica, and not known to differ between them."""
        if step not in self._aligned:
            held = self.copies[step]
            copies = [held[name] for name in self.required if name in held]
            on_all = bool(copies) and len(copies) == len(self.required)
            self._aligned[step] = on_all and all(map(self.restorable, copies)) and not self._differ(copies)
        return self._aligned[step]

    def _differ(self, copies: Sequence[Copy]) -> bool:
        first, *others = copies
        for other in others:
            if not (first.content and other.content):
                self.look_into(first)
                self.look_into(other)
            if known_to_differ(first, other):
                return True
        return False

    def full(self, step: int) -> bool:
        """Whether an aligned step holds all that resuming needs, on every required replica."""
        held = self.copies[step]
        return not any(held[name].weights_only for name in self.required if name in held)

    @cached_property
    def anything_full(self) -> bool:
        """Whether any copy may hold more than weights. What is broken or being written cannot be told to."""
        return any(
            self.health(copy) not in (Health.BROKEN, Health.IN_FLIGHT) and not copy.weights_only
            for step in reversed(self.steps)
            for copy in self.copies[step].values()
        )

    def newest_restorable(self, replicas: Sequence[str]) -> Copy | None:
        """What resuming from these replicas gives: newest step first, weights alone only where nothing is full."""
        weights: Copy | None = None
        for step in reversed(self.steps):
            found = self._best_of(step, replicas)
            if found is not None and not found.weights_only:
                return found
            weights = weights or found
        return weights

    def _best_of(self, step: int, replicas: Sequence[str]) -> Copy | None:
        """Within one step better evidence comes first, then the order of the replicas."""
        held = self.copies[step]
        best: Copy | None = None
        for name in replicas:
            if name in held and self.restorable(held[name]):
                best = held[name] if best is None else min(best, held[name], key=self._worth)
                if self._worth(best) == (False, 0):
                    break
        return best

    def _worth(self, copy: Copy) -> tuple[bool, int]:
        return copy.weights_only, _RANK[self.health(copy)]

    @cached_property
    def candidate(self) -> Copy | None:
        """What training would resume from now."""
        return self.newest_restorable([replica.name for replica in self.replicas])

    # Time.

    def look_into(self, copy: Copy) -> bool:
        """Whether every file of the copy has been looked at; one that was only listed is noted as leaned on."""
        if not copy.measured:
            self.to_measure.add((copy.step, copy.replica))
        return copy.measured

    def trustworthy(self, mtime_ns: int | None) -> bool:
        return set_by_somebody(mtime_ns) and not self.in_future(mtime_ns)

    def in_future(self, mtime_ns: int | None) -> bool:
        return mtime_ns is not None and mtime_ns > self.now_ns + SKEW_NS

    def known_written(self, copy: Copy | None) -> int | None:
        """When the copy was last written, as far as it was looked at; None where its times cannot be trusted."""
        if copy is None or has_unknown_mtime(copy) or self.in_future(copy.mtime_ns):
            return None
        return copy.mtime_ns

    def written(self, copy: Copy) -> int | None:
        """When the copy was last written, leaning on every file of it."""
        self.look_into(copy)
        return self.known_written(copy)

    def time(self, step: int) -> int | None:
        """When a step was saved: by its manifest, else by the primary's mtime (a mirror's where that lacks it)."""
        if step not in self._times:
            self._times[step] = self._find_time(step)
        return self._times[step]

    def _find_time(self, step: int) -> int | None:
        held = self.copies[step]
        for copy in held.values():
            if self.trustworthy(copy.created_at_ns):
                return copy.created_at_ns
            self.look_into(copy)
        first = held.get(self.primary) if self.primary is not None else None
        return self.known_written(first or next(iter(held.values())))

    def times(self, steps: Iterable[int]) -> dict[int, int]:
        """The steps whose time is known."""
        known = ((step, self.time(step)) for step in steps)
        return {step: time for step, time in known if time is not None}


def known_to_differ(one: Copy, other: Copy) -> bool:
    """Whether two copies of a step are known to hold different bytes: by their manifests, else by their sizes.

    Of a thinned copy and one that is not yet, nothing is known: what both hold may well be equal.
    """
    if bool(one.thinned) != bool(other.thinned):
        return False
    if one.content and other.content:
        return one.content != other.content
    sizes_known = one.measured and other.measured and one.size is not None and other.size is not None
    return sizes_known and one.size != other.size
