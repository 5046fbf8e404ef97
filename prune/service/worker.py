"""What the daemon's jobs do: a pass over one run, a look at all volumes. One run's trouble never stops another's."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from prune import engine, logs
from prune import mirror as mirroring
from prune.engine import Conduct
from prune.fleet.allowance import Allowing
from prune.journal import open_journal
from prune.model import SECOND, Attention, Block, Outcome, RunOutcome, RunPlan
from prune.notify import Notifier
from prune.pressure.marks import Wish
from prune.pressure.relief import Means, Pressed, relieve
from prune.pressure.watch import BackOff, Volume, budgets, lying, room_on, volumes, wanted
from prune.service.board import Board, RunView
from prune.service.clockwatch import ClockWatch
from prune.service.metrics import Metrics
from prune.service.showing import Showing
from prune.service.source import Source
from prune.service.stillness import Stillness
from prune.settings.schema import RunSettings
from prune.stop import Stop
from prune.stores.mounts import mounts
from prune.stores.open_files import looking_once

OUT_OF_TURN = "out of turn"
WAIT_NS = 30 * SECOND  # for a lock that another process holds: a pass of the command line is soon over


@dataclass
class Worker:
    """The work itself, without any schedule. Every method may be called from many threads."""

    source: Source
    board: Board
    metrics: Metrics
    notifier: Notifier
    stop: Stop = field(default_factory=Stop)
    clock: Callable[[], int] = time.time_ns
    clocks: Callable[[], ClockWatch] = ClockWatch
    means: Means = field(default_factory=Means)

    def __post_init__(self) -> None:
        self._showing = Showing(self.board, self.notifier, self.clock)
        self._stillness = Stillness()
        self._allowing = Allowing(self.clock)
        self._busy: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._watches: dict[str, ClockWatch] = {OUT_OF_TURN: self.clocks()}
        self._lying: dict[str, tuple[Pressed, ...]] = {}
        self._volumes: dict[str, list[Volume]] = {}
        self._back_off = BackOff(self.clock)
        self.meet(self.source.settings.runs)

    def meet(self, runs: Iterable[RunSettings]) -> None:
        """The runs there are now: their views, and the volumes they lie on."""
        runs = tuple(runs)
        names = [run.name for run in runs]
        self.board.only(names)
        self.notifier.forget(names)
        self._stillness.only(names)
        for name in set(names) - {view.run for view in self.board.views()}:
            self.board.put(RunView(name))
        self._lying, before = lying(runs, mounts()), self._lying
        self._volumes = {
            place: found for place, found in self._volumes.items() if self._lying.get(place) == before.get(place)
        }

    def remember_success(self, run: str, at_ns: int) -> None:
        """A good pass of an earlier life."""
        self.board.change(run, lambda view: replace(view, last_success_ns=max(view.last_success_ns or 0, at_ns)))

    # --- the scheduled pass ----------------------------------------------------------------------------------

    def pass_over(self, lane: str, runs: Sequence[RunSettings]) -> None:
        """One pass over the runs of a lane. Where the wall clock jumped since the last one, nothing is deleted."""
        watch = self._watches.setdefault(lane, self.clocks())
        jumped = watch.jumped()
        with looking_once():
            for run in runs:
                if self.stop:
                    return
                with self._busy[run.name], self.metrics.pass_seconds.time():
                    self._pass_over_one(run, jumped)
        self._count_fallbacks()
        self.source.refresh()
        self._find_volumes_anew(runs)

    def _count_fallbacks(self) -> None:
        """What resumes passed over is told by history alone: they are processes of their own."""
        journal = open_journal(self.source.settings.state, write=False)
        try:
            found = Counter(event.run for event in journal.history(kinds=("fallback",)))
        finally:
            journal.close()
        for run, count in found.items():
            self.board.change(run, partial(_with_fallbacks, count=count))

    def _pass_over_one(self, run: RunSettings, jumped: str | None) -> None:
        if jumped is not None:
            self._blocked_by_clock(run, jumped)
        elif self._stillness.is_still(run, now_ns=self.clock()) and not self._gives(run):
            self._showing.still_well(run.name)
        else:
            self.apply(run)

    def apply(self, run: RunSettings) -> RunOutcome | None:
        """Plans and applies one run, whatever it meets, and shows what came of it. The caller holds it busy."""
        plans: list[RunPlan] = []
        self._stillness.begin(run, now_ns=self.clock())
        settings = self.source.settings
        try:
            conduct = Conduct(
                wait_ns=WAIT_NS,
                stop=self.stop,
                planned=plans.append,
                clock=self.clock,
                allowed=self._allowing.of(settings),
            )
            outcome = engine.apply(replace(settings, runs=(run,)), conduct=conduct).runs
        except Exception as error:  # the daemon outlives whatever one run does to it
            self._showing.failed(run.name, error)
            return None
        if not outcome:
            return None
        self._stillness.end(run, plans[-1] if plans else None, outcome[0])
        self._showing.passed(run, plans[-1] if plans else None, outcome[0])
        self._keep_to_budgets(run, plans[-1] if plans else None, outcome[0])
        return outcome[0]

    def _gives(self, run: RunSettings) -> bool:
        """Whether a budget asks something of a run in which nothing changed, since others grew."""
        try:
            return run.name in self._allowing.of(self.source.settings).lowered
        except Exception:  # the pass over it meets the same, and tells
            return True

    def apply_now(self, run: RunSettings) -> RunOutcome | None:
        """A pass out of turn. Where the wall clock jumped since the last one, nothing is deleted."""
        with self._busy[run.name]:
            jumped = self._watches[OUT_OF_TURN].jumped()
            return self.apply(run) if jumped is None else self._blocked_by_clock(run, jumped)

    def mirror(self, run: RunSettings) -> None:
        """Brings a run's mirrors up to date; a copy may take long, and passes go on meanwhile."""
        if not run.mirrors:
            return
        settings = self.source.settings
        conduct = mirroring.Conduct(wait_ns=WAIT_NS, stop=self.stop, clock=self.clock)
        journal = open_journal(settings.state, write=True)
        try:
            found = mirroring.mirror_run(run, conduct=conduct, journal=journal, state=settings.state)
        finally:
            journal.close()
        for copied in found.copied:
            logs.info(f"{run.name}: step {copied.step} copied to {copied.replica}")
        notes = [Attention(block.block, block.replica, f"mirroring: {block.detail}", "") for block in found.blocks]
        notes += [
            Attention(
                "mirror-failed", failed.replica, f"step {failed.step}: {failed.error}", "the next job tries again"
            )
            for failed in found.failed
        ]
        mirrored = (*notes, *found.attention)
        self._showing.publish(run.name, lambda view: replace(view, mirrored=mirrored))

    def _blocked_by_clock(self, run: RunSettings, sentence: str) -> RunOutcome | None:
        block = Block("clock-jumped", None, f"{sentence}; ages cannot be trusted in this pass")
        try:
            plan = engine.plan_run(run, now_ns=self.clock())
        except Exception as error:
            self._showing.failed(run.name, error)
            return None
        outcome = RunOutcome(run.name, blocked=block)
        self._showing.passed(run, replace(plan, blocks=(block, *plan.blocks)), outcome)
        return outcome

    # --- pressure --------------------------------------------------------------------------------------------

    @property
    def places(self) -> tuple[str, ...]:
        """Where replicas lie: each place is looked at on its own, so that one that hangs keeps no other waiting."""
        return tuple(self._lying)

    def look_at_volumes(self) -> None:
        """A look at every place."""
        for place in self.places:
            self.look_at(place)

    def look_at(self, place: str) -> None:
        """Two system calls a volume; more only where one is short, or after a pass."""
        found = self._volumes.get(place)
        if found is None:
            found = self._volumes[place] = volumes(self._lying.get(place, ()))[0]
        trusted = self._ages_tell(place)
        for volume in found:
            if self.stop:
                return
            try:
                self._look_at(volume, trusted=trusted)
            except Exception as error:  # one volume's trouble is not another's
                logs.error(f"{volume.root}: {type(error).__name__}: {error}")

    def _find_volumes_anew(self, runs: Sequence[RunSettings]) -> None:
        """Roots may have come, gone or moved meanwhile: the next look at their places finds out."""
        touched = {run.name for run in runs}
        for place, pressed in self._lying.items():
            if any(one.run.name in touched for one in pressed):
                self._volumes.pop(place, None)

    def _ages_tell(self, place: str) -> bool:
        """Not right after the wall clock jumped: what is being written now would look old, and room is no reason."""
        watch = self._watches.setdefault(f"room {place}", self.clocks())
        jumped = watch.jumped()
        if jumped is not None:
            logs.warning(f"{jumped}: no room is made until ages can be trusted again")
        return watch.settled(max((one.run.guards.in_flight for one in self._lying.get(place, ())), default=0))

    def _look_at(self, volume: Volume, *, trusted: bool) -> None:
        keys = [(one.run.name, one.replica) for one in volume.pressed]
        try:
            space = room_on(volume)
        except OSError as error:
            logs.debug(f"{volume.root}: {error.strerror}; the next pass says what that means")
            space = None
        self.board.put_room(keys, space)
        if space is None:
            return
        told = {key: found for key in keys if (found := self.board.view(key[0]).forecasts.get(key[1])) is not None}
        short = wanted(volume, space, told, now_ns=self.clock())
        if short is None:
            for one in volume.pressed:
                self._showing.relaxed(one.run.name, one.replica)
        elif trusted and self._back_off.may_try(volume):
            self._relieve(volume, short[0])

    def _relieve(self, volume: Volume, wish: Wish) -> None:
        with ExitStack() as held:
            free = [one for one in volume.pressed if self._hold(held, one.run.name)]
            if not free:
                return  # a pass is at work on it, and frees what can go
            self._make_room(volume, free, wish)

    def _make_room(self, volume: Volume, free: Sequence[Pressed], wish: Wish) -> None:
        """The caller holds these runs busy."""
        relief = relieve(self.source.settings, free, wish, means=replace(self.means, stop=self.stop))
        self._back_off.note(volume, relief)
        logs.info(f"{volume.root}: {relief.sentence}")
        outcomes = {outcome.run: outcome for outcome in relief.outcome.runs}
        for one in free:
            own = tuple(note for note in relief.attention if note.replica in (None, one.replica))
            outcome = outcomes.get(one.run.name)
            plan = None if outcome is None else engine.plan_run(one.run, now_ns=self.clock())
            self._showing.pressed(one, plan, outcome, own)

    def _keep_to_budgets(self, run: RunSettings, plan: RunPlan | None, outcome: RunOutcome) -> None:
        """What is left of a bucket's budget only a listing tells, so that it is minded after a pass, not watched."""
        if plan is None or outcome.blocked is not None:
            return
        for volume, space in budgets(run, plan, outcome.free_after):
            told = {(run.name, name): found for name, found in self.board.view(run.name).forecasts.items()}
            short = wanted(volume, space, told, now_ns=self.clock())
            if short is None:
                self._showing.relaxed(run.name, volume.pressed[0].replica)
            elif self._back_off.may_try(volume):
                self._make_room(volume, volume.pressed, short[0])

    def _hold(self, held: ExitStack, name: str) -> bool:
        lock = self._busy[name]
        if not lock.acquire(blocking=False):
            return False
        held.callback(lock.release)
        return True

    def outcome_of(self, outcome: RunOutcome) -> Outcome:
        """One run's outcome as a result of its own."""
        return Outcome(engine.fresh_id(self.clock()), (outcome,))


def _with_fallbacks(view: RunView, *, count: int) -> RunView:
    return replace(view, fallbacks=max(view.fallbacks, count))
