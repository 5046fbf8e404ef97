"""What a person should know, each with the mend. Told from what is known already: nothing is looked at for its sake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prune.guards import Scene
from prune.model import Attention, StepPlan
from prune.planner.attention import health, holds, replicas, rules

Teller = Callable[[Scene, Sequence[StepPlan]], Iterator[Attention]]

TELLERS: tuple[Teller, ...] = (
    rules.not_aligned,
    rules.metric_missing,
    rules.window_without_end,
    rules.cannot_thin,
    health.damaged,
    health.unreadable,
    health.differing,
    health.damaged_pick,
    holds.rewound,
    holds.unknown_mtime,
    holds.future_mtime,
    holds.held_long,
    replicas.troubled_optional,
    replicas.mirror_behind,
    replicas.pointer_dangling,
    replicas.clock_skew,
    replicas.trainer_rotates,
    replicas.too_small,
)


def attention(scene: Scene, steps: Sequence[StepPlan]) -> tuple[Attention, ...]:
    """All of one run: what was met while gathering first, then what the plan shows, each once."""
    gathered = sorted(
        set(scene.evidence.inventory.attention), key=lambda a: (a.kind, a.replica or "", a.detail, a.mend)
    )
    shown = (found for tell in TELLERS for found in tell(scene, steps))
    return tuple(dict.fromkeys((*gathered, *shown)))
