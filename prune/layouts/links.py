"""Symbolic links that lead to a step: pointers whatever they are called, in every stack."""

from __future__ import annotations

import posixpath

from prune.layouts.base import Claim, Entry, Kind, Layout, Part, RootView
from prune.model import Pointer, PointerState
from prune.stores.base import led_to

HOPS = 8  # links to links followed before giving up


def pointers(layout: Layout, view: RootView) -> list[Pointer]:
    """A pointer for every claimed link that names a step, present or gone."""
    found = (resolve(layout, view, claim.path) for claim in view.claims if is_link(claim))
    return [pointer for pointer in found if pointer is not None]


def steps_elsewhere(layout: Layout, view: RootView) -> list[Pointer]:
    """A pointer for every link that is named as a step and leads to another: what that one stands on must not go."""
    named = [claim for claim in view.claims if claim.part is Part.PAYLOAD and claim.kind is Kind.LINK]
    found = ((claim.step, resolve(layout, view, claim.path)) for claim in named)
    return [one for step, one in found if one is not None and one.state is PointerState.OK and one.step != step]


def is_link(claim: Claim) -> bool:
    return claim.part is Part.POINTER and claim.kind is Kind.LINK


def resolve(layout: Layout, view: RootView, path: str) -> Pointer | None:
    """Where one link of the root leads; None when to no step of this layout."""
    at = path
    for _ in range(HOPS):
        try:
            there = target(view, at)
        except OSError as error:
            return Pointer("", path, None, PointerState.UNREADABLE, f"cannot be read: {error.strerror or error}")
        claim = _claim_at(view, there)
        if claim is None:
            return _gone(layout, view, path, there)
        if claim.part is not Part.POINTER:
            return Pointer("", path, claim.step, PointerState.OK)
        if claim.kind is not Kind.LINK:
            return None
        at = claim.path
    return Pointer("", path, None, PointerState.UNREADABLE, "the link leads round in a circle")


def target(view: RootView, path: str) -> str:
    """The link's text as a path in the root; one that leads out of the root keeps its last name only."""
    there = led_to(view.reader, path)
    if there is not None:
        return there
    # A mirror may hold links made on the primary: the name still tells which step is meant.
    return view.at(posixpath.basename(posixpath.normpath(view.reader.readlink(path))))


def _claim_at(view: RootView, target: str) -> Claim | None:
    """The claim on a path, or on the step directory that it lies in."""
    while target:
        claim = view.by_path.get(target)
        if claim is not None:
            return claim
        target = posixpath.dirname(target)
    return None


def _gone(layout: Layout, view: RootView, path: str, target: str) -> Pointer | None:
    """A link to something that is no entry here: dangling if its name is a step's, else no pointer at all."""
    name = target[len(view.base) + 1 :] if view.base and target.startswith(view.base + "/") else target
    for kind in (Kind.FILE, Kind.DIR):
        claim = layout.claim(Entry(name, kind))
        if claim is not None and claim.part is Part.PAYLOAD:
            return Pointer("", path, claim.step, PointerState.DANGLING, f"names {name}, which is not there")
    return None
