"""The main job: settings → plans, and plans carried out. There is no second code path: a dry run is a plan printed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from prune import planner
from prune.errors import PruneError
from prune.inventory import gather, open_site
from prune.inventory.judging import Evidence, no_evidence
from prune.model import Attention, Block, DeletedCopy, Inventory, Outcome, Plan, RunOutcome, RunPlan
from prune.settings.schema import MANY_RUNS, RunSettings, Settings
from prune.stop import Stop
from prune.stores.open_files import looking_once

if TYPE_CHECKING:
    from prune.fleet.allowance import Allowances
    from prune.journal import Journal

Progress = Callable[[str, int, int], None]
BUDGET = "budget: "  # what a plan's note begins with that tells of one


def _silent(_what: str, _done: int, _of: int) -> None:
    pass


@dataclass(frozen=True)
class Conduct:
    """How an apply is to be carried out."""

    wait_ns: int = 0  # how long to wait for another pass's lock
    allow_many: bool = False
    allow_rewound: bool = False
    keep_last: int | None = None  # pressure's lowered N
    grace_ns: int | None = None  # None: each run's own; pressure purges at once
    batch: int | None = None
    keep_going: Callable[[], bool] = lambda: True  # asked before each batch
    stop: Stop = field(default_factory=Stop)
    progress: Progress = _silent
    told: Callable[[DeletedCopy], None] = lambda _copy: None  # hears of each copy as it is deleted
    planned: Callable[[RunPlan], None] = lambda _plan: None  # hears of each plan before it is carried out
    clock: Callable[[], int] = time.time_ns
    allowed: Allowances | None = None  # by budgets that runs share; None: looked up where there are any


def plan(settings: Settings, *, now_ns: int | None = None, progress: Progress = _silent) -> Plan:
    """What would be kept and deleted in every run, and why. Writes nothing, anywhere.

    ``now_ns`` is the time ages are measured at; None: this host's clock.
    """
    now = time.time_ns() if now_ns is None else now_ns
    return assemble(settings, [*plans(settings, now_ns=now, progress=progress)], now)


def plans(
    settings: Settings, *, now_ns: int, courtesy: bool | None = None, progress: Progress = _silent
) -> Iterator[RunPlan]:
    """Each run's plan as it is made. None is held here, so that thousands of runs take the memory of one.

    ``courtesy``: whether to judge a few copies that no decision leans on; None: where there are not many runs.
    """
    courtesy = len(settings.runs) <= MANY_RUNS if courtesy is None else courtesy
    with history_of(settings) as journal, looking_once():
        allowed = allowed_by_budgets(settings, now_ns=now_ns, evidence=_evidence_in(journal))
        for run in settings.runs:
            last = allowed.lowered.get(run.name) if allowed is not None else None
            _, made = look_at(run, now_ns=now_ns, journal=journal, keep_last=last, courtesy=courtesy, progress=progress)
            yield made if allowed is None else allowed.told(made)


def assemble(settings: Settings, runs: Sequence[RunPlan], now_ns: int) -> Plan:
    """One plan of several runs, with the id that its content gives it."""
    from prune.report.json import plan_id

    unnamed = Plan("", now_ns, tuple(runs), settings=settings)
    return replace(unnamed, id=plan_id(unnamed))


def plan_run(run: RunSettings, *, now_ns: int, journal: Journal | None = None, progress: Progress = _silent) -> RunPlan:
    """The plan of one run. Its trouble becomes blocks, never an exception."""
    return look_at(run, now_ns=now_ns, journal=journal, progress=progress)[1]


def look_at(
    run: RunSettings,
    *,
    now_ns: int,
    journal: Journal | None = None,
    keep_last: int | None = None,
    judge_all: bool = False,
    courtesy: bool = True,
    progress: Progress = _silent,
) -> tuple[Inventory, RunPlan]:
    """One run as it stands, and its plan; ``journal`` tells what earlier passes found, ``keep_last`` is a lowered N."""
    with open_site(run) as site:
        inventory = gather(
            site, now_ns=now_ns, evidence=_evidence_in(journal), keep_last=keep_last, judge_all=judge_all,
            courtesy=courtesy, progress=progress,
        )  # fmt: skip
        if journal is not None and not inventory.copies:
            from prune.missed import with_what_is_missed

            inventory = with_what_is_missed(site, inventory, journal)
    return inventory, planner.plan(inventory, run, now_ns, keep_last=keep_last)


def allowed_by_budgets(settings: Settings, *, now_ns: int, evidence: Evidence = no_evidence) -> Allowances | None:
    """What budgets that runs share allow each; None where there are none."""
    if settings.fleet_budget is None and not settings.fleet_groups:
        return None
    from prune.fleet.allowance import allowances

    return allowances(settings, now_ns=now_ns, evidence=evidence)


def apply(
    settings: Settings, *, reviewed: Plan | None = None, conduct: Conduct | None = None, plan_id: str | None = None
) -> Outcome:
    """Carries out a fresh plan of every run; with ``reviewed``, at most what that plan deletes.

    ``plan_id`` names the pass in history where it is part of a larger one. One run's trouble never stops another's.
    """
    from prune.deletion.apply import apply_run
    from prune.journal import open_journal
    from prune.journal.together import Together

    conduct = conduct or Conduct()
    chosen = settings.runs if reviewed is None else _named(settings.runs, reviewed)
    plan_id = plan_id or (reviewed.id if reviewed is not None else fresh_id(conduct.clock()))
    journal = Together(open_journal(settings.state, write=True))
    of_runs = {} if reviewed is None else {run.run: run for run in reviewed.runs}
    allowed = conduct.allowed or allowed_by_budgets(settings, now_ns=conduct.clock(), evidence=journal.evidence)
    outcomes: list[RunOutcome] = []
    try:
        with looking_once():
            for run in chosen:
                if conduct.stop:
                    break
                try:
                    of_run = of_runs.get(run.name)
                    within = _within(conduct, run, allowed, of_run)
                    done = apply_run(run, plan_id=plan_id, reviewed=of_run, conduct=within, journal=journal)
                    outcomes.append(done if allowed is None else allowed.told_of(done))
                except (OSError, PruneError) as error:
                    outcomes.append(RunOutcome(run.name, blocked=Block("failed", None, str(error))))
    finally:
        journal.close()
    return Outcome(plan_id, tuple(_told_of_state(outcomes, journal.trouble)))


def _within(conduct: Conduct, run: RunSettings, allowed: Allowances | None, reviewed: RunPlan | None) -> Conduct:
    """The conduct with N as low as a budget asks of this run, now or in the plan that was reviewed."""
    lasts = [conduct.keep_last, allowed.lowered.get(run.name) if allowed is not None else None]
    if reviewed is not None and any(note.startswith(BUDGET) for note in reviewed.notes):
        lasts.append(int(reviewed.keep.get("last", run.keep.last)))
    known = [last for last in lasts if last is not None]
    return replace(conduct, keep_last=min(known)) if known else conduct


def _told_of_state(outcomes: list[RunOutcome], trouble: str | None) -> list[RunOutcome]:
    """Entries of quiet passes are written together, so that what keeps them from it may show only at the end."""
    if not outcomes or trouble is None or any(note.kind == "state" for note in outcomes[-1].attention):
        return outcomes
    note = Attention("state", None, f"history cannot be kept: {trouble}", "make it writable, or set state elsewhere")
    return [*outcomes[:-1], replace(outcomes[-1], attention=(*outcomes[-1].attention, note))]


def fresh_id(now_ns: int) -> str:
    """An id for a pass that follows no reviewed plan."""
    import secrets

    return f"{now_ns // 1_000_000_000:x}{secrets.token_hex(4)}"


def _named(runs: Iterable[RunSettings], reviewed: Plan) -> list[RunSettings]:
    names = {run.run for run in reviewed.runs}
    return [run for run in runs if run.name in names]


def _evidence_in(journal: Journal | None) -> Evidence:
    return no_evidence if journal is None else journal.evidence


@contextmanager
def history_of(settings: Settings) -> Iterator[Journal | None]:
    """What earlier passes found, read-only, where a journal is there to tell."""
    import os

    state = settings.state
    if state is not None and state.startswith("sqlite:///") and not os.path.exists(state.removeprefix("sqlite:///")):
        yield None
        return
    from prune.journal import open_journal

    journal = open_journal(state, write=False)
    try:
        yield journal
    finally:
        journal.close()
