"""What came of the work on a run, shown on the board and handed to the notifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from prune import logs
from prune.forecast import Forecast, forecast, recent_saves
from prune.model import Attention, RunOutcome, RunPlan
from prune.notify import Notifier, matters_of
from prune.pressure.relief import Pressed
from prune.service.board import Board, RunView, after_apply, after_plan, what_is_left
from prune.service.measuring import Sizes
from prune.settings.schema import RunSettings


@dataclass
class Showing:
    """Every method changes one run's view as it is at that moment: jobs of several volumes show the same run."""

    board: Board
    notifier: Notifier
    clock: Callable[[], int]
    _sizes: Sizes = field(default_factory=Sizes)

    def publish(self, run: str, how: Callable[[RunView], RunView]) -> None:
        """Shows and tells what ``how`` makes of the run's view; nothing where the run has left the settings."""
        view = self.board.change(run, how)
        if view is not None:
            self.notifier.observe(run, matters_of(run, view.attention, view.blocks))

    def passed(self, run: RunSettings, plan: RunPlan | None, outcome: RunOutcome) -> None:
        """A pass over the run has ended."""
        now = self.clock()
        left = None if plan is None else what_is_left(plan, outcome)
        forecasts = {} if left is None else self.forecasts(run, left, now_ns=now)

        def seen(view: RunView) -> RunView:
            if left is not None:
                view = after_plan(view, left, now_ns=now, forecasts=forecasts)
            return after_apply(view, outcome, now_ns=now)

        self.publish(run.name, seen)
        if outcome.deleted:
            logs.info(f"{run.name}: {len({copy.step for copy in outcome.deleted})} steps deleted")
        for failed in outcome.failed:
            logs.error(f"{run.name}: step {failed.step} on {failed.replica}: {failed.error}")

    def still_well(self, run: str) -> None:
        """Nothing has changed since a pass that had nothing to do: that is a good pass too."""
        now = self.clock()
        self.board.change(run, lambda view: replace(view, seen_ns=now, last_success_ns=now))

    def failed(self, run: str, error: Exception) -> None:
        """A pass ended without a plan."""
        sentence = f"{type(error).__name__}: {error}"
        logs.error(f"{run}: {sentence}")
        now, note = self.clock(), Attention("failed", None, sentence, "see the service's log")
        self.publish(run, lambda view: replace(view, error=sentence, seen_ns=now, noted=(note,)))

    def pressed(
        self, there: Pressed, plan: RunPlan | None, outcome: RunOutcome | None, notes: tuple[Attention, ...]
    ) -> None:
        """A try to make room there has ended; ``plan`` is what stands after it, where it touched the run."""
        now, run = self.clock(), there.run
        forecasts = {} if plan is None else self.forecasts(run, plan, now_ns=now)

        def seen(view: RunView) -> RunView:
            others = tuple(note for note in view.pressed if note.replica not in (None, there.replica))
            view = replace(view, pressed=(*others, *notes))
            if plan is None or outcome is None:
                return view
            good = view.last_success_ns
            view = after_apply(view, outcome, now_ns=now)
            view = after_plan(view, plan, now_ns=now, forecasts=forecasts)
            return replace(view, last_success_ns=good)  # making room is no pass of the schedule

        self.publish(run.name, seen)

    def relaxed(self, run: str, replica: str) -> None:
        """There is room on a replica: what the last try there left to be said is over."""
        if any(note.replica == replica for note in self.board.view(run).pressed):
            self.publish(
                run,
                lambda view: replace(view, pressed=tuple(note for note in view.pressed if note.replica != replica)),
            )

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
