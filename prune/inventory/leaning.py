"""Steps whose files are links into another step: what they lead to must stay while they do."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from prune.layouts.base import Members
from prune.model import Copy, Inventory, Kind
from prune.stores.base import led_to
from prune.stores.local import LocalRoot


def leans_on(root: LocalRoot, members: Members) -> tuple[str, ...]:
    """Paths in the root, outside of the copy, that links inside the copy lead to. Raises nothing."""
    found: dict[str, None] = {}
    for path, status in members.files.items():
        if status.kind is Kind.LINK:
            with contextlib.suppress(OSError):
                target = led_to(root, path)
                if target is not None and not any(_lies_in(target, own) for own in members.paths):
                    found[target] = None
    return tuple(found)


def with_leaning(inventory: Inventory) -> Inventory:
    """The inventory in which a step that another one's links lead into is referenced by it."""
    leaning = [copy for held in inventory.copies.values() for copy in held.values() if copy.leans_on]
    referenced = dict(inventory.referenced)
    for copy in leaning:
        for step in _led_to(inventory, copy):
            referenced.setdefault(step, f"files of step {copy.step} on {copy.replica} are links into it")
    return replace(inventory, referenced=referenced) if leaning else inventory


def _led_to(inventory: Inventory, copy: Copy) -> list[int]:
    return [
        step
        for step, held in inventory.copies.items()
        if step != copy.step and (other := held.get(copy.replica)) is not None
        and any(_lies_in(target, path) for target in copy.leans_on for path in other.paths)
    ]  # fmt: skip


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
