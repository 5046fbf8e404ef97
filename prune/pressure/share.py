"""How much of what is used on a volume is ours: data of others must not cost checkpoints that policy wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prune import engine
from prune.model import RunPlan
from prune.settings.schema import RunSettings
from prune.stores.base import Space
from prune.stores.local import LocalRoot
from prune.stores.there import open_root

OURS_AT_LEAST = 0.2  # with less than this share of the used bytes, checkpoints are not what fills the volume


class Lying(Protocol):
    """A run with a replica on the volume."""

    @property
    def run(self) -> RunSettings: ...

    @property
    def replica(self) -> str: ...

    @property
    def root(self) -> str: ...


def share_of_ours(lying: Sequence[Lying], space: Space, *, now_ns: int) -> float:
    """The share of the used bytes that the runs' checkpoints take, from 0 to 1; 1 where nothing is used."""
    used = space.total_bytes - space.free_bytes
    ours = sum(_held(one, engine.plan_run(one.run, now_ns=now_ns)) for one in lying)
    return min(1.0, ours / used) if used > 0 else 1.0


def _held(one: Lying, plan: RunPlan) -> int:
    """Bytes of all copies on the replica; what cannot be measured counts as nothing, which takes less."""
    total = 0
    with open_root(one.root) as root:
        for step in plan.steps:
            for copy in step.copies:
                if copy.replica != one.replica:
                    continue
                total += copy.bytes if copy.bytes is not None else _measured(root, copy.paths)
    return total


def _measured(root: LocalRoot, paths: Sequence[str]) -> int:
    total = 0
    for path in paths:
        try:
            total += root.measure(path).freed
        except OSError:
            continue
    return total
