"""The blocks: reasons to delete nothing in a run this time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from prune.evidence import Evidence
from prune.guards.scene import Scene
from prune.model import Block, Pointer, PointerState, Replica
from prune.settings.schema import Share

# The worst first: what may mean that data is gone or another's, then what hides it, then what stands in the way.
SEVERITY = (
    "volume-changed",
    "replica-vanished",
    "replica-unreachable",
    "listing-incomplete",
    "layout-ambiguous",
    "clock-jumped",
    "control-unusable",
    "pins-unreadable",
    "pointer-unreadable",
    "read-only",
    "free-space-unknown",
    "locked",
    "too-many",
)

# Of an optional mirror these are only told: it never holds the others back.
NEVER_OF_OPTIONAL = frozenset(
    {
        "replica-vanished",
        "replica-unreachable",
        "listing-incomplete",
        "pointer-unreadable",
        "read-only",
        "free-space-unknown",
    }
)


def standing_blocks(evidence: Evidence) -> tuple[Block, ...]:
    """The blocks that stand before anything is decided: those met while gathering, and those the inventory shows."""
    found = [*evidence.inventory.blocks, *_missing(evidence)]
    found += [
        block for replica in evidence.replicas if replica.required for block in _of_replica(evidence, replica, found)
    ]
    found += [
        _unreadable(pointer) for pointer in evidence.inventory.pointers if pointer.state is PointerState.UNREADABLE
    ]
    optional = {replica.name for replica in evidence.replicas if not replica.required}
    return worst_first(b for b in found if not (b.replica in optional and b.block in NEVER_OF_OPTIONAL))


def troubles_of_optional(evidence: Evidence) -> tuple[Block, ...]:
    """What would block if the mirror were required."""
    optional = [replica for replica in evidence.replicas if not replica.required]
    names = {replica.name for replica in optional}
    met = [b for b in evidence.inventory.blocks if b.replica in names and b.block in NEVER_OF_OPTIONAL]
    found = [*met, *(block for replica in optional for block in _of_replica(evidence, replica, met))]
    unreadable = [p for p in evidence.inventory.pointers if p.state is PointerState.UNREADABLE and p.replica in names]
    return worst_first([*found, *map(_unreadable, unreadable)])


def too_many(scene: Scene, victims: Collection[int]) -> Block | None:
    """The brake, where ``guards.max_delete`` is set: a pass would take more of a replica's steps than it allows."""
    limit = scene.guards.max_delete
    if limit is None:
        return None
    for replica in scene.evidence.listed:
        held = scene.evidence.on(replica)
        going = sum(copy.step in victims for copy in held)
        allowed = limit.percent * len(held) / 100 if isinstance(limit, Share) else limit
        if going > allowed:
            shown = f"{limit.percent:g}%" if isinstance(limit, Share) else str(limit)
            what = "would go" if scene.keep.full is None else "would go or be thinned"
            detail = (
                f"{going} of {len(held)} checkpoints {what}, guards.max_delete = {shown}; "
                "if that is meant: prune apply --allow-many"
            )
            return Block("too-many", replica, detail)
    return None


def worst_first(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Each block once, the worst first; one of a kind that is not known here counts as the worst."""
    place = {block: place for place, block in enumerate(SEVERITY)}
    return tuple(sorted(set(blocks), key=lambda b: (place.get(b.block, -1), b.block, b.replica or "", b.detail)))


def _missing(evidence: Evidence) -> Iterator[Block]:
    """Replicas that were never looked at: their silence must not pass for emptiness."""
    names = {replica.name for replica in evidence.replicas}
    blocked = {block.replica for block in evidence.inventory.blocks}
    for settings in evidence.run.replicas:
        if settings.required and settings.name not in names | blocked:
            yield Block("replica-unreachable", settings.name, f"{settings.root} was not looked at")
    if evidence.primary is None and (not evidence.run.replicas or evidence.run.primary.name in names):
        yield Block("replica-unreachable", None, "none of the replicas looked at is the primary")


def _of_replica(evidence: Evidence, replica: Replica, met: Iterable[Block]) -> Iterator[Block]:
    if not replica.listed:
        if not any(block.replica == replica.name for block in met):
            yield Block("replica-unreachable", replica.name, f"{replica.root} could not be listed")
        return
    if replica.read_only:
        yield Block("read-only", replica.name, f"{replica.root} is read-only: nothing can be deleted there")
    if _room_unknown(evidence, replica) and not any(
        b.block == "free-space-unknown" and b.replica == replica.name for b in met
    ):
        detail = f'free space of {replica.root} cannot be read; where that is how it is, say free_space = "none" there'
        yield Block("free-space-unknown", replica.name, detail)


def _room_unknown(evidence: Evidence, replica: Replica) -> bool:
    """Object stores have no free space of their own; a local volume that claims no size is not to be believed."""
    if "://" in replica.root:
        return False
    declared = next((s.free_space for s in evidence.run.replicas if s.name == replica.name), "auto")
    return declared != "none" and (replica.free_bytes is None or not replica.total_bytes)


def _unreadable(pointer: Pointer) -> Block:
    return Block("pointer-unreadable", pointer.replica, f"{pointer.path}: {pointer.detail or 'it cannot be read'}")
