"""What is to be copied where: pure, from what stands on the replicas and what the plan keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from prune.control.tombstones import Tombstone, binding
from prune.evidence import known_to_differ
from prune.model import Copy, Decision, Health, Inventory, RunPlan

_RANK = {Health.INTACT: 0, Health.WHOLE: 1, Health.UNVERIFIED: 2}
_PROVEN = frozenset({Health.INTACT, Health.WHOLE})
Key = tuple[int, str]  # step and replica


@dataclass(frozen=True, slots=True)
class Order:
    """One copy to be brought to one replica; ``replaces`` is the damaged one that stands there."""

    step: int
    source: Copy
    target: str
    replaces: Copy | None = None
    pointer: bool = False  # a full copy under a pointer's name: an older one gives way without a trace

    @property
    def name(self) -> str:
        return self.source.paths[0]


@dataclass(frozen=True)
class Wishes:
    """What a person asked for, and what this pass has learnt."""

    targets: tuple[str, ...]  # names of the replicas that may be written
    steps: frozenset[int] = frozenset()  # none: all
    source: str | None = None  # this replica's copies are right, a person says
    stones: tuple[Tombstone, ...] = ()
    settled: Collection[Key] = frozenset()  # (step, target) that this pass copied, or failed to
    found: Mapping[Key, Copy] = field(default_factory=dict)  # copies whose content was checked in this pass


def as_learnt(inventory: Inventory, wishes: Wishes) -> Inventory:
    """The inventory with what content checks of this pass found, where the copy is still the same."""
    copies = {step: dict(held) for step, held in inventory.copies.items()}
    for (step, name), copy in wishes.found.items():
        now = copies.get(step, {}).get(name)
        if now is not None and (now.listed, now.paths) == (copy.listed, copy.paths):
            copies[step][name] = replace(copy, busy=now.busy)
    return replace(inventory, copies=copies)


def as_if_mirrored(inventory: Inventory, wishes: Wishes) -> Inventory:
    """The inventory as it would be with every mirror holding what it can be given.

    A replica that cannot be reached counts as holding everything, and one where copying failed as holding that copy:
    what they lack must not keep old steps alive, nor send them there.
    """
    inventory, wishes = as_learnt(inventory, wishes), replace(wishes, settled=())
    copies = {step: dict(held) for step, held in inventory.copies.items()}
    for step, held in inventory.copies.items():
        for replica in inventory.replicas:
            if replica.role == "primary":
                continue
            if replica.listed and replica.name in wishes.targets:
                order = _order(step, held, replica.name, wishes)
                source = order.source if order is not None else None
            else:
                source = None if replica.name in held else next(iter(_sources(held, replica.name, wishes)), None)
            if source is not None:
                copies[step][replica.name] = replace(source, replica=replica.name, health=Health.WHOLE)
    return replace(inventory, copies=copies)


def orders(inventory: Inventory, plan: RunPlan, wishes: Wishes) -> list[Order]:
    """What to copy, newest step first. ``plan`` is that of :func:`as_if_mirrored`: only what it keeps is copied."""
    inventory = as_learnt(inventory, wishes)
    found = []
    for step in sorted(_kept(plan) & set(inventory.copies), reverse=True):
        if wishes.steps and step not in wishes.steps:
            continue
        for target in wishes.targets:
            order = _order(step, inventory.copies[step], target, wishes)
            if order is not None:
                found.append(order)
    return found


def linked_away(inventory: Inventory, plan: RunPlan, wishes: Wishes) -> dict[int, str]:
    """Steps that the plan keeps and a mirror lacks for good: links lead out of every copy, and are not followed."""
    found = {}
    for step in sorted(_kept(plan) & set(inventory.copies), reverse=True):
        held = inventory.copies[step]
        good = [copy for copy in held.values() if copy.health is None or copy.health.restorable]
        links = [copy.link for copy in good if copy.link is not None]
        if links and len(links) == len(good) and any(target not in held for target in wishes.targets):
            found[step] = links[0]
    return found


def not_kept(plan: RunPlan, wishes: Wishes) -> list[int]:
    """Steps that were asked for and that the plan does not keep."""
    return sorted(wishes.steps - _kept(plan))


def _kept(plan: RunPlan) -> set[int]:
    return {step.step for step in plan.steps if step.decision is Decision.KEEP or _pinned(step.guards)}


def _pinned(guards: Iterable[object]) -> bool:
    return any(getattr(hold, "guard", None) == "pinned" for hold in guards)


def _order(step: int, held: Mapping[str, Copy], target: str, wishes: Wishes) -> Order | None:
    """How one replica gets its copy of a step; None where it has one, or nothing can or may be done."""
    there = held.get(target)
    if (step, target) in wishes.settled or wishes.source == target:
        return None
    for source in _sources(held, target, wishes):
        if _buried(source, wishes.stones):
            continue
        if there is None or _may_replace(source, there, wishes):
            return Order(step, source, target, there)
    return None


def _sources(held: Mapping[str, Copy], target: str, wishes: Wishes) -> Iterator[Copy]:
    """Copies of a step that can be copied from, the best first, then in the order of the replicas."""
    good = [
        copy
        for name, copy in held.items()
        if name != target
        and copy.link is None
        and (wishes.source is None or name == wishes.source)
        and (copy.health is None or copy.health.restorable)
    ]
    yield from sorted(good, key=lambda copy: _RANK.get(copy.health or Health.UNVERIFIED, 3))


def _may_replace(source: Copy, there: Copy, wishes: Wishes) -> bool:
    """Whether evidence, or a person, says that the copy there must give way. Never a good one to a worse one."""
    if there.link is not None or there.health in (None, Health.UNKNOWN, Health.IN_FLIGHT):
        return False
    if wishes.source is not None:
        return there.health in (Health.BROKEN, Health.SUSPECT) or not _surely_equal(source, there)
    if there.health is Health.BROKEN:
        return source.health is not None and source.health.restorable
    return there.health is Health.SUSPECT and source.health in _PROVEN


def _surely_equal(one: Copy, other: Copy) -> bool:
    return bool(one.content and other.content) and not known_to_differ(one, other)


def _buried(source: Copy, stones: Iterable[Tombstone]) -> bool:
    """Whether exactly this content was pruned: no mirror brings it back."""
    if not source.measured:
        return False
    identity = source.identity
    return any(
        binding(
            stones, name=path, step=source.step, size=identity.size, mtime_ns=identity.mtime_ns, content=source.content
        )
        for path in source.paths
    )
