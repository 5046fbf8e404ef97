"""Steps whose files are links into another step: what they lead to must stay while they do."""

from __future__ import annotations

import os
from dataclasses import replace

from prune.layouts.base import Members
from prune.model import Inventory, Kind
from prune.stores.local import LocalRoot

Place = tuple[int, int]  # device and inode: the same by whatever path, link or mount one comes to it


def leans_on(root: LocalRoot, members: Members) -> frozenset[Place]:
    """All that links inside a copy lead to, with every folder above it. What cannot be reached is left out."""
    found: set[Place] = set()
    for path, status in members.files.items():
        if status.kind is Kind.LINK:
            found |= _upwards(os.path.realpath(os.path.join(root.real, path)))
    return frozenset(found)


def _upwards(path: str) -> set[Place]:
    found: set[Place] = set()
    while True:
        try:
            status = os.stat(path)
        except OSError:
            return found
        found.add((status.st_dev, status.st_ino))
        above = os.path.dirname(path)
        if above == path:
            return found
        path = above


def with_leaning(inventory: Inventory) -> Inventory:
    """The inventory in which a step that another one's links lead into, on any replica, is referenced by it."""
    leaning = [copy for held in inventory.copies.values() for copy in held.values() if copy.leans_on]
    if not leaning:
        return inventory
    referenced = dict(inventory.referenced)
    for step, held in inventory.copies.items():
        places = {(copy.identity.dev, copy.identity.ino) for copy in held.values() if copy.identity.ino}
        for copy in leaning:
            if copy.step != step and not places.isdisjoint(copy.leans_on):
                referenced.setdefault(step, f"files of step {copy.step} on {copy.replica} are links into it")
    return replace(inventory, referenced=referenced)
