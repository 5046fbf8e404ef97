"""Reads a traceback or log: which checkpoint broke, how, and what to resume from. Nothing leaves the machine.

signatures.py what troubles look like · reading.py a log read for them · paths.py the paths in it · place.py the file
as it stands now · mechanism.py how it came to that · result.py what is said
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace

from prune.diagnose.mechanism import mechanism
from prune.diagnose.paths import candidates
from prune.diagnose.place import Home, Look, home_of, look_at, resolve, run_at
from prune.diagnose.reading import Reading, read
from prune.diagnose.result import Diagnosis, Resume
from prune.diagnose.signatures import Trouble
from prune.model import Health, Inventory
from prune.settings.roots import is_url
from prune.settings.schema import RunSettings

__all__ = ["Diagnosis", "Resume", "diagnose"]

_FILES_MATTER = frozenset({Trouble.DAMAGED, Trouble.MISSING, Trouble.POINTER})


def diagnose(
    text: str, *, runs: Sequence[RunSettings] = (), path: str | None = None, beside: Sequence[str] = (".",)
) -> Diagnosis:
    """What a log tells of a checkpoint, checked against the disk.

    text: the log. runs: the runs it may speak of; without any, the run is looked for around the path. path: the
    checkpoint, where the log does not name it. beside: directories that relative paths in the log may start from.
    Raises nothing for whatever the log or the disk holds; writes nothing.
    """
    reading = read(text)
    trouble = reading.cause.signature.trouble if reading.cause else None
    if path is None and (reading.cause is None or trouble is Trouble.OTHER):
        return Diagnosis(reading)
    named = [path] if path is not None else candidates(reading.lines, reading.cause.line if reading.cause else 1)
    whole, exists = resolve(named, [os.path.abspath(base) for base in beside])
    if whole is None:
        return Diagnosis(reading)
    look = look_at(whole) if exists else Look(whole, False)
    look, home = _whole_step(reading, look, home_of(whole))
    run = _run_of(look, home, runs)
    resume = _resume(run, home, look, trouble) if run is not None else None
    return Diagnosis(reading, look, home, run, resume, mechanism(reading, look))


def _whole_step(reading: Reading, look: Look, home: Home | None) -> tuple[Look, Home | None]:
    """Where the file itself shows nothing, its step's other files may: a shard is missing, a marker was not written.

    A log that tells of damage may name a file last that is not there and need not be.
    """
    damaged = reading.cause is not None and reading.cause.signature.trouble is Trouble.DAMAGED
    if home is None or look.health is Health.BROKEN or not (look.exists or damaged):
        return look, home
    if home.path is not None and home.path != look.path and os.path.isdir(home.path):
        around = look_at(home.path)
        if around.health is Health.BROKEN:
            return replace(around, holder=look.holder), home
    return look, home


def _run_of(look: Look, home: Home | None, runs: Sequence[RunSettings]) -> RunSettings | None:
    """The run of the settings that the path lies in; the only one where none does; else one made of what is there."""
    real = os.path.realpath(look.path)
    for run in runs:
        if any(real.startswith(os.path.realpath(r.root) + os.sep) for r in run.replicas if not is_url(r.root)):
            return run
    if len(runs) == 1:
        return runs[0]
    return run_at(home.root) if home is not None and not runs else None


def _resume(run: RunSettings, home: Home | None, look: Look, trouble: Trouble | None) -> Resume | None:
    """The newest restorable copy on the local replicas that is not the one the log complains of."""
    from prune import engine

    local = tuple(replica for replica in run.replicas if not is_url(replica.root))
    if not local or local[0].role != "primary":
        return None
    step = home.step if home is not None and trouble in _FILES_MATTER else None
    accused = (os.path.realpath(look.path), step) if step is not None else None
    for judge_all in (False, True):  # a plan judges the newest ones, and mostly one of those will do
        inventory, _ = engine.look_at(replace(run, replicas=local), now_ns=time.time_ns(), judge_all=judge_all)
        found = _newest(inventory, accused)
        if found is not None:
            return found
    return None


def _newest(inventory: Inventory, accused: tuple[str, int] | None) -> Resume | None:
    roots = {replica.name: replica.root for replica in inventory.replicas}
    for step in reversed(inventory.steps):
        for replica in inventory.replicas:
            copy = inventory.copies[step].get(replica.name)
            if copy is None or copy.health is None or not copy.health.restorable:
                continue
            paths = [os.path.join(roots[replica.name], path) for path in copy.paths]
            if accused is not None and step == accused[1] and _among(accused[0], paths):
                continue
            return Resume(step, replica.name, paths[0], copy.health)
    return None


def _among(real: str, paths: Sequence[str]) -> bool:
    return any(real == os.path.realpath(path) or real.startswith(os.path.realpath(path) + os.sep) for path in paths)
