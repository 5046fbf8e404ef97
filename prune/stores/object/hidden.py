"""Copies that are noted as withdrawn, or as on their way: objects stand there, and are no copy any more, or not yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from prune.control.record import THINNED, Withdrawal
from prune.control.tombstones import Tombstone
from prune.model import Kind
from prune.stores.measure import Measure
from prune.stores.object.client import Object
from prune.stores.object.control import ObjectControl
from prune.stores.object.look import paths_of, same
from prune.stores.object.root import ObjectRoot
from prune.stores.object.tree import status_of


def hidden(
    root: ObjectRoot, control: ObjectControl, steps: Mapping[int, Collection[str]], *, since_ns: int
) -> set[int]:
    """Of steps with their top-most paths, those that are none. Raises OSError, ValueError.

    What began to arrive before ``since_ns`` and never came is shown as what it is.
    """
    on_their_way = {
        each.step
        for each in control.arriving()
        if each.since_ns >= since_ns and set(steps.get(each.step, ("",))) <= each.paths
    }
    return on_their_way | withdrawn(root, control, steps)


def withdrawn(root: ObjectRoot, control: ObjectControl, steps: Mapping[int, Collection[str]]) -> set[int]:
    """Of steps with their top-most paths, those that are withdrawn. One saved again since is not. Raises OSError."""
    found = set()
    for each in control.trashed():
        tops = steps.get(each.step)
        if (
            tops is not None
            and each.why == "pruned"
            and set(tops) <= set(paths_of(each))
            and _is_it(root, control, each)
        ):
            found.add(each.step)
    return found


def parts_withdrawn(root: ObjectRoot, control: ObjectControl, stone: Tombstone) -> bool:
    """Whether the parts of a step that a tombstone speaks of are withdrawn, unchanged since. Raises OSError."""
    return any(
        each.why == THINNED and each.step == stone.step and tuple(paths_of(each)) == stone.parts
        and _is_it(root, control, each)
        for each in control.trashed()
    )  # fmt: skip


def _is_it(root: ObjectRoot, control: ObjectControl, withdrawal: Withdrawal) -> bool:
    noted = control.keys_noted(withdrawal.id)
    if noted is not None:
        return _nothing_but(root, withdrawal, noted)
    total = Measure()
    for path in paths_of(withdrawal):
        if root.exists(path):
            for _, status in root.walk(path):
                if status.kind is Kind.FILE:
                    total.count(status)
    return same(total, withdrawal.identity)


def _nothing_but(root: ObjectRoot, withdrawal: Withdrawal, noted: Mapping[str, str]) -> bool:
    """Whether what is left there are objects that were noted, unchanged."""
    for top in paths_of(withdrawal):
        for entry, status in root.walk(top) if root.exists(top) else ():
            if status.kind is Kind.FILE:
                as_noted = Object(entry.path, status.size, 0, noted.get(entry.path, ""))
                if status.ino != status_of(entry.path, as_noted, root.dev).ino:
                    return False
    return True
