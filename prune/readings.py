"""What a run's own directories tell a simulation: how big its saves are, how often they come, what room there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from prune import engine
from prune.errors import UsageError
from prune.forecast import RECENT, recent_saves, usual_interval
from prune.model import Copy, RunPlan
from prune.settings.schema import Keep, RunSettings
from prune.simulate import Rhythm, Volume, Workload
from prune.stores.local import LocalRoot


@dataclass(frozen=True, slots=True)
class Figures:
    """What was said on the command line; None is read off the disk."""

    bytes: int | None = None
    interval_ns: int | None = None
    steps_per_save: int | None = None
    volumes: tuple[Volume, ...] = ()
    pass_every_ns: int = Rhythm().pass_every_ns


@dataclass(frozen=True, slots=True)
class Given:
    """Everything a simulation is made from."""

    name: str
    keep: Keep
    workload: Workload
    volumes: tuple[Volume, ...]
    rhythm: Rhythm


def given_by(figures: Figures, run: RunSettings) -> Given:
    """A simulation of a policy from figures alone. Raises UsageError where one is missing."""
    if figures.bytes is None or figures.interval_ns is None:
        missing = "--size" if figures.bytes is None else "--save-every"
        raise UsageError(f"{missing} is not given, and no run is named to read it from",
                         mend="give it, or name a run by --primary or --config")  # fmt: skip
    workload = Workload(figures.bytes, figures.interval_ns, figures.steps_per_save or 1)
    return Given(run.name, run.keep, workload, figures.volumes, Rhythm(figures.pass_every_ns, run.grace))


def read_off(figures: Figures, run: RunSettings, *, now_ns: int) -> Given:
    """A simulation of a run as it is. Raises UsageError for what cannot be read off and was not given."""
    plan = engine.plan_run(run, now_ns=now_ns)
    saves = recent_saves(plan, run.primary.name, lambda copy: _size(run.primary.root, copy))
    size = figures.bytes or max((save.bytes for save in saves), default=None)
    interval = figures.interval_ns or usual_interval([save.at_ns for save in saves])
    if size is None:
        raise UsageError(f"run {run.name} has no checkpoint whose size could be read", mend="give it by --size")
    if interval is None:
        raise UsageError(f"run {run.name} has too few checkpoints to tell how often it saves", mend="--save-every 10m")
    workload = Workload(size, interval, figures.steps_per_save or steps_between(plan))
    return Given(run.name, run.keep, workload, figures.volumes or _volumes(run, plan),
                 Rhythm(figures.pass_every_ns, run.grace))  # fmt: skip


def steps_between(plan: RunPlan) -> int:
    """The usual distance between two saves of late, in steps; 1 where there is none to be seen."""
    newest = [step.step for step in plan.steps][-RECENT:]
    gaps = [later - earlier for earlier, later in pairwise(newest)]
    return max(1, int(median(gaps))) if gaps else 1


def _volumes(run: RunSettings, plan: RunPlan) -> tuple[Volume, ...]:
    """What checkpoints may use on each local replica: what is free, and what they use already."""
    found = []
    roots = {replica.name: replica.root for replica in run.replicas}
    for replica in plan.replicas:
        if replica.free_bytes is None:
            continue
        copies = [copy for step in plan.steps for copy in step.copies if copy.replica == replica.name]
        ours = sum(_size(roots[replica.name], copy) or 0 for copy in copies) + replica.trash_bytes
        found.append(Volume(replica.name, replica.free_bytes + ours))
    return tuple(found)


def _size(root: str, copy: Copy) -> int | None:
    if copy.size is not None:
        return copy.size
    try:
        with LocalRoot(root) as opened:
            return sum(opened.measure(path).size for path in copy.paths)
    except OSError:
        return None


def named_volumes(values: Sequence[tuple[str | None, int]]) -> tuple[Volume, ...]:
    """Volumes as given: the first without a name is the primary, further ones are mirrors."""
    names = ["primary", "mirror", *(f"mirror-{number}" for number in range(2, len(values) + 2))]
    return tuple(Volume(name or names[place], size) for place, (name, size) in enumerate(values))
