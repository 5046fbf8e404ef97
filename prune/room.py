"""How much room a replica's volume has, asked before anything is listed."""

from __future__ import annotations

from prune.model import RunOutcome
from prune.settings.roots import is_url
from prune.settings.schema import ReplicaSettings, RunSettings, Share
from prune.stores.base import Space


def space_of(replica: ReplicaSettings) -> Space | None:
    """Room on the volume of a local replica; None where there is no such figure, or it cannot be read."""
    if is_url(replica.root) or replica.free_space == "none":
        return None
    from prune.stores.local import LocalRoot

    try:
        with LocalRoot(replica.root) as root:
            space = root.space()
    except OSError:
        return None
    return space if space.total_bytes > 0 else None


def has_room(replica: ReplicaSettings, wanted: int | Share) -> bool:
    """Whether surely as much is free as wanted; what cannot be read is not room."""
    space = space_of(replica)
    if space is None:
        return False
    return space.free_bytes >= (wanted.of(space.total_bytes) if isinstance(wanted, Share) else wanted)


def spared_outcome(run: RunSettings) -> RunOutcome:
    """What is told of a run that was left alone since there is room."""
    space = space_of(run.primary)
    free = {run.primary.name: space.free_bytes} if space else {}
    return RunOutcome(run.name, free_before=free, free_after=free)
