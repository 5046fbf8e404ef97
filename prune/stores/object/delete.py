"""What goes from an object store: looked at once more, then what tells completeness, then the rest in bulk.

Nothing can be renamed out of sight here, so a copy is noted as withdrawn (see :mod:`prune.stores.object.control`),
its keys and ETags are listed anew and noted too, and exactly those are deleted. An object under another ETag by then
is somebody's new one and stays.
"""

from __future__ import annotations

import errno
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from prune.control.lock import LEASE_NS
from prune.control.record import THINNED, Withdrawal
from prune.model import Identity
from prune.stores.object.client import Object, quoted
from prune.stores.object.control import ObjectControl
from prune.stores.object.lock import uptime_ns
from prune.stores.object.look import THREADS, Found, found_now, measured, paths_of, same
from prune.stores.object.root import ObjectRoot
from prune.stores.object.troubles import Changed

ONE_BY_ONE = 128  # first deletions of no more objects are each under the condition of its ETag, where the store can
_SMALL = 64 << 10  # bytes: what tells completeness is small
_TELLING = (".json", ".index", ".metadata", ".txt", ".yaml", ".yml")
_TRIES = 4
_CONDITIONAL = frozenset({"s3", "az"})


@dataclass(frozen=True, slots=True)
class Gone:
    """How one withdrawal ended: how many objects went, and what stood in the way of the others."""

    files: int = 0
    error: str | None = None


class Awake:
    """Called ahead of each request that deletes: raises OSError when so much time has passed since the last that the
    lock may be another's by now. Whoever slept, or was stopped, deletes nothing more."""

    def __init__(self) -> None:
        self._last_ns = uptime_ns()

    def __call__(self) -> None:
        now = uptime_ns()
        passed, self._last_ns = now - self._last_ns, now
        if passed > LEASE_NS // 2:
            raise OSError(errno.ETIMEDOUT, f"stood still for {passed // 10**9} seconds; nothing more is deleted")


# --- deleting ----------------------------------------------------------------------------------------------------


def purge(root: ObjectRoot, control: ObjectControl, withdrawals: Sequence[Withdrawal]) -> dict[str, Gone]:
    """Deletes what was noted of each withdrawal, and the manifests that spoke of it. Never raises."""
    try:
        doomed = {each.id: _doomed(root, control, each) for each in withdrawals}
    except OSError as error:
        return {each.id: Gone(error=_said(error)) for each in withdrawals}
    changed, trouble = _delete_in_order(root, withdrawals, doomed)
    left = _left(root, doomed) if trouble else {}
    results = {}
    for id, found in doomed.items():
        if id in changed:
            results[id] = Gone(error=changed[id])
        else:
            remaining = left.get(id, 0)
            results[id] = Gone(len(found) - remaining, f"{remaining} objects remain: {trouble}" if remaining else None)
    _forget_manifests(control, [each for each in withdrawals if each.why != THINNED and not results[each.id].error])
    if trouble or changed:
        root.refresh()
    else:
        root.forget(path for each in withdrawals for path in paths_of(each))
    return results


def _doomed(root: ObjectRoot, control: ObjectControl, withdrawal: Withdrawal) -> Found:
    """The objects that may be deleted: those noted, as far as they are still the same.

    Where none were noted (the pass died before, or the copy waited for its time), what stands there must be exactly
    what was planned; else somebody has put another copy there, and nothing of this one is left.
    """
    fresh = control.looked_at(withdrawal.id)
    if fresh is not None:
        return fresh
    noted = control.keys_noted(withdrawal.id)
    found = found_now(root, [paths_of(withdrawal)])[0]
    if noted is None:
        return found if _fits(root, withdrawal, found) else {}
    return {path: each for path, each in found.items() if each.etag == noted.get(path)}


def _fits(root: ObjectRoot, withdrawal: Withdrawal, found: Found) -> bool:
    now = measured(root, withdrawal, found)
    return not isinstance(now, OSError) and same(now[0], withdrawal.identity)


def _delete_in_order(
    root: ObjectRoot, going: Sequence[Withdrawal], doomed: Mapping[str, Found]
) -> tuple[dict[str, str], str | None]:
    """What tells completeness of every copy, then the rest, then what tells that it is not complete.

    Returns what was written again in between, by id, with the sentence for it: nothing more of that is touched; and
    what stood in the way of all.
    """
    phases = {each.id: in_order(paths_of(each), doomed[each.id]) for each in going}
    first = [(id, found) for id, (begin, _, _) in phases.items() for found in begin]
    changed: dict[str, str] = {}
    awake = Awake()
    try:
        if root.address.scheme in _CONDITIONAL and len(first) <= ONE_BY_ONE:
            changed = _delete_if_same(root, first)
        else:
            root.bucket.delete([found.key for _, found in first], awake)
        for later in (1, 2):
            keys = [each.key for id, found in phases.items() if id not in changed for each in found[later]]
            root.bucket.delete(keys, awake)
    except OSError as error:
        return changed, _said(error)
    return changed, None


