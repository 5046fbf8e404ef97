"""What the daemon last saw of each run: frozen views that metrics, health, page and API all read."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from prune.forecast import Forecast
from prune.model import Attention, Block, Decision, RunOutcome, RunPlan, nothing
from prune.report.fleet import devices_of, held_bytes
from prune.report.json import bytes_to_free
from prune.settings.units import format_size
from prune.stores.base import Space

STEPS_HELD = 50_000  # with more steps than this over all runs, views keep their sums and let the steps go


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums over one run's plan, so that they outlive its steps."""

    health: Mapping[str, Mapping[str, int]] = field(default_factory=nothing)  # replica -> health -> copies
    guards: Mapping[str, int] = field(default_factory=nothing)  # guard -> steps it holds
    decisions: Mapping[str, int] = field(default_factory=nothing)
    bytes_to_free: Mapping[str, int] = field(default_factory=nothing)
    held: Mapping[str, int] = field(default_factory=nothing)  # replica -> bytes of checkpoints, as far as measured
    devices: Mapping[str, int] = field(default_factory=nothing)  # replica -> what it lies on


@dataclass(frozen=True, slots=True)
class RunView:
    """One run as it was last seen, and what has been done to it since the daemon started."""

    run: str
    plan: RunPlan | None = None
    counts: Counts = field(default_factory=Counts)
    forecasts: Mapping[str, Forecast] = field(default_factory=nothing)
    outcome: RunOutcome | None = None
    error: str | None = None  # why the last pass ended without a plan
    noted: tuple[Attention, ...] = ()  # the plan's, the outcome's and the forecast's
    pressed: tuple[Attention, ...] = ()  # what the last try to make room left to be said
    mirrored: tuple[Attention, ...] = ()  # what the last mirror job left to be said
    seen_ns: int | None = None
    last_success_ns: int | None = None
    last_delete_ns: int | None = None
    deleted_steps: int = 0
    deleted_bytes: Mapping[str, int] = field(default_factory=nothing)  # replica -> bytes
    failed_steps: int = 0
    fallbacks: int = 0  # checkpoints that a resume passed over, by history

    @property
    def blocks(self) -> tuple[Block, ...]:
        """What blocked the last pass: the plan's blocks, or the one met on applying it."""
        planned = self.plan.blocks if self.plan else ()
        met = self.outcome.blocked if self.outcome else None
        return planned if met is None or met in planned else (*planned, met)

    @property
    def attention(self) -> tuple[Attention, ...]:
        return tuple(dict.fromkeys((*self.noted, *self.pressed, *self.mirrored)))

    @property
    def steps_held(self) -> int:
        return len(self.plan.steps) if self.plan else 0


def counted(plan: RunPlan) -> Counts:
    """The sums of one plan."""
    health: dict[str, Counter[str]] = {replica.name: Counter() for replica in plan.replicas}
    guards: Counter[str] = Counter()
    decisions: Counter[str] = Counter()
    for step in plan.steps:
        decisions[str(step.decision)] += 1
        guards.update({hold.guard for hold in step.guards} if step.decision is Decision.GUARDED else ())
        for copy in step.copies:
            health.setdefault(copy.replica, Counter())[str(copy.health) if copy.health else "unjudged"] += 1
    return Counts(health, guards, decisions, bytes_to_free(plan), held_bytes(plan), devices_of(plan))


def after_plan(view: RunView, plan: RunPlan, *, now_ns: int, forecasts: Mapping[str, Forecast]) -> RunView:
    """The view once a plan was made."""
    return replace(
        view,
        plan=plan,
        counts=counted(plan),
        forecasts=forecasts,
        outcome=None,
        error=None,
        noted=tuple(dict.fromkeys((*plan.attention, *unfit(forecasts)))),
        seen_ns=now_ns,
    )


