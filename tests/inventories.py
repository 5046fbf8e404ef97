"""Inventories for tests of the pure middle: round numbers, one moment, everything old, good and on both sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from prune import planner
from prune.model import Copy, Decision, Health, Identity, Inventory, Replica, RunPlan, Temporary
from prune.settings.schema import HOUR, Guards, Keep, ReplicaSettings, RunSettings

NOW = 1_795_966_680 * 1_000_000_000  # 2026-11-29T15:38:00Z
OLD = NOW - 2 * HOUR
GIB = 1 << 30


def copy(
    step: int, replica: str = "primary", *, at: int | None = OLD, oldest: int | str | None = "same", **more: Any
) -> Copy:
    """A good, old, measured copy in one file; ``at`` is its mtime, ``oldest`` that of its oldest file."""
    oldest_at = at if oldest == "same" else oldest
    assert not isinstance(oldest_at, str)
    identity = Identity(1, step + 1000, GIB, at or 0, at or 0, 1)
    given: dict[str, Any] = {"measured": True, "size": GIB, "bytes": GIB, "files": 1, "health": Health.WHOLE} | more
    return Copy(step, replica, (f"step_{step:04d}.pt",), identity, at, oldest_at, **given)


def listed(step: int, replica: str = "primary", *, at: int | None = OLD, **more: Any) -> Copy:
    """The same, as a mere listing shows a directory: neither judged nor measured."""
    unknown = {"measured": False, "size": None, "bytes": None, "files": None, "health": None}
    return copy(step, replica, at=at, **(unknown | more))


def replica_of(settings: ReplicaSettings, **more: Any) -> Replica:
    given: dict[str, Any] = {"free_bytes": 500 * GIB, "total_bytes": 1000 * GIB} | more
    return Replica(settings.name, settings.role, settings.root, required=settings.required, **given)


PRIMARY = ReplicaSettings("primary", "/data/run", "primary")
MIRROR = ReplicaSettings("mirror", "/mnt/mirror/run", "mirror")
CLOUD = ReplicaSettings("cloud", "/mnt/cloud/run", "mirror", optional=True)


@dataclass(frozen=True)
class Case:
    """One run as it stands, with its settings."""

    inventory: Inventory
    run: RunSettings
    now_ns: int = NOW

    def plan(self, **options: Any) -> RunPlan:
        return planner.plan(self.inventory, self.run, self.now_ns, **options)

    def wanted(self, **options: Any) -> planner.Wanted:
        return planner.wanted(self.inventory, self.run, self.now_ns, **options)

    def but(self, *copies: Copy, **fields: Any) -> Case:
        """The same with other copies in place of those of the same step and replica, and other inventory fields."""
        held = {step: dict(found) for step, found in self.inventory.copies.items()}
        for changed in copies:
            held.setdefault(changed.step, {})[changed.replica] = changed
        return replace(self, inventory=replace(self.inventory, copies=held, **fields))

    def without(self, step: int, replica: str) -> Case:
        held = {
            s: {n: c for n, c in found.items() if (s, n) != (step, replica)}
            for s, found in self.inventory.copies.items()
        }
        return replace(self, inventory=replace(self.inventory, copies={s: found for s, found in held.items() if found}))

    def replica(self, name: str, **changes: Any) -> Case:
        changed = tuple(replace(r, **changes) if r.name == name else r for r in self.inventory.replicas)
        return replace(self, inventory=replace(self.inventory, replicas=changed))

    def keeping(self, **rules: Any) -> Case:
        return replace(self, run=replace(self.run, keep=replace(self.run.keep, **rules)))

    def guarding(self, **guards: Any) -> Case:
        return replace(self, run=replace(self.run, guards=replace(self.run.guards, **guards)))

    def later(self, ns: int) -> Case:
        return replace(self, now_ns=self.now_ns + ns)


def case(
    primary: Iterable[int] = (),
    mirror: Iterable[int] | None = None,
    cloud: Iterable[int] | None = None,
    *,
    keep: Keep | None = None,
    guards: Guards | None = None,
    at: Mapping[int, int] | None = None,
    **fields: Any,
) -> Case:
    """Steps on the primary, on a required mirror, on an optional one; ``at`` gives mtimes by step, on all of them."""
    places = [(PRIMARY, primary), (MIRROR, mirror), (CLOUD, cloud)]
    used = [(settings, list(steps)) for settings, steps in places if steps is not None]
    copies: dict[int, dict[str, Copy]] = {}
    for settings, steps in used:
        for step in steps:
            copies.setdefault(step, {})[settings.name] = copy(step, settings.name, at=(at or {}).get(step, OLD))
    run = RunSettings("run", tuple(s for s, _ in used), keep=keep or Keep(last=2), guards=guards or Guards())
    inventory = Inventory("run", "step-file", tuple(replica_of(s) for s, _ in used), copies, **fields)
    return Case(inventory, run)


def temporary(
    step: int | None, replica: str = "primary", *, at: int | None = OLD, busy: str | None = None
) -> Temporary:
    return Temporary(replica, f"step_{step}.pt.part", step, GIB, at, Identity(1, 9, GIB, at or 0, at or 0, 1), busy)


def gone(plan: RunPlan) -> list[int]:
    """The steps that would be deleted."""
    return [step.step for step in plan.victims]


def stays(plan: RunPlan) -> list[int]:
    """The steps that a rule keeps."""
    return [step.step for step in plan.steps if step.decision is Decision.KEEP]


def held(plan: RunPlan) -> dict[int, list[str]]:
    """The steps that the policy would delete and a guard holds, with the guards."""
    return {s.step: [hold.guard for hold in s.guards] for s in plan.steps if s.decision is Decision.GUARDED}


def reasons(plan: RunPlan) -> dict[int, list[str]]:
    return {step.step: list(step.reasons) for step in plan.steps}


def kinds(plan: RunPlan) -> list[str]:
    """The kinds of attention, in order."""
    return [attention.kind for attention in plan.attention]


def blocks(plan: RunPlan) -> list[str]:
    return [block.block for block in plan.blocks]


@dataclass
class Veiled:
    """A case of which nothing has been looked at but what ``wanted`` asked for."""

    whole: Case
    seen: Case
    judged: set[tuple[int, str]] = field(default_factory=set)
    measured: set[tuple[int, str]] = field(default_factory=set)
    rounds: int = 0

    def look(self, **options: Any) -> Case:
        """Judges and measures what is wanted until nothing is."""
        while wanted := self.seen.wanted(**options):
            self.rounds += 1
            assert self.rounds < 1000
            for step, name in wanted.judge:
                assert self.seen.inventory.copies[step][name].health is None
                self.seen = self.seen.but(self.whole.inventory.copies[step][name])
            for step, name in wanted.measure:
                assert not self.seen.inventory.copies[step][name].measured
                truth = self.whole.inventory.copies[step][name]
                self.seen = self.seen.but(replace(truth, health=None, weights_only=False, content=None))
            self.judged |= wanted.judge
            self.measured |= wanted.measure
        return self.seen


def veiled(whole: Case) -> Veiled:
    """Every copy as a mere listing shows a directory."""
    seen = whole.but(*(veil(c) for found in whole.inventory.copies.values() for c in found.values()))
    return Veiled(whole, seen)


def veil(truth: Copy, *, top_is_oldest: bool = False, measured: bool = False) -> Copy:
    """A copy before it was judged; where it was not measured either its times are those of its top entry alone."""
    unjudged = replace(truth, health=None, weights_only=False, content=None)
    if measured:
        return unjudged
    top = truth.oldest_mtime_ns if top_is_oldest else truth.mtime_ns
    return replace(
        unjudged,
        measured=False,
        size=None,
        bytes=None,
        files=None,
        mtime_ns=top,
        oldest_mtime_ns=top,
        verified_ns=None,
        created_at_ns=None,
        link=None,
    )
