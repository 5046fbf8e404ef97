"""Mirroring: missing and damaged steps copied to the mirrors, atomically, and compared with what landed.

order.py what goes where · remains.py what gives way to it · room.py whether it fits · build.py a copy under
construction · staging.py its leavings · transfer.py one file · expected.py the hashes on record · place.py where it is
built · appear.py its final names · pointers.py what names it · delivery.py one copy on its way · job.py the pass of one
run · restore.py back to the primary · outcome.py what was done
"""

from __future__ import annotations

from collections.abc import Iterable

from prune.errors import UsageError
from prune.inventory import open_site
from prune.journal import Journal, open_journal
from prune.journal.own import marking
from prune.mirror.job import Job
from prune.mirror.outcome import Conduct, Copied, Mirrored
from prune.settings.schema import RunSettings, Settings

__all__ = ["Conduct", "Copied", "Mirrored", "mirror", "mirror_run"]


def mirror(
    settings: Settings, steps: Iterable[int] = (), *, source: str | None = None, conduct: Conduct | None = None
) -> list[Mirrored]:
    """Brings the mirrors of every run up to date with what its plan keeps; ``steps`` restrict that further.

    ``source`` names a replica whose copies are right, a person says: they take the place of differing, damaged and
    missing copies of ``steps`` on all other replicas, the primary included. One run's trouble never stops another's.
    Raises UsageError where there is nothing to mirror to, or ``source`` is given without steps or names no replica.
    """
    conduct, wanted = conduct or Conduct(), frozenset(steps)
    runs = runs_to_mirror(settings, wanted, source)
    journal = open_journal(settings.state, write=True)
    try:
        return [
            mirror_run(run, wanted, source=source, conduct=conduct, journal=journal, state=settings.state)
            for run in runs
            if not conduct.stop
        ]
    finally:
        journal.close()


def runs_to_mirror(settings: Settings, steps: frozenset[int], source: str | None) -> list[RunSettings]:
    """The runs that have mirrors; none of none, as in a shard that holds no run. Raises UsageError as ``mirror``."""
    runs = [run for run in settings.runs if run.mirrors]
    if not runs and settings.runs:
        raise UsageError("no run has a mirror", mend="name one with --mirror, or mirrors = […] in the configuration")
    if source is not None and runs:
        _check_source(runs, source, steps)
    return runs


def mirror_run(
    run: RunSettings,
    steps: frozenset[int] = frozenset(),
    *,
    source: str | None = None,
    conduct: Conduct,
    journal: Journal,
    state: str | None,
) -> Mirrored:
    """One run's pass; its trouble stands in the outcome. ``state`` is where history stands, for making room."""
    with open_site(run) as site:
        return Job(site, marking(journal, site), conduct, state, steps, source).run()


def _check_source(runs: Iterable[RunSettings], source: str, steps: frozenset[int]) -> None:
    if not steps:
        raise UsageError(f"--from {source} says which copies are right, and needs steps", mend="name the steps")
    for run in runs:
        names = [replica.name for replica in run.replicas]
        if source not in names:
            raise UsageError(f"run {run.name} has no replica {source!r}", mend=f"it has: {', '.join(names)}")
