"""Runs in which nothing was to do and nothing has changed need no listing again: what thousands of idle runs live on.

Directories change their times when an entry comes or goes, so a save, a pin or a swapped volume shows. What waits
for time alone (a guard, a temporary, the trash) is never still, and after an hour every run is looked at in full.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from prune.model import SECOND, Decision, RunOutcome, RunPlan
from prune.settings.roots import is_url
from prune.settings.schema import HOUR, RunSettings

LOOK_AGAIN_NS = HOUR
TICK_NS = 2 * SECOND  # a directory changed this lately may change again without its time showing it
NEWEST = 3  # so many of the newest copies are looked at themselves, for trainers that write in place

Signs = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """What was looked at in a pass that found nothing to do, as it stood before that pass began."""

    run: RunSettings
    places: tuple[str, ...]
    signs: Signs
    at_ns: int


class Stillness:
    """Remembers still runs. Each run is asked about by one thread at a time."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}
        self._before: dict[str, Seen] = {}

    def is_still(self, run: RunSettings, *, now_ns: int) -> bool:
        """Whether a pass over the run would find what the last one found."""
        seen = self._seen.get(run.name)
        if seen is None or seen.run != run or not 0 <= now_ns - seen.at_ns < LOOK_AGAIN_NS:
            return False
        return signs_of(seen.places) == seen.signs

    def begin(self, run: RunSettings, *, now_ns: int) -> None:
        """A full pass begins: the signs are taken before anything is listed."""
        self._seen.pop(run.name, None)
        known = self._before.get(run.name)
        places = known.places if known is not None else ()
        self._before[run.name] = Seen(run, places, signs_of(places), now_ns)

    def end(self, run: RunSettings, plan: RunPlan | None, outcome: RunOutcome) -> None:
        """The pass has ended. Remembered where it had nothing to do, and looked at the places it began with."""
        before = self._before.get(run.name)
        places = () if plan is None else places_of(run, plan)
        in_store = any(is_url(replica.root) for replica in run.replicas)  # only a listing tells of changes there
        if before is None or plan is None or in_store or not nothing_to_do(plan, outcome):
            self._before.pop(run.name, None)
            return
        settled = all(before.at_ns - max(sign[2:4], default=0) > TICK_NS for sign in before.signs)
        if places == before.places and settled and signs_of(places) == before.signs:
            self._seen[run.name] = before
        self._before[run.name] = Seen(run, places, (), before.at_ns)

    def only(self, names: Iterable[str]) -> None:
        """Forgets runs that are no longer in the settings."""
        kept = set(names)
        self._seen = {name: seen for name, seen in self._seen.items() if name in kept}
        self._before = {name: seen for name, seen in self._before.items() if name in kept}


def nothing_to_do(plan: RunPlan, outcome: RunOutcome) -> bool:
    """Whether a pass changed nothing, and none will while nothing changes and no time passes."""
    idle = not (outcome.deleted or outcome.failed or outcome.gone or outcome.orphans_deleted or outcome.guarded)
    waits = plan.blocks or plan.orphans or any(replica.trash_bytes for replica in plan.replicas)
    settled = all(step.decision is Decision.KEEP and step.thin is None for step in plan.steps)
    return idle and outcome.blocked is None and not waits and settled


def places_of(run: RunSettings, plan: RunPlan) -> tuple[str, ...]:
    """Every directory whose time tells of a change, and the newest copies themselves."""
    roots = {replica.name: replica.root for replica in run.replicas}
    found = dict.fromkeys(roots.values())
    for replica in plan.replicas:
        if replica.control is not None:
            found.update(dict.fromkeys(f"{replica.control}{below}" for below in ("", "/pins", "/leases", "/trash")))
    for step in plan.steps:
        for copy in step.copies:
            if copy.replica in roots:
                found.update(dict.fromkeys(_parent(roots[copy.replica], path) for path in copy.paths))
    for step in plan.steps[-NEWEST:]:
        for copy in step.copies:
            if copy.replica in roots:
                found.update(dict.fromkeys(f"{roots[copy.replica]}/{path}" for path in copy.paths))
    return tuple(found)


def signs_of(places: Iterable[str]) -> Signs:
    """One system call a place."""
    found: list[tuple[int, ...]] = []
    for place in places:
        try:
            status = os.stat(place)
        except OSError as error:
            found.append((error.errno or -1,))
            continue
        found.append((status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size))
    return tuple(found)


def _parent(root: str, path: str) -> str:
    head = path.rpartition("/")[0]
    return f"{root}/{head}" if head else root
