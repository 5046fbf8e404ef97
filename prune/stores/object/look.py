"""What stands under the names of copies in an object store now, by as few listings as there can be."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from prune.control.record import Withdrawal
from prune.model import Identity
from prune.stores.measure import Measure
from prune.stores.object.client import PAGE, Object
from prune.stores.object.control import ObjectControl
from prune.stores.object.root import ObjectRoot
from prune.stores.object.tree import status_of
from prune.stores.pace import Measured

THREADS = 32

Found = dict[str, Object]  # by path below the root


def look(root: ObjectRoot, control: ObjectControl, withdrawals: Sequence[Withdrawal]) -> list[Measured]:
    """What stands under the names of each withdrawal now, its keys and ETags noted for the deletion to come."""
    results: list[Measured] = []
    try:
        all_found = found_now(root, [paths_of(withdrawal) for withdrawal in withdrawals])
    except OSError as error:
        return [error] * len(withdrawals)
    for withdrawal, found in zip(withdrawals, all_found, strict=True):
        results.append(measured(root, withdrawal, found))
        control.note_keys(withdrawal.id, found)
    return results


def measured(root: ObjectRoot, withdrawal: Withdrawal, found: Found) -> Measured:
    """Sums over the objects of a copy, as looking at them on a file system gives."""
    total, first = Measure(), None
    for path, each in found.items():
        status = status_of(path, each, root.dev)
        first = first or status
        total.count(status)
    if first is None:
        return FileNotFoundError(errno.ENOENT, "nothing is there any more", withdrawal.moves[0][0])
    return total, first


def found_now(root: ObjectRoot, copies: Sequence[Sequence[str]]) -> list[Found]:
    """The objects of each copy by path, listed now. Raises OSError when any cannot be listed completely."""
    parents: dict[str, list[str]] = {}
    for path in dict.fromkeys(path for paths in copies for path in paths):
        parents.setdefault(path.rpartition("/")[0], []).append(path)
    inside: dict[str, Found] = {}
    for parent, tops in parents.items():
        inside |= _in_one_go(root, parent, tops) if _is_cheaper(root, parent, tops) else _one_by_one(root, tops)
    return [{path: each for top in paths for path, each in inside[top].items()} for paths in copies]


def _is_cheaper(root: ObjectRoot, parent: str, tops: Sequence[str]) -> bool:
    """Whether listing all that stands between the first and the last takes fewer requests than asking for each."""
    folders = {top: root.tree.folder(top) for top in tops}
    each = sum(1 if folder is None else 2 + folder.count // PAGE for folder in folders.values())
    around = root.tree.folder(parent)
    return around is not None and 2 + around.count // PAGE < each


def _one_by_one(root: ObjectRoot, tops: Sequence[str]) -> dict[str, Found]:
    with ThreadPoolExecutor(THREADS) as pool:
        return dict(zip(tops, pool.map(lambda top: _asked(root, top), tops), strict=True))


def _asked(root: ObjectRoot, top: str) -> Found:
    folder = root.tree.folder(top)
    if folder is not None:
        return dict(root.objects(top))
    try:
        return {top: root.object(top)}
    except FileNotFoundError:
        return {}


def _in_one_go(root: ObjectRoot, parent: str, tops: Sequence[str]) -> dict[str, Found]:
    """By one listing of what lies around them, from the first to the last."""
    found: dict[str, Found] = {top: {} for top in tops}
    depth = parent.count("/") + 1 if parent else 0
    # A folder's keys come after those of a name that goes on with what sorts before "/": "step-1-old/", "step-1/".
    end, in_order, before = f"{max(f'{top}/' for top in tops)}{chr(0x10FFFF)}", True, ""
    for path, each in root.objects(parent, after=min(tops)[:-1]):
        in_order, before = in_order and path >= before, path
        top = "/".join(path.split("/")[: depth + 1])
        if top in found:
            found[top][path] = each
        elif in_order and path > end:
            break
    return found


def paths_of(withdrawal: Withdrawal) -> list[str]:
    return [path for path, _ in withdrawal.moves]


def same(found: Measure, planned: Identity) -> bool:
    """Whether exactly these objects, by number, size, time and ETags, were planned."""
    there = (found.files, found.size, found.mtime_ns, found.ctime_ns ^ found.tag)
    return there == (planned.files, planned.size, planned.mtime_ns, planned.ctime_ns)
