"""Pointers on a mirror: they follow the primary's, after the checkpoints they name and only to ones that are there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from prune.inventory.copies import listed_copy
from prune.inventory.site import OpenReplica, Site
from prune.layouts.base import Claim, Part
from prune.mirror import place as places
from prune.mirror.order import Order
from prune.model import FailedCopy, Inventory, Kind, Pointer, PointerState
from prune.stores.local import LocalRoot
from prune.stores.pace import measure_copy

_LONGEST = 64 << 20  # bytes of a pointer; what is longer is no pointer
NO_STEP = -1
Sums = tuple[int, int, int | None]  # files, bytes, newest mtime


@dataclass(frozen=True, slots=True)
class Follow:
    """One small pointer that a mirror lacks or has an older one of: a file's bytes, or a link's text."""

    path: str
    data: bytes | None
    text: str | None


def lagging(site: Site, target: OpenReplica, inventory: Inventory) -> bool:
    """Whether any pointer of the primary should be copied to this mirror."""
    small = _small(site, site.primary, target, inventory)
    return any(True for _ in small) or bool(stand_ins(site, target, inventory))


def stand_ins(site: Site, target: OpenReplica, inventory: Inventory) -> list[Order]:
    """Orders for full copies under a pointer's name (``last.ckpt``) that the mirror lacks or has an older one of."""
    found = []
    for pointer, claim in _of(site.primary, inventory):
        assert site.layout is not None
        assert target.root is not None
        if claim.kind not in (Kind.FILE, Kind.DIR) or not site.layout.stands_in(pointer.path):
            continue
        step = pointer.step if pointer.step is not None else NO_STEP
        copy = listed_copy(site.primary, site.layout, step, [claim])
        if copy is None or site.primary.root is None:
            continue
        with contextlib.suppress(OSError):  # gone since it was listed
            measure, first = measure_copy(site.primary.root, copy.paths)
            mine = (measure.files, measure.size, measure.mtime_ns)
            if not _is_as_new(target, _measure(target.root, pointer.path), mine):
                found.append(Order(step, replace(copy, identity=measure.identity(first), measured=True,
                                                 size=measure.size, files=measure.files),
                                   target.name, pointer=True))  # fmt: skip
    return found


def _is_as_new(target: OpenReplica, there: Sums | None, wanted: Sums) -> bool:
    """Whether the copy that is there is this one; an object has the time at which it was uploaded."""
    if there is None or not target.in_store:
        return there == wanted
    return there[:2] == wanted[:2] and (there[2] or 0) >= (wanted[2] or 0)


def _measure(root: LocalRoot, path: str) -> Sums | None:
    try:
        measure, _ = measure_copy(root, [path])
    except OSError:
        return None
    return measure.files, measure.size, measure.mtime_ns


def follow(
    site: Site, target: OpenReplica, inventory: Inventory, *, hidden: bool
) -> tuple[list[str], list[FailedCopy]]:
    """Copies the small ones, each in one rename; returns the paths that were, and what failed. The locks are held."""
    done: list[str] = []
    failed: list[FailedCopy] = []
    assert target.root is not None
    for pointer in _small(site, site.primary, target, inventory):
        try:
            _put(site.primary, target, pointer, hidden=hidden)
            done.append(pointer.path)
        except OSError as error:
            failed.append(FailedCopy(NO_STEP, target.name, f"{pointer.path}: {error.strerror}"))
    return done, failed


def bring_back(site: Site, mirror: OpenReplica, step: int, inventory: Inventory, *, hidden: bool) -> list[str]:
    """Pointers that the primary lost altogether and that name a step just restored there. The locks are held.

    One that is there is its trainer's own business. Raises OSError.
    """
    assert site.primary.root is not None
    done = []
    for pointer in _small(site, mirror, site.primary, inventory, step):
        if not site.primary.root.exists(pointer.path):
            _put(mirror, site.primary, pointer, hidden=hidden)
            done.append(pointer.path)
    return done


