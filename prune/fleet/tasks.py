"""One run's work as plain functions of plain values, for engines that carry functions to other machines.

A run is the unit: each function opens what it needs, takes the run's own locks, and leaves nothing behind. Carried out
a second time, after its machine was lost in the middle, it ends what the first one began.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prune.model import RunOutcome, RunPlan
from prune.settings.schema import RunSettings, Settings
from prune.stop import Stop

Task = Callable[[RunSettings, Stop], object]


def version() -> str:
    """Which version would do the work here."""
    from prune import __version__

    return __version__


@dataclass(frozen=True)
class PlanTask:
    """The plan of one run, on the machine that holds it."""

    state: str | None
    now_ns: int
    courtesy: bool = True
    keep_last: int | None = None

    def __call__(self, run: RunSettings, _stop: Stop) -> RunPlan:
        from prune import engine

        with engine.history_of(Settings((run,), self.state)) as journal:
            return engine.look_at(
                run, now_ns=self.now_ns, journal=journal, keep_last=self.keep_last, courtesy=self.courtesy
            )[1]


@dataclass(frozen=True)
class ApplyTask:
    """One run's pass, with all its guards; None where a stop came before it."""

    state: str | None
    plan_id: str
    reviewed: RunPlan | None = None
    wait_ns: int = 0
    allow_many: bool = False
    allow_rewound: bool = False
    keep_last: int | None = None

    def __call__(self, run: RunSettings, stop: Stop) -> RunOutcome | None:
        from prune import engine
        from prune.model import Plan

        conduct = engine.Conduct(
            wait_ns=self.wait_ns,
            allow_many=self.allow_many,
            allow_rewound=self.allow_rewound,
            keep_last=self.keep_last,
            stop=stop,
        )
        reviewed = None if self.reviewed is None else Plan(self.plan_id, 0, (self.reviewed,))
        found = engine.apply(Settings((run,), self.state), reviewed=reviewed, conduct=conduct, plan_id=self.plan_id)
        return found.runs[0] if found.runs else None


@dataclass(frozen=True)
class VerifyTask:
    """One run's copies, checked."""

    state: str | None
    steps: frozenset[int]
    check: str
    again: bool = False
    threads: int | None = None

    def __call__(self, run: RunSettings, stop: Stop) -> object:
        from typing import cast

        from prune.checking import Check, Means
        from prune.journal import open_journal
        from prune.verify import verify_run

        means = Means(cast(Check, self.check), again=self.again, threads=self.threads, stop=stop)
        journal = open_journal(self.state, write=True)
        try:
            return verify_run(run, self.steps, means=means, journal=journal)
        finally:
            journal.close()


@dataclass(frozen=True)
class MirrorTask:
    """One run's mirrors, brought up to date."""

    state: str | None
    steps: frozenset[int]
    source: str | None = None
    wait_ns: int = 0
    cold: bool | None = None

    def __call__(self, run: RunSettings, stop: Stop) -> object:
        from prune.journal import open_journal
        from prune.mirror import Conduct, mirror_run

        conduct = Conduct(self.wait_ns, self.cold, stop)
        journal = open_journal(self.state, write=True)
        try:
            return mirror_run(run, self.steps, source=self.source, conduct=conduct, journal=journal, state=self.state)
        finally:
            journal.close()
