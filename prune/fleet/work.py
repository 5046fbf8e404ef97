"""Planning, applying, verifying and mirroring many runs on a cluster: the same results as here, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

from prune.checking import Means
from prune.engine import Conduct, allowed_by_budgets, fresh_id
from prune.fleet.allowance import Allowances
from prune.fleet.dask import WAIT_NS, Cluster, Told
from prune.fleet.tasks import ApplyTask, MirrorTask, PlanTask, VerifyTask
from prune.mirror import Conduct as MirrorConduct
from prune.mirror import Mirrored, runs_to_mirror
from prune.model import Block, Outcome, Plan, Replica, RunOutcome, RunPlan
from prune.settings.schema import MANY_RUNS, RunSettings, Settings
from prune.verify import Verified, check_steps

T = TypeVar("T")
Count = Callable[[int, int], None]


def plans(cluster: Cluster, settings: Settings, *, now_ns: int, progress: Count) -> Iterator[RunPlan]:
    """Each run's plan, in the order of the settings. Only those that came before their turn are held."""
    allowed = allowed_by_budgets(settings, now_ns=now_ns) or Allowances()
    courtesy = len(settings.runs) <= MANY_RUNS

    def task_of(run: RunSettings) -> PlanTask:
        return PlanTask(settings.state, now_ns, courtesy, allowed.lowered.get(run.name))

    for one in in_order(cluster.each(task_of, settings.runs, progress=progress), settings.runs):
        yield allowed.told(one.result) if one.result is not None else _unplanned(one.run, str(one.error))


def apply(
    cluster: Cluster, settings: Settings, *, reviewed: Plan | None, conduct: Conduct, hear: Callable[[RunOutcome], None]
) -> Outcome:
    """As ``engine.apply``. ``hear`` is told each run's outcome as it comes."""
    plan_id = reviewed.id if reviewed is not None else fresh_id(conduct.clock())
    plans_of = {plan.run: plan for plan in reviewed.runs} if reviewed is not None else {}
    runs = [run for run in settings.runs if reviewed is None or run.name in plans_of]
    allowed = allowed_by_budgets(settings, now_ns=conduct.clock()) or Allowances()

    def task_of(run: RunSettings) -> ApplyTask:
        return ApplyTask(
            settings.state,
            plan_id,
            plans_of.get(run.name),
            wait_ns=conduct.wait_ns or WAIT_NS,
            allow_many=conduct.allow_many,
            allow_rewound=conduct.allow_rewound,
            keep_last=allowed.lowered.get(run.name),
        )

    outcomes = []
    for told in cluster.each(task_of, runs, stop=conduct.stop, progress=_named(conduct.progress, "runs")):
        outcome = allowed.told_of(told.result or RunOutcome(told.run.name, blocked=_block(told)))
        outcomes.append(outcome)
        hear(outcome)
    return Outcome(plan_id, tuple(_sorted(outcomes, runs, lambda outcome: outcome.run)))


def verify(cluster: Cluster, settings: Settings, steps: Iterable[int], *, means: Means) -> list[Verified]:
    """As ``verify.verify``."""
    wanted = frozenset(steps)
    task = VerifyTask(settings.state, wanted, means.check, means.again, means.threads)
    told = cluster.each(lambda _run: task, settings.runs, stop=means.stop, progress=_named(means.progress, "runs"))
    found = [cast(Verified, one.result) if one.result else Verified(one.run.name, (), (_block(one),)) for one in told]
    if not means.stop:
        check_steps(found, wanted)
    return _sorted(found, settings.runs, lambda one: one.run)


def mirror(
    cluster: Cluster, settings: Settings, steps: Iterable[int], *, source: str | None, conduct: MirrorConduct
) -> list[Mirrored]:
    """As ``mirror.mirror``."""
    wanted = frozenset(steps)
    runs = runs_to_mirror(settings, wanted, source)
    task = MirrorTask(settings.state, wanted, source, conduct.wait_ns or WAIT_NS, conduct.cold)
    told = cluster.each(lambda _run: task, runs, stop=conduct.stop, progress=_named(conduct.progress, "runs"))
    found = [
        cast(Mirrored, one.result) if one.result else Mirrored(one.run.name, blocks=(_block(one),)) for one in told
    ]
    return _sorted(found, runs, lambda one: one.run)


def in_order(told: Iterable[Told[T]], runs: Sequence[RunSettings]) -> Iterator[Told[T]]:
    """What comes as it likes, in the order of the runs; those left out leave no gap."""
    early: dict[str, Told[T]] = {}
    turn = 0
    for one in told:
        early[one.run.name] = one
        while turn < len(runs) and runs[turn].name in early:
            yield early.pop(runs[turn].name)
            turn += 1
    for run in runs[turn:]:
        if run.name in early:
            yield early.pop(run.name)


def _sorted(found: Iterable[T], runs: Sequence[RunSettings], name_of: Callable[[T], str]) -> list[T]:
    place = {run.name: at for at, run in enumerate(runs)}
    return sorted(found, key=lambda one: place[name_of(one)])


def _block(told: Told[Any]) -> Block:
    return Block("failed", None, str(told.error))


def _unplanned(run: RunSettings, error: str) -> RunPlan:
    replicas = tuple(Replica(r.name, r.role, r.root, r.required, listed=False) for r in run.replicas)
    return RunPlan(run.name, "none", {}, replicas, (), None, None, (Block("failed", None, error),))


def _named(progress: Callable[[str, int, int], None], what: str) -> Count:
    return lambda done, of: progress(what, done, of)
