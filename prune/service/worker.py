"""What the daemon's jobs do: a pass over one run, a look at all volumes. One run's trouble never stops another's."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from prune import engine, logs
from prune import mirror as mirroring
from prune.engine import Conduct
from prune.fleet.allowance import Allowing
from prune.forecast import Forecast, forecast, recent_saves
from prune.journal import open_journal
from prune.model import SECOND, Attention, Block, Outcome, RunOutcome, RunPlan
from prune.notify import Notifier, matters_of
from prune.pressure.marks import Wish
from prune.pressure.relief import Means, relieve
from prune.pressure.watch import BackOff, Volume, room_on, volumes, wanted
from prune.service.board import Board, RunView, after_apply, after_plan, what_is_left
from prune.service.clockwatch import ClockWatch
from prune.service.measuring import Sizes
from prune.service.metrics import Metrics
from prune.service.source import Source
from prune.service.stillness import Stillness
from prune.settings.schema import RunSettings
from prune.stop import Stop
from prune.stores.open_files import looking_once

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
        self._sizes = Sizes()
        self._stillness = Stillness()
        self._allowing = Allowing(self.clock)
        self._busy: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._watches: dict[str, ClockWatch] = {}
        self._volumes: list[Volume] = []
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
        self._volumes = volumes(runs)[0]

    def remember_success(self, run: str, at_ns: int) -> None:
        """A good pass of an earlier life."""
        view = self.board.view(run)
        if run in {known.name for known in self.source.settings.runs} and (view.last_success_ns or 0) < at_ns:
            self.board.put(replace(view, last_success_ns=at_ns))

    # --- the scheduled pass ----------------------------------------------------------------------------------

    def pass_over(self, lane: str, runs: Iterable[RunSettings]) -> None:
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
        self._volumes = volumes(self.source.settings.runs)[0]

    def _count_fallbacks(self) -> None:
        """What resumes passed over is told by history alone: they are processes of their own."""
        journal = open_journal(self.source.settings.state, write=False)
        try:
            found = Counter(event.run for event in journal.history(kinds=("fallback",)))
        finally:
            journal.close()
        known = {run.name for run in self.source.settings.runs}
        for run in known & found.keys():
            view = self.board.view(run)
            if found[run] > view.fallbacks:
                self.board.put(replace(view, fallbacks=found[run]))

    def _pass_over_one(self, run: RunSettings, jumped: str | None) -> None:
        if jumped is not None:
            self._blocked_by_clock(run, jumped)
        elif self._stillness.is_still(run, now_ns=self.clock()) and not self._gives(run):
            self._still_well(run)
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
            self._failed(run, error)
            return None
        if not outcome:
            return None
        self._stillness.end(run, plans[-1] if plans else None, outcome[0])
        self._show(run, plans[-1] if plans else None, outcome[0])
        return outcome[0]

    def _gives(self, run: RunSettings) -> bool:
        """Whether a budget asks something of a run in which nothing changed, since others grew."""
        try:
            return run.name in self._allowing.of(self.source.settings).lowered
        except Exception:  # the pass over it meets the same, and tells
            return True

    def _still_well(self, run: RunSettings) -> None:
        """Nothing has changed since a pass that had nothing to do: that is a good pass too."""
        now = self.clock()
        view = self.board.view(run.name)
        self.board.put(replace(view, seen_ns=now, last_success_ns=now))

    def apply_now(self, run: RunSettings) -> RunOutcome | None:
        """A pass out of turn."""
        with self._busy[run.name]:
            return self.apply(run)

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
        self._publish(replace(self.board.view(run.name), mirrored=(*notes, *found.attention)))

    def _blocked_by_clock(self, run: RunSettings, sentence: str) -> None:
        block = Block("clock-jumped", None, f"{sentence}; ages cannot be trusted in this pass")
        try:
            plan = engine.plan_run(run, now_ns=self.clock())
        except Exception as error:
            self._failed(run, error)
            return
        plan = replace(plan, blocks=(block, *plan.blocks))
        self._show(run, plan, RunOutcome(run.name, blocked=block))

    def _show(self, run: RunSettings, plan: RunPlan | None, outcome: RunOutcome) -> None:
        now = self.clock()
        view = self.board.view(run.name)
        if plan is not None:
            left = what_is_left(plan, outcome)
            view = after_plan(view, left, now_ns=now, forecasts=self.forecasts(run, left, now_ns=now))
        view = after_apply(view, outcome, now_ns=now)
        self._publish(view)
        if outcome.deleted:
            logs.info(f"{run.name}: {len({copy.step for copy in outcome.deleted})} steps deleted")
        for failed in outcome.failed:
            logs.error(f"{run.name}: step {failed.step} on {failed.replica}: {failed.error}")

    def _publish(self, view: RunView) -> None:
        self.board.put(view)
        self.notifier.observe(view.run, matters_of(view.run, view.attention, view.blocks))

    def _failed(self, run: RunSettings, error: Exception) -> None:
        sentence = f"{type(error).__name__}: {error}"
        logs.error(f"{run.name}: {sentence}")
        view = replace(self.board.view(run.name), error=sentence, seen_ns=self.clock())
        self._publish(replace(view, noted=(Attention("failed", None, sentence, "see the service's log"),)))

    def forecasts(self, run: RunSettings, plan: RunPlan, *, now_ns: int) -> dict[str, Forecast]:
        """What is foretold for each replica of a run."""
        roots = {replica.name: replica.root for replica in run.replicas}
        return {
            replica.name: forecast(
                recent_saves(plan, replica.name, self._sizes.of(roots[replica.name])),
                free_bytes=replica.free_bytes,
                now_ns=now_ns,
            )
            for replica in plan.replicas
            if replica.name in roots
        }

    # --- pressure --------------------------------------------------------------------------------------------

    def look_at_volumes(self) -> None:
        """Two system calls a volume; more only where one is short."""
        for volume in self._volumes:
            if self.stop:
                return
            try:
                self._look_at(volume)
            except Exception as error:  # one volume's trouble is not another's
                logs.error(f"{volume.root}: {type(error).__name__}: {error}")

    def _look_at(self, volume: Volume) -> None:
        lying = [(one.run.name, one.replica) for one in volume.pressed]
        try:
            space = room_on(volume)
        except OSError as error:
            logs.debug(f"{volume.root}: {error.strerror}; the next pass says what that means")
            space = None
        self.board.put_room(lying, space)
        if space is None:
            return
        told = {key: found for key in lying if (found := self.board.view(key[0]).forecasts.get(key[1])) is not None}
        short = wanted(volume, space, told, now_ns=self.clock())
        if short is None:
            self._relaxed(volume)
        elif self._back_off.may_try(volume):
            self._relieve(volume, short[0])

    def _relieve(self, volume: Volume, wish: Wish) -> None:
        with ExitStack() as held:
            free = [one for one in volume.pressed if self._hold(held, one.run.name)]
            if not free:
                return  # a pass is at work on it, and frees what can go
            relief = relieve(self.source.settings, free, wish, means=replace(self.means, stop=self.stop))
            self._back_off.note(volume, relief)
            logs.info(
                f"{volume.root}: room was {'made' if relief.reached else 'not made'}: "
                f"{sum(len(run.deleted) for run in relief.outcome.runs)} copies deleted"
            )
            outcomes = {outcome.run: outcome for outcome in relief.outcome.runs}
            for one in free:
                own = tuple(note for note in relief.attention if note.replica in (None, one.replica))
                self._show_pressed(one.run, outcomes.get(one.run.name), own)

    def _hold(self, held: ExitStack, name: str) -> bool:
        lock = self._busy[name]
        if not lock.acquire(blocking=False):
            return False
        held.callback(lock.release)
        return True

    def _show_pressed(self, run: RunSettings, outcome: RunOutcome | None, notes: tuple[Attention, ...]) -> None:
        now = self.clock()
        view = replace(self.board.view(run.name), pressed=notes)
        if outcome is not None:
            good = view.last_success_ns
            plan = engine.plan_run(run, now_ns=now)
            view = after_apply(view, outcome, now_ns=now)
            view = after_plan(view, plan, now_ns=now, forecasts=self.forecasts(run, plan, now_ns=now))
            view = replace(view, last_success_ns=good)  # making room is no pass of the schedule
        self._publish(view)

    def _relaxed(self, volume: Volume) -> None:
        """What the last try left to be said is over."""
        for one in volume.pressed:
            view = self.board.view(one.run.name)
            own = tuple(note for note in view.pressed if note.replica != one.replica)
            if own != view.pressed:
                self._publish(replace(view, pressed=own))

    def outcome_of(self, outcome: RunOutcome) -> Outcome:
        """One run's outcome as a result of its own."""
        return Outcome(engine.fresh_id(self.clock()), (outcome,))
