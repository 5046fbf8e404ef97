"""How damaged copies came to be so, where the evidence tells: added to what is said of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from prune.integrity import fingerprint
from prune.inventory.judging import members_of
from prune.inventory.site import OpenReplica, Site
from prune.layouts.base import Members
from prune.model import Copy, Health, Inventory, Kind
from prune.stores.base import FileStat

MOST = 4  # damaged copies looked into, the newest first: what a person reads
_WORD = "; likely: "
_EXPECTED = re.compile(r"expected (?:at least |about )?(?P<size>[0-9]+)(?: bytes|, found)")
_DAMAGED = frozenset({Health.BROKEN, Health.SUSPECT})


def explained(site: Site, inventory: Inventory) -> Inventory:
    """The inventory with the likely mechanism told of its newest damaged copies."""
    damaged = [
        copy
        for step in reversed(inventory.steps)
        for copy in inventory.copies[step].values()
        if copy.health in _DAMAGED and _WORD not in (copy.detail or "")
    ]
    if not damaged:
        return inventory
    copies = {step: dict(held) for step, held in inventory.copies.items()}
    for copy in damaged[:MOST]:
        sentence = _mechanism(site, inventory, copy)
        if sentence is not None:
            copies[copy.step][copy.replica] = replace(copy, detail=f"{copy.detail or 'damaged'}{_WORD}{sentence}")
    return replace(inventory, copies=copies)


def _mechanism(site: Site, inventory: Inventory, copy: Copy) -> str | None:
    replica = site.by_name(copy.replica)
    if replica.root is None:
        return None
    try:
        members = members_of(replica.root, copy)[0]
        path = _damaged_file(copy, members)
        if path is None:
            return None
        evidence = fingerprint.gather(
            members,
            replica.root,
            path,
            expected=_expected(site, inventory, copy, path),
            beside=dict(_temporaries(replica, inventory, copy)),
            space=replica.space,
            siblings_spread_ns=_siblings_spread(site, inventory, copy),
            foreign_writer=copy.busy,
        )
    except OSError:
        return None  # it was looked at a moment ago; what is known of it is told without a guess
    found = fingerprint.mechanism(evidence)
    return found.sentence if found is not None else None


def _damaged_file(copy: Copy, members: Members) -> str | None:
    """The file that the verdict names, else the only or the largest one."""
    named = (copy.detail or "").partition(": ")[0]
    if named in members.files:
        return named
    files = {path: stat for path, stat in members.files.items() if stat.kind is Kind.FILE}
    return max(files, key=lambda path: files[path].size, default=None)


def _expected(site: Site, inventory: Inventory, copy: Copy, path: str) -> int | None:
    """How long the file should be: by the verdict, the same step elsewhere, or the siblings' own such file."""
    told = _EXPECTED.search(copy.detail or "")
    if told is not None:
        return int(told["size"])
    return next(_lengths(site, inventory, copy, path), None)


def _lengths(site: Site, inventory: Inventory, copy: Copy, path: str) -> Iterator[int]:
    within = path[len(copy.paths[0]) :] if path.startswith(copy.paths[0]) else None
    for other in _good_ones(inventory, copy):
        root = site.by_name(other.replica).root
        same = path if other.step == copy.step else other.paths[0] + within if within is not None else None
        if root is None or same is None:
            continue
        try:
            yield root.stat(same).size
        except OSError:
            continue


def _good_ones(inventory: Inventory, copy: Copy) -> Iterator[Copy]:
    """Restorable copies of the step on other replicas, then of the nearest older steps on the same one."""
    for name, other in inventory.copies[copy.step].items():
        if name != copy.replica and other.health is not None and other.health.restorable:
            yield other
    older = [step for step in reversed(inventory.steps) if step < copy.step][:8]
    for step in older:
        sibling = inventory.copies[step].get(copy.replica)
        if sibling is not None and sibling.health is not None and sibling.health.restorable:
            yield sibling


def _temporaries(replica: OpenReplica, inventory: Inventory, copy: Copy) -> Iterator[tuple[str, FileStat]]:
    assert replica.root is not None
    for temporary in inventory.temporaries:
        if temporary.replica == replica.name and temporary.step == copy.step:
            yield temporary.path, replica.root.stat(temporary.path)


def _siblings_spread(site: Site, inventory: Inventory, copy: Copy) -> int | None:
    sibling = next((other for other in _good_ones(inventory, copy) if other.replica == copy.replica), None)
    root = site.by_name(copy.replica).root
    if sibling is None or root is None:
        return None
    return fingerprint.spread(members_of(root, sibling)[0])
