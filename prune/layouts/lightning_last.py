"""Lightning's names without a step: ``last.ckpt`` (copy or link), ``hpc_ckpt_<n>.ckpt``, ``on_exception.ckpt``.

A copy tells its step itself: what is pickled in it has a ``global_step``
(Lightning-AI/pytorch-lightning, ``trainer/connectors/checkpoint_connector.py``, ``dump_checkpoint``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from prune.layouts import links, trackers
from prune.layouts.base import Claim, Kind, Layout, Part, Pick, RootView
from prune.model import Pointer, PointerState

_LAST = re.compile(r"last[^/]*\.ckpt", re.DOTALL)
_SLURM = re.compile(r"hpc_ckpt_(?P<number>[0-9]{1,18})\.ckpt")
_EXCEPTION = "on_exception.ckpt"


def stands_for_a_step(name: str) -> bool:
    """Whether Lightning would resume from this name although it tells no step."""
    return _LAST.fullmatch(name) is not None or _SLURM.fullmatch(name) is not None or name == _EXCEPTION


def pointers(layout: Layout, view: RootView) -> list[Pointer]:
    """Every such name with the step it stands for; a copy that does not tell has none, and its detail says so."""
    copies = (_copy(view, claim) for claim in _named(view) if claim.kind is not Kind.LINK)
    return [*links.pointers(layout, view), *copies]


def pick(layout: Layout, view: RootView) -> Pick | None:
    """What ``ckpt_path="last"`` takes: the latest written of its candidates. A requeued Slurm job takes
    ``hpc_ckpt_<n>`` with the highest number before that."""
    named = {claim.path: claim for claim in _named(view)}
    steps = {pointer.path: pointer.step for pointer in pointers(layout, view)}
    slurm = [(int(found["number"]), path) for path in named if (found := _SLURM.fullmatch(_name(path)))]
    if slurm:
        path = max(slurm)[1]
        return Pick(steps.get(path), path, "highest hpc_ckpt")
    times = {path: time for path in named if (time := _time(view, path)) is not None}
    if not times:
        return None
    path = max(times, key=lambda one: (times[one], one))
    return Pick(steps.get(path), path, "last*.ckpt written latest")


def _named(view: RootView) -> Sequence[Claim]:
    return [c for c in view.claims if c.part is Part.POINTER and stands_for_a_step(_name(c.path))]


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _copy(view: RootView, claim: Claim) -> Pointer:
    """A copy is itself a checkpoint; the step it is a copy of may be long gone, and that harms nobody."""
    from prune.layouts import torch_state

    path = f"{claim.path}/meta.pt" if claim.kind is Kind.DIR else claim.path
    try:
        if view.reader.stat(path).size == 0:
            return trackers.empty(view, claim.path)
        step = torch_state.number(view.reader, path, "global_step")
        if step is None and claim.kind is Kind.FILE:
            step = _same_size_and_time(view, claim.path)
    except FileNotFoundError:
        step = None
    except OSError as error:
        detail = f"cannot be read: {error.strerror or error}"
        return Pointer("", claim.path, None, PointerState.UNREADABLE, detail)
    if step is None:
        return Pointer("", claim.path, None, PointerState.OK, "a copy that does not tell its step")
    return Pointer("", claim.path, step, PointerState.OK, None if step in view.steps else "a copy of a step not here")


def _same_size_and_time(view: RootView, path: str) -> int | None:
    """The step whose file has exactly this size and time, as a copy that keeps times has."""
    ours = view.reader.stat(path)
    for step in sorted(view.steps, reverse=True)[:64]:
        for claim in view.steps[step]:
            theirs = view.reader.stat(claim.path)
            if theirs.kind is Kind.FILE and (theirs.size, theirs.mtime_ns) == (ours.size, ours.mtime_ns):
                return step
    return None


def _time(view: RootView, path: str) -> int | None:
    """The time that Lightning compares, which is a link's target's; None where nothing is there."""
    claim = view.by_path[path]
    try:
        if claim.kind is not Kind.LINK:
            return view.reader.stat(path).mtime_ns
        return view.reader.stat(links.target(view, path)).mtime_ns
    except OSError:
        return None