def in_order(tops: Sequence[str], found: Found) -> tuple[list[Object], list[Object], list[Object]]:
    """The objects of one copy as they are to go: what no loader does without, all others, what marks it as unfinished.

    ``tops`` are its top-most paths in withdrawing order. Uploading takes the same order backwards.
    """
    of_top = {top: [path for path in found if path == top or path.startswith(f"{top}/")] for top in tops}
    last = of_top[tops[-1]] if len(tops) > 1 else []
    begin = of_top[tops[0]]
    first = begin if begin == [tops[0]] else [path for path in begin if _tells(path, found)] or sorted(begin)[:1]
    taken = {*first, *last}
    rest = [path for path in found if path not in taken]
    return [found[p] for p in first], [found[p] for p in rest], [found[p] for p in last]


def _tells(path: str, found: Found) -> bool:
    name = path.rpartition("/")[2]
    return found[path].size <= _SMALL or name.startswith(".") or name.endswith(_TELLING)


def _delete_if_same(root: ObjectRoot, objects: Sequence[tuple[str, Object]]) -> dict[str, str]:
    """Deletes a few objects, each only while it is the one that was looked at; the others, by id. Raises OSError."""

    def one(item: tuple[str, Object]) -> tuple[str, str] | None:
        try:
            _delete_one(root, item[1])
        except Changed as error:
            return item[0], f"{error.filename} {error.strerror}; it stays"
        return None

    with ThreadPoolExecutor(min(THREADS, max(1, len(objects)))) as pool:
        return dict(changed for changed in pool.map(one, objects) if changed is not None)


def _delete_one(root: ObjectRoot, found: Object) -> None:
    """One conditional DELETE; a store that knows no such condition deletes what was looked at a moment ago."""
    import time

    url = root.bucket.signed("DELETE", found.key, 300)
    request = urllib.request.Request(
        url, method="DELETE", headers={"If-Match": quoted(found.etag)} if found.etag else {}
    )
    for attempt in range(1, _TRIES + 1):
        try:
            with urllib.request.urlopen(request, timeout=root.bucket.patience.timeout_s):
                return
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return
            if error.code in (409, 412):
                raise Changed(errno.ESTALE, "was written again since it was looked at", found.key) from None
            if error.code in (400, 403, 405, 501):
                root.bucket.delete([found.key])  # no signed URLs here: as all others go
                return
            if attempt == _TRIES:
                raise OSError(errno.EIO, f"HTTP {error.code}", found.key) from None
        except OSError as error:
            if attempt == _TRIES:
                raise OSError(errno.EIO, str(getattr(error, "reason", error)), found.key) from None
        time.sleep(root.bucket.patience.first_pause_s * 2**attempt)


def refuses_another(root: ObjectRoot, found: Object) -> bool:
    """Whether the store refuses to delete an object that is not the one looked at; where not, it is gone now.

    Raises OSError.
    """
    if root.address.scheme not in _CONDITIONAL:
        return False
    try:
        _delete_one(root, replace(found, etag="0" * 32))
    except Changed:
        return True
    return False


def _left(root: ObjectRoot, doomed: Mapping[str, Found]) -> dict[str, int]:
    """After trouble: how many objects of each withdrawal are still there; all of them where that cannot be told."""
    root.refresh()
    left = {}
    for id, found in doomed.items():
        try:
            there = found_now(root, [list(found)])[0] if found else {}
            left[id] = sum(1 for path, each in found.items() if path in there and there[path].etag == each.etag)
        except OSError:
            left[id] = len(found)
    return left


def _forget_manifests(control: ObjectControl, gone: Sequence[Withdrawal]) -> None:
    """A manifest goes with its checkpoint, unless a new one is on its way."""
    folder = control.keys_root
    names = {f"{path.rpartition('/')[2]}.json" for each in gone for path in paths_of(each)}
    try:
        there = {entry.name: entry.path for entry in folder.scan("manifests")}
        doomed = [there[name] for name in names if name in there and f"{name}.next" not in there]
        folder.bucket.delete([folder.address.key(path) for path in doomed])
    except OSError:
        return  # it speaks of nothing, and is overwritten by the next of that name
    folder.refresh()


def delete_orphan(root: ObjectRoot, path: str, planned: Identity) -> bool:
    """Deletes a temporary that is still exactly what was planned; whether it was. Raises OSError."""
    found = found_now(root, [[path]])[0]
    lone = Withdrawal("", "", -1, ((path, ""),), planned, 0, 0)
    if not _fits(root, lone, found):
        return False
    root.bucket.delete([each.key for each in found.values()])
    root.refresh()
    return True


def _said(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
