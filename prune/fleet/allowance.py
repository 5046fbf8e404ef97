"""What the budgets allow each run now: looks at the whole fleet, whatever part of it is to be planned."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from prune import planner
from prune.engine import BUDGET
from prune.fleet.budget import Division, Holding, Level, Pool, divide
from prune.inventory import gather, open_site
from prune.inventory.judging import Evidence, no_evidence
from prune.inventory.site import Site
from prune.model import Attention, Copy, Inventory, RunOutcome, RunPlan, nothing
from prune.report.json import bytes_that_go
from prune.settings.roots import is_url
from prune.settings.schema import MINUTE, RunSettings, Settings
from prune.settings.units import format_size
from prune.stores.open_files import looking_once
from prune.stores.pace import measure_all

KEPT_FOR_NS = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class Allowances:
    """The lowered N by run, and what is to be said of a run because of a budget."""

    lowered: Mapping[str, int] = field(default_factory=nothing)
    notes: Mapping[str, str] = field(default_factory=nothing)
    attention: Mapping[str, Attention] = field(default_factory=nothing)

    def told(self, plan: RunPlan) -> RunPlan:
        """The plan with what a budget adds to it."""
        note, attention = self.notes.get(plan.run), self.attention.get(plan.run)
        if note is not None:
            plan = replace(plan, notes=(note, *plan.notes))
        return plan if attention is None else replace(plan, attention=(*plan.attention, attention))

    def told_of(self, outcome: RunOutcome) -> RunOutcome:
        """The outcome with the same."""
        attention = self.attention.get(outcome.run)
        return outcome if attention is None else replace(outcome, attention=(*outcome.attention, attention))


def has_budgets(settings: Settings) -> bool:
    return settings.fleet_budget is not None or bool(settings.fleet_groups)


def allowances(settings: Settings, *, now_ns: int, evidence: Evidence = no_evidence) -> Allowances:
    """What each run of the fleet may keep. Every run is listed and measured for it; nothing is written."""
    if not has_budgets(settings):
        return Allowances()
    pools = _Pools(settings)
    with looking_once():
        holdings = [_holding(run, pools, now_ns, evidence) for run in settings.fleet or settings.runs]
    budgets = pools.budgets()
    return _told(divide(budgets, holdings), budgets, holdings)


class Allowing:
    """Allowances for a daemon, which asks run by run: they are looked up anew every ten minutes."""

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock, self._turn = clock, threading.Lock()
        self._found: tuple[Settings, int, Allowances] | None = None

    def of(self, settings: Settings) -> Allowances:
        if not has_budgets(settings):
            return Allowances()
        with self._turn:
            now = self._clock()
            known = self._found
            if known is None or not _alike(known[0], settings) or not 0 <= now - known[1] < KEPT_FOR_NS:
                known = (settings, now, allowances(settings, now_ns=now))
            self._found = (settings, known[1], known[2])
            return known[2]


def _alike(one: Settings, two: Settings) -> bool:
    """Whether both share out the same among the same runs: settings are read again with each pass."""
    if one is two:
        return True
    return (one.fleet_budget, one.fleet_groups, one.fleet) == (two.fleet_budget, two.fleet_groups, two.fleet)


@dataclass
class _Pools:
    """Which budget a run's bytes count against: the volume of each replica, and the group by its primary."""

    settings: Settings
    _volumes: dict[object, Pool] = field(default_factory=dict)

    def of(self, run: RunSettings, replica: str) -> Iterator[Pool]:
        settings = next(each for each in run.replicas if each.name == replica)
        if self.settings.fleet_budget is not None:
            key = _volume_of(settings.root)
            yield self._volumes.setdefault(key, f"the volume of {settings.root}")
        if settings.role == "primary" and run.group in self.settings.fleet_groups:
            yield f"group {run.group}"

    def budgets(self) -> dict[Pool, int]:
        groups = {f"group {name}": size for name, size in self.settings.fleet_groups.items()}
        return {**dict.fromkeys(self._volumes.values(), self.settings.fleet_budget or 0), **groups}


def _volume_of(root: str) -> object:
    if is_url(root):
        return "/".join(root.split("/")[:3])
    try:
        return os.stat(root).st_dev
    except OSError:
        return root  # it holds nothing that could be counted