def after_apply(view: RunView, outcome: RunOutcome, *, now_ns: int) -> RunView:
    """The view once its plan was carried out. A pass is good when nothing blocked it and nothing failed."""
    deleted = {copy.step for copy in outcome.deleted}
    freed = Counter(dict(view.deleted_bytes))
    for copy in outcome.deleted:
        freed[copy.replica] += copy.bytes
    good = outcome.blocked is None and not outcome.failed
    return replace(
        view,
        outcome=outcome,
        noted=tuple(dict.fromkeys((*view.noted, *outcome.attention))),
        last_success_ns=now_ns if good else view.last_success_ns,
        last_delete_ns=now_ns if deleted else view.last_delete_ns,
        deleted_steps=view.deleted_steps + len(deleted),
        deleted_bytes=dict(freed),
        failed_steps=view.failed_steps + len({copy.step for copy in outcome.failed}),
    )


def what_is_left(plan: RunPlan, outcome: RunOutcome) -> RunPlan:
    """The plan without the copies that are gone by now, and with the room as it is now."""
    gone = {(copy.step, copy.replica) for copy in outcome.deleted} | set(outcome.gone)
    steps = []
    for step in plan.steps:
        copies = tuple(copy for copy in step.copies if (copy.step, copy.replica) not in gone)
        if copies:
            steps.append(step if len(copies) == len(step.copies) else replace(step, copies=copies))
    replicas = tuple(
        replace(replica, free_bytes=outcome.free_after.get(replica.name, replica.free_bytes))
        for replica in plan.replicas
    )
    return replace(plan, steps=tuple(steps), replicas=replicas)


def unfit(forecasts: Mapping[str, Forecast]) -> list[Attention]:
    """What to say where the next save will not fit."""
    return [
        Attention(
            "next-save-will-not-fit",
            replica,
            f"it takes {format_size(told.next_save_bytes or 0)} and {format_size(told.free_bytes or 0)} are free",
            "prune make-room says what can go and what holds it; else add room, or keep fewer",
        )
        for replica, told in forecasts.items()
        if not told.next_save_fits
    ]


class Board:
    """The views of all runs, for many threads; each view is replaced whole."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._views: dict[str, RunView] = {}
        self._wanted: set[str] | None = None  # None: whatever comes
        self._steps = 0
        self._rooms: dict[tuple[str, str], Space] = {}

    def view(self, run: str) -> RunView:
        with self._lock:
            return self._views.get(run, RunView(run))

    def views(self) -> list[RunView]:
        """All views, by name."""
        with self._lock:
            return [self._views[name] for name in sorted(self._views)]

    def put(self, view: RunView) -> None:
        self.change(view.run, lambda _before: view)

    def change(self, run: str, how: Callable[[RunView], RunView]) -> RunView | None:
        """Replaces a run's view by what ``how``, which must be quick, makes of it; nobody comes in between.

        None for a run that is no longer in the settings, as when a pass over it ends after it left: it stays forgotten.
        """
        with self._lock:
            if self._wanted is not None and run not in self._wanted:
                return None
            before = self._views.get(run)
            view = changed = how(before or RunView(run))
            self._steps += view.steps_held - (before.steps_held if before else 0)
            if self._steps > STEPS_HELD and view.plan is not None:
                self._steps -= view.steps_held
                view = replace(view, plan=replace(view.plan, steps=()))
            self._views[run] = view
            return changed

    def only(self, runs: Iterable[str]) -> None:
        """The runs that are in the settings: all others are forgotten, and no longer taken."""
        wanted = set(runs)
        with self._lock:
            self._wanted = wanted
            self._views = {name: view for name, view in self._views.items() if name in wanted}
            self._steps = sum(view.steps_held for view in self._views.values())
            self._rooms = {key: space for key, space in self._rooms.items() if key[0] in wanted}

    def put_room(self, replicas: Iterable[tuple[str, str]], space: Space | None) -> None:
        """What a look at the volume found for these (run, replica); None: it cannot be told."""
        with self._lock:
            for replica in replicas:
                if space is None or (self._wanted is not None and replica[0] not in self._wanted):
                    self._rooms.pop(replica, None)
                else:
                    self._rooms[replica] = space

    def room(self, run: str, replica: str) -> Space | None:
        """Room as it was at the latest look, which is fresher than the plan."""
        with self._lock:
            return self._rooms.get((run, replica))
