"""Making room, in order: trash, orphans past their time, what policy lets go of, then N lowered one at a time.

Every deletion is the engine's own pass with all its guards; here is only what is asked for, and when to stop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from prune import engine
from prune.deletion.undo import purge
from prune.engine import Conduct
from prune.errors import PruneError, UsageError
from prune.fleet.allowance import Allowances
from prune.journal import open_journal
from prune.model import Attention, Decision, FailedCopy, Outcome, Plan, RunOutcome, RunPlan
from prune.pressure import telling
from prune.pressure.gate import LATE_NS, Gate
from prune.pressure.marks import Wish, room_for
from prune.pressure.probe import probe_of
from prune.pressure.share import OURS_AT_LEAST, share_of_ours
from prune.settings.schema import RunSettings, Settings, Share
from prune.settings.units import format_size
from prune.stop import Stop
from prune.stores.base import Space


@dataclass(frozen=True, slots=True)
class Pressed:
    """One run on the volume that is short, by the replica that lies there."""

    run: RunSettings
    replica: str

    @property
    def root(self) -> str:
        return next(replica.root for replica in self.run.replicas if replica.name == self.replica)


@dataclass(frozen=True, slots=True)
class Relief:
    """What was done for a wish, and whether it is met."""

    wish: Wish
    reached: bool
    short: Wish
    outcome: Outcome
    attention: tuple[Attention, ...] = ()

    @property
    def sentence(self) -> str:
        """What came of it, in a line: trash and temporaries make room, too."""
        copies = sum(len(run.deleted) for run in self.outcome.runs)
        grown = [
            run.free_after.get(name, 0) - free for run in self.outcome.runs for name, free in run.free_before.items()
        ]
        more = f", {format_size(max(grown))} more are free" if max(grown, default=0) > 0 else ""
        return f"room was {'made' if self.reached else 'not made'}: {copies} copies deleted{more}"

    @property
    def freed_nothing(self) -> bool:
        return any(note.kind == "no-gain" for note in self.attention)


@dataclass(frozen=True)
class Means:
    """How relief is carried out; the fields after the first are seams for clocks and disks."""

    stop: Stop = field(default_factory=Stop)
    wait_ns: int = 0
    progress: Callable[[str, int, int], None] = lambda _what, _done, _of: None
    clock: Callable[[], int] = time.time_ns
    late_ns: int = LATE_NS
    sleep: Callable[[float], None] = time.sleep
    space_of: Callable[[str], Space] | None = None


def make_room(settings: Settings, size: int | Share, *, on: str = "primary", means: Means | None = None) -> Relief:
    """Frees until ``size`` is free on the replica named ``on`` of the chosen runs, which must lie on one volume.

    Raises UsageError for an unknown replica or several volumes, OSError when free space cannot be read.
    """
    means = means or Means()
    pressed = [Pressed(run, on) for run in settings.runs if any(replica.name == on for replica in run.replicas)]
    if not pressed:
        raise UsageError(f"no run has a replica named {on!r}", mend="name one of those that `prune status` lists")
    _one_volume(pressed)
    space = probe_of(pressed, means)()
    return relieve(settings, pressed, room_for(size, space), means=means)


def relieve(settings: Settings, pressed: Sequence[Pressed], wish: Wish, *, means: Means | None = None) -> Relief:
    """Makes room for a wish on the volume where ``pressed`` lie. Stops as soon as it is met.

    The first step that frees nothing ends it (snapshots, other links, open files). Guards always hold.
    """
    return _Effort(settings, list(pressed), wish, means or Means()).work()


@dataclass
class _Effort:
    """One try at a wish."""

    settings: Settings
    pressed: list[Pressed]
    wish: Wish
    means: Means
    outcomes: dict[str, RunOutcome] = field(default_factory=dict)
    attention: list[Attention] = field(default_factory=list)
    lowered: dict[str, int] = field(default_factory=dict)  # run -> N
    plan_id: str = ""

    def __post_init__(self) -> None:
        self.plan_id = engine.fresh_id(self.means.clock())
        self.gate = Gate(
            self.wish, probe_of(self.pressed, self.means), late_ns=self.means.late_ns, sleep=self.means.sleep
        )

    def work(self) -> Relief:
        before = self.gate.probe()
        for phase in (self._trash, self._orphans, self._policy, self._lower):
            for pressed in self.pressed:
                if not self._needed():
                    break
                self.gate.replica = pressed.replica
                phase(pressed)
        return self._told(before)

    def _needed(self) -> bool:
        return not self.means.stop and self.gate.keep_going()

    def _trash(self, pressed: Pressed) -> None:
        """The dead pass's leavings are settled first, so that nothing is purged that must be put back."""
        if not _trash_in(pressed):
            return
        self._apply(pressed, only_recover=True)
        if self.outcomes[pressed.run.name].blocked is not None:
            return
        if engine.plan_run(pressed.run, now_ns=self.means.clock()).resume_candidate is None:
            return  # what waits in the trash may be the last there is, and the pass said so
        journal = open_journal(self.settings.state, write=True)
        try:
            settled = purge(pressed.run, now_ns=self.means.clock(), wait_ns=self.means.wait_ns, journal=journal)
        except PruneError as error:
            self.attention.append(Attention("trash", pressed.replica, str(error), "the next try empties it"))
            return
        finally:
            journal.close()
        failed = tuple(FailedCopy(step, replica, why) for step, replica, why in settled.failed)
        self._merge(RunOutcome(pressed.run.name, failed=failed))

    def _orphans(self, pressed: Pressed) -> None:
        plan = engine.plan_run(pressed.run, now_ns=self.means.clock())
        if any(orphan.decision is Decision.DELETE for orphan in plan.orphans):
            self._apply(pressed, nothing_but_orphans=plan)

    def _policy(self, pressed: Pressed) -> None:
        """Again as long as it helps: what a pass itself writes may have taken the last of the room."""
        while self._needed() and self._apply(pressed):
            pass

    def _lower(self, pressed: Pressed) -> None:
        """N is lowered one at a time, as far as the settings allow, and only where checkpoints are what fills it."""
        floor = pressed.run.pressure.keep_last
        last = pressed.run.keep.last
        if floor is None or floor >= last:
            return
        share = share_of_ours(self.pressed, self.gate.probe(), now_ns=self.means.clock())
        if share < OURS_AT_LEAST:
            self.attention.append(telling.foreign_data(pressed.replica, share))
            return
        for keep_last in range(last - 1, floor - 1, -1):
            if not self._needed():
                return
            self.lowered[pressed.run.name] = keep_last
            self._apply(pressed, keep_last=keep_last)

    def _as_lowered(self, run: RunSettings) -> RunSettings:
        """The run with N as low as this try took it."""
        last = self.lowered.get(run.name)
        return run if last is None else replace(run, keep=replace(run.keep, last=last))

    def _apply(
        self,
        pressed: Pressed,
        *,
        keep_last: int | None = None,
        only_recover: bool = False,
        nothing_but_orphans: RunPlan | None = None,
    ) -> bool:
        """One pass of the engine; whether it deleted or thinned any checkpoint."""
        conduct = Conduct(
            wait_ns=self.means.wait_ns,
            keep_last=keep_last,
            grace_ns=0,
            batch=1,
            keep_going=(lambda: False) if only_recover else self.gate.keep_going,
            stop=self.means.stop,
            progress=self.means.progress,
            told=self.gate.told,
            clock=self.means.clock,
            allowed=Allowances(),  # room is short now, whoever would have to give by a budget
        )
        reviewed = None
        if nothing_but_orphans is not None:
            reviewed = Plan(self.plan_id, self.means.clock(), (replace(nothing_but_orphans, steps=()),))
        alone = replace(self.settings, runs=(pressed.run,))
        outcomes = engine.apply(alone, reviewed=reviewed, conduct=conduct).runs
        for outcome in outcomes:
            self._merge(outcome)
        return any(outcome.deleted or outcome.thinned for outcome in outcomes)

    def _merge(self, outcome: RunOutcome) -> None:
        earlier = self.outcomes.get(outcome.run)
        self.outcomes[outcome.run] = outcome if earlier is None else _together(earlier, outcome)

    def _told(self, before: Space) -> Relief:
        reached = self.gate.settle()
        space = self.gate.probe()
        short = self.wish.short(space)
        if self.gate.no_gain is not None:
            self.attention.append(telling.no_gain(self.gate.no_gain, self.gate.replica))
        elif not reached and not self.means.stop:
            self.attention += [self._shortfall(pressed, short) for pressed in self.pressed]
        outcome = Outcome(self.plan_id, tuple(self._with_free(o, before, space) for o in self.outcomes.values()))
        return Relief(self.wish, reached, short, outcome, tuple(self.attention))

    def _shortfall(self, pressed: Pressed, short: Wish) -> Attention:
        left = engine.plan_run(self._as_lowered(pressed.run), now_ns=self.means.clock())
        return telling.shortfall(pressed.run, pressed.replica, left, wish=self.wish, short=short)

    def _with_free(self, outcome: RunOutcome, before: Space, after: Space) -> RunOutcome:
        replica = next(pressed.replica for pressed in self.pressed if pressed.run.name == outcome.run)
        own = tuple(note for note in self.attention if note.replica in (None, replica))
        return replace(
            outcome,
            free_before={**outcome.free_before, replica: before.free_bytes},
            free_after={**outcome.free_after, replica: after.free_bytes},
            attention=tuple(dict.fromkeys((*outcome.attention, *own))),
        )


def _together(one: RunOutcome, two: RunOutcome) -> RunOutcome:
    """Two passes over one run as one outcome."""
    return replace(
        two,
        deleted=(*one.deleted, *two.deleted),
        thinned=(*one.thinned, *two.thinned),
        gone=(*one.gone, *two.gone),
        failed=(*one.failed, *two.failed),
        orphans_deleted=(*one.orphans_deleted, *two.orphans_deleted),
        guarded=two.guarded or one.guarded,
        free_before=one.free_before or two.free_before,
        attention=tuple(dict.fromkeys((*one.attention, *two.attention))),
    )


def _trash_in(pressed: Pressed) -> bool:
    plan = engine.plan_run(pressed.run, now_ns=time.time_ns())
    return any(replica.trash_bytes for replica in plan.replicas)


def _one_volume(pressed: Sequence[Pressed]) -> None:
    import os

    devices = {one.root if "://" in one.root else os.stat(one.root).st_dev: one for one in pressed}
    if len(devices) > 1:
        names = ", ".join(sorted(one.run.name for one in devices.values()))
        raise UsageError(f"the {pressed[0].replica}s of the runs lie on different volumes ({names})",
                         mend="choose the run by --run")  # fmt: skip
