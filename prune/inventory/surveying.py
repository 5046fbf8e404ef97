"""What listings, pointers, pins and the control folders' memories tell, before any copy is looked into."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from prune.inventory import copies as looking
from prune.inventory.gathering import Gathering
from prune.inventory.site import OpenReplica, Site
from prune.layouts.base import Part, RootView
from prune.layouts.listing import every_pointer
from prune.model import (
    Attention,
    Block,
    Copy,
    Inventory,
    Kind,
    Lease,
    Pick,
    Pin,
    Pointer,
    PointerState,
    Replica,
    Temporary,
)
from prune.stores.pace import at_once


def as_listed(work: Gathering) -> Inventory:
    """The inventory as the listings alone tell it."""
    site = work.site
    blocks = list(site.blocks)
    attention = list(site.attention)
    copies: dict[int, dict[str, Copy]] = {}
    temporaries: list[Temporary] = []
    pointers: list[Pointer] = []
    picks: dict[str, Pick] = {}
    pins: list[Pin] = []
    leases: list[Lease] = []
    for replica in site.replicas:
        _tell_trouble(replica, blocks, attention)
        if not counts(replica):
            continue
        _copies(work, replica, copies)
        _temporaries(work, replica, temporaries)
        _pointers(work, replica, pointers, picks)
        _holds(replica, pins, leases, blocks)
    base = Inventory(
        run=site.run.name,
        layout=site.layout.name if site.layout else "none",
        replicas=tuple(_described(r) for r in site.replicas),
        copies=copies,
        temporaries=tuple(temporaries),
        pointers=tuple(pointers),
        picks=picks,
        pins=tuple(pins),
        leases=tuple(leases),
        blocks=tuple(dict.fromkeys(blocks)),
        attention=tuple(attention),
        foreign=sum(r.listing.foreign for r in site.replicas if r.listing is not None),
        unthinnable=site.layout.unthinnable if site.layout else None,
    )
    return _with_memories(site, _with_metrics(work, base))


def counts(replica: OpenReplica) -> bool:
    """Whether what a replica shows may be believed: an optional one in trouble is left out, its copies untouched."""
    return replica.usable or (replica.listing is not None and replica.settings.required)


def _described(replica: OpenReplica) -> Replica:
    described = replica.describe()
    return described if counts(replica) else replace(described, listed=False)


def _tell_trouble(replica: OpenReplica, blocks: list[Block], attention: list[Attention]) -> None:
    if replica.settings.required:
        blocks += replica.trouble
        return
    for trouble in replica.trouble:
        attention.append(
            Attention(trouble.block, replica.name, trouble.detail,
                      "an optional mirror holds nothing back; nothing is deleted on it meanwhile")
        )  # fmt: skip


def _copies(work: Gathering, replica: OpenReplica, copies: dict[int, dict[str, Copy]]) -> None:
    layout, listing = work.site.layout, replica.listing
    if layout is None or listing is None:
        return
    locked = work.open_files.locked
    steps = list(listing.steps.items())
    for copy in at_once(replica.waits, lambda item: looking.listed_copy(replica, layout, *item), steps):
        if copy is None:
            continue
        busy = _busy(work, replica, copy.paths)
        lock = locked.get((copy.identity.dev, copy.identity.ino))
        copies.setdefault(copy.step, {})[replica.name] = replace(copy, busy=busy or lock) if busy or lock else copy


def _busy(work: Gathering, replica: OpenReplica, paths: Sequence[str]) -> str | None:
    if not work.open_files.paths or replica.root is None:
        return None
    real = replica.root.real
    return next((who for path in paths if (who := work.open_files.holder(os.path.join(real, path)))), None)


def _temporaries(work: Gathering, replica: OpenReplica, into: list[Temporary]) -> None:
    assert replica.listing is not None
    for claim in replica.listing.temporaries:
        found = looking.temporary(replica, claim, work.open_files)
        if found is not None:
            into.append(found)
    into += replica.uploads


def _pointers(work: Gathering, replica: OpenReplica, pointers: list[Pointer], picks: dict[str, Pick]) -> None:
    layout, listing = work.site.layout, replica.listing
    if layout is None or listing is None or listing.view is None:
        return
    try:
        pointers += [replace(pointer, replica=replica.name) for pointer in every_pointer(layout, listing.view)]
        pick = layout.trainer_pick(listing.view)
    except OSError as error:
        detail = f"{error.filename or replica.settings.root}: {error.strerror}"
        pointers.append(Pointer(replica.name, str(error.filename or ""), None, PointerState.UNREADABLE, detail))
        return
    if pick is not None:
        picks[replica.name] = replace(pick, apart=_stands_apart(pick, pointers, replica.name, listing.view))


def _stands_apart(pick: Pick, pointers: Sequence[Pointer], replica: str, view: RootView) -> bool:
    claim = view.by_path.get(pick.path)
    if claim is None or claim.part is not Part.POINTER or claim.kind not in (Kind.FILE, Kind.DIR):
        return False
    named = (pointer for pointer in pointers if (pointer.replica, pointer.path) == (replica, pick.path))
    return any(pointer.state is PointerState.OK for pointer in named)


def _holds(replica: OpenReplica, pins: list[Pin], leases: list[Lease], blocks: list[Block]) -> None:
    if replica.control is None:
        return
    try:
        pins += replica.control.pins(replica.name)
        leases += replica.control.leases(replica.name)
    except (OSError, ValueError) as error:
        blocks.append(Block("pins-unreadable", replica.name, f"{error}; mend or remove that file"))


def _with_metrics(work: Gathering, inventory: Inventory) -> Inventory:
    """What the trainer's own state files say: metrics, the best step, steps it will not start without."""
    layout = work.site.layout
    if layout is None:
        return inventory
    metrics: Mapping[int, Mapping[str, float]] = {}
    referenced: dict[int, str] = {}
    best = None
    blocks = list(inventory.blocks)
    for replica in work.site.replicas:
        if not counts(replica) or replica.listing is None or replica.listing.view is None:
            continue
        view = replica.listing.view
        try:
            referenced.update(layout.referenced(view))
            if not metrics:
                metrics, best = layout.metrics(view), layout.best_recorded(view)
        except OSError as error:
            blocks.append(Block("pointer-unreadable", replica.name, f"{error.filename}: {error.strerror}"))
    return replace(inventory, metrics=metrics, best_recorded=best, referenced=referenced, blocks=tuple(blocks))


def _with_memories(site: Site, inventory: Inventory) -> Inventory:
    """What the control folders remember: a rewind, and what was seen to stand still."""
    rewound: list[int] = []
    observed: dict[tuple[int, str], int] = {}
    blocks = list(inventory.blocks)
    for replica in site.replicas:
        if replica.control is None:
            continue
        try:
            since = replica.control.remembered("rewound").get("since_ns")
            if isinstance(since, int):
                rewound.append(since)
            for key, seen in replica.control.remembered("observed").items():
                if (copy := _copy_at(inventory, key, replica.name)) and isinstance(seen, list):
                    identity = copy.identity
                    if seen[1:] == [identity.dev, identity.ino, identity.size, identity.mtime_ns, identity.ctime_ns]:
                        observed[copy.step, replica.name] = int(seen[0])
        except (OSError, ValueError) as error:
            blocks.append(Block("control-unusable", replica.name, str(error)))
    return replace(
        inventory,
        rewound_since_ns=min(rewound, default=None),
        observed_ns=observed,
        blocks=tuple(dict.fromkeys(blocks)),
    )


def _copy_at(inventory: Inventory, key: str, replica: str) -> Copy | None:
    return inventory.copies.get(int(key), {}).get(replica) if key.isdigit() else None