def _holding(run: RunSettings, pools: _Pools, now_ns: int, evidence: Evidence) -> Holding:
    floor = run.pressure.keep_last
    with open_site(run) as site:
        inventory = gather(site, now_ns=now_ns, evidence=evidence, courtesy=False)
        if floor is not None:
            inventory = gather(
                site, now_ns=now_ns, evidence=evidence, keep_last=floor, before=inventory, courtesy=False
            )
        inventory = _measured(site, inventory)
    written = [copy.mtime_ns for held in inventory.copies.values() for copy in held.values()]
    known = [time for time in written if time is not None]

    def kept(keep_last: int | None) -> tuple[RunPlan, dict[Pool, int]]:
        plan = planner.plan(inventory, run, now_ns, keep_last=keep_last)
        return plan, _by_pool(run, pools, _left(inventory, plan))

    as_it_stands, by_pool = kept(None)
    last = planner.keep_of(as_it_stands, run).last
    lower = []
    for keep_last in range(min(last, len(inventory.copies)) - 1, (floor or last) - 1, -1):
        lower.append(Level(keep_last, kept(keep_last)[1]))
    newest = max(known, default=None) if len(known) == len(written) else None
    return Holding(run.name, by_pool, run.priority, newest, tuple(lower), has_floor=floor is not None)


def _measured(site: Site, inventory: Inventory) -> Inventory:
    """The inventory with the size of every copy, as far as it can be told."""
    copies = {step: dict(held) for step, held in inventory.copies.items()}
    for replica in site.replicas:
        blind = [held[replica.name] for held in copies.values() if _blind(held.get(replica.name))]
        if replica.root is None or not blind:
            continue
        for copy, found in zip(blind, measure_all(replica.root, [copy.paths for copy in blind]), strict=True):
            if not isinstance(found, OSError):
                copies[copy.step][replica.name] = replace(copy, bytes=found[0].freed)
    return replace(inventory, copies=copies)


def _blind(copy: Copy | None) -> bool:
    return copy is not None and copy.bytes is None


def _left(inventory: Inventory, plan: RunPlan) -> dict[str, int]:
    """Bytes of copies on each replica once the plan is carried out."""
    orphans = replace(plan, orphans=())
    left = {name: -freed for name, freed in bytes_that_go(orphans).items()}
    for held in inventory.copies.values():
        for name, copy in held.items():
            left[name] = left.get(name, 0) + (copy.bytes or 0)
    return left


def _by_pool(run: RunSettings, pools: _Pools, by_replica: Mapping[str, int]) -> dict[Pool, int]:
    found: dict[Pool, int] = {}
    for replica, size in by_replica.items():
        for pool in pools.of(run, replica):
            found[pool] = found.get(pool, 0) + size
    return found


def _told(division: Division, budgets: Mapping[Pool, int], holdings: Sequence[Holding]) -> Allowances:
    pools = {holding.run: holding.kept for holding in holdings}
    notes = {
        run: f"{BUDGET}the fleet keeps to {_in_words(budgets, pools[run])}, so keep.last is {last} here"
        for run, last in division.lowered.items()
    }
    attention = {}
    for pool, over in division.over.items():
        mine = sorted((holding for holding in holdings if holding.kept.get(pool)), key=lambda holding: holding.gives)
        kept, budget = format_size(division.kept[pool]), format_size(budgets[pool])
        detail = f"{pool} keeps {kept}, {format_size(over)} over its {budget}, and no run may give more"
        if mine:
            attention[mine[0].run] = Attention("over-budget", None, *_why_no_more(detail, mine))
    return Allowances(division.lowered, notes, attention)


def _why_no_more(detail: str, mine: Sequence[Holding]) -> tuple[str, str]:
    """The sentence and its mend: a budget takes nothing from a run that was never told how few steps will do."""
    floorless = sum(not holding.has_floor for holding in mine)
    if not floorless:
        return detail, "allow fewer (pressure.keep_last), give finished runs a final policy, or raise the budget"
    of = f"{floorless} of its {len(mine)} runs" if len(mine) > 1 else "its only run"
    has = "have" if floorless > 1 else "has"
    return (
        f"{detail}: {of} {has} no pressure.keep_last, and a budget takes only from runs that have one",
        "set pressure.keep_last, the fewest steps that will do, in runs that may give; give finished runs a final "
        "policy; or raise the budget",
    )


def _in_words(budgets: Mapping[Pool, int], pools: Mapping[Pool, int]) -> str:
    return " and ".join(f"{format_size(budgets[pool])} for {pool}" for pool in sorted(pools) if pool in budgets)