def _of(leader: OpenReplica, inventory: Inventory) -> Iterator[tuple[Pointer, Claim]]:
    view = leader.listing.view if leader.listing is not None else None
    for pointer in inventory.pointers:
        claim = view.by_path.get(pointer.path) if view is not None else None
        names_only = claim is not None and claim.part is Part.POINTER  # and is no step that is a link to another
        if pointer.replica == leader.name and pointer.state is PointerState.OK and claim is not None and names_only:
            yield pointer, claim


def _small(
    site: Site, leader: OpenReplica, target: OpenReplica, inventory: Inventory, step: int | None = None
) -> Iterator[Follow]:
    """The leader's small pointers, or those that name one step, that the target lacks or has otherwise."""
    assert target.root is not None
    for pointer, claim in _of(leader, inventory):
        assert site.layout is not None
        if claim.kind is Kind.FILE and site.layout.stands_in(pointer.path):
            continue
        if claim.kind is Kind.LINK and target.in_store:
            continue  # a store has no links
        if pointer.step != step if step is not None else not _names_what_is_there(site, target, inventory, pointer):
            continue
        try:
            wanted = _read(leader.root, pointer.path, claim.kind)
        except OSError:
            continue  # gone or being rewritten: the next run copies it
        try:
            there = _read(target.root, pointer.path, target.root.stat(pointer.path).kind)
        except OSError:
            there = None
        if wanted is not None and wanted != there:
            yield wanted


def _names_what_is_there(site: Site, target: OpenReplica, inventory: Inventory, pointer: Pointer) -> bool:
    """Whether the mirror holds what the pointer names; of one that names several, all that the stack needs."""
    assert site.layout is not None
    if pointer.step is not None:
        copy = inventory.copies.get(pointer.step, {}).get(target.name)
        return copy is not None and (copy.health is None or copy.health.restorable)
    view = site.primary.listing.view if site.primary.listing is not None else None
    needed = site.layout.referenced(view) if view is not None else {}
    return bool(needed) and all(target.name in inventory.copies.get(step, {}) for step in needed)


def _read(root: LocalRoot | None, path: str, kind: Kind) -> Follow | None:
    """A pointer's content; None for what is none. Raises OSError."""
    assert root is not None
    if kind is Kind.LINK:
        return Follow(path, None, _within(root, path, root.readlink(path)))
    if kind is not Kind.FILE or root.stat(path).size > _LONGEST:
        return None
    with root.open(path) as file:
        return Follow(path, file.read(), None)


def _within(root: LocalRoot, path: str, text: str) -> str:
    """A link's text such that it holds on the other replica too: one into its own root becomes relative."""
    for prefix in (root.root, root.real):
        if text.startswith(prefix.rstrip("/") + "/"):
            inside = text[len(prefix.rstrip("/")) + 1 :]
            return os.path.relpath(inside, os.path.dirname(path) or ".")
    return text


def _put(leader: OpenReplica, target: OpenReplica, pointer: Follow, *, hidden: bool) -> None:
    assert leader.root is not None
    assert target.root is not None
    assert target.control is not None
    if target.in_store:
        target.root.write_atomic(pointer.path, pointer.data or b"")
        return
    kind = Kind.LINK if pointer.text is not None else Kind.FILE
    place = places.place_of(pointer.path, Kind.FILE, target, token="pointers", number=0, hidden=hidden)
    if place.holder is not target.root:
        places.ensure(target.control, "staging/pointers")
    places.make_directories(target.root, pointer.path.rpartition("/")[0])
    with contextlib.suppress(FileNotFoundError):
        place.holder.unlink(place.at)
    if kind is Kind.LINK:
        places.remake_link(place.holder, place.at, pointer.text or "")
    else:
        with place.holder.create(place.at) as file:
            file.write(pointer.data or b"")
            file.flush()
            os.fsync(file.fileno())
        places.dress(place.holder, place.at, places.status(leader.root, pointer.path))
    place.holder.rename(place.at, pointer.path, into=target.root)
    target.root.fsync(pointer.path.rpartition("/")[0])
