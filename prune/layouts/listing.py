"""One root read by one layout: every entry claimed or counted as foreign, in one pass and bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from prune.layouts import links
from prune.layouts.base import Claim, Entry, Kind, Layout, Part, Reader, RootView
from prune.model import Pointer

CONTROL = ".prune"  # ours, neither a step nor foreign


@dataclass(frozen=True)
class Listing:
    """What a root holds, and how many of its entries belong to no step."""

    view: RootView
    foreign: int


def read_root(layout: Layout, reader: Reader, base: str = "", *, now_ns: int, fresh_ns: int) -> Listing:
    """Lists a root, claims its entries, settles and renumbers the claims.

    ``now_ns`` and ``fresh_ns`` tell what is fresh. Names that no layout claims are counted, never held.
    Raises OSError if any of it cannot be listed.
    """
    claims: list[Claim] = []
    foreign = links_seen = 0
    for entry, claim in _claimed(layout, reader, base):
        links_seen += entry.kind is Kind.LINK
        if claim is None:
            foreign += 1
        else:
            claims.append(claim)
    settled = layout.settle(claims)
    foreign += len(claims) - len(settled)
    view = RootView(reader, base, settled, now_ns, fresh_ns)
    view = replace(view, claims=layout.renumber(settled, view))
    foreign += len(settled) - len(view.claims)
    if links_seen:
        found = list(_links_to_steps(layout, view))
        foreign -= len(found)
        view = replace(view, claims=[*view.claims, *found])
    return Listing(view, foreign)


def every_pointer(layout: Layout, view: RootView) -> list[Pointer]:
    """The stack's own pointers and all links that lead to a step, each path once.

    A link that is itself named as a step leads to another one just so.
    """
    found = {pointer.path: pointer for pointer in (*links.pointers(layout, view), *links.steps_elsewhere(layout, view))}
    found.update((pointer.path, pointer) for pointer in layout.pointers(view))
    return [found[path] for path in sorted(found)]


def _claimed(layout: Layout, reader: Reader, base: str) -> Iterator[tuple[Entry, Claim | None]]:
    """Every entry of the base, and of the containers in it, with its claim; containers themselves are passed over."""
    waiting = [""]
    while waiting:
        for entry in reader.scan(join(base, waiting.pop())):
            if entry.name == CONTROL:
                continue
            claim = layout.claim(Entry(relative(base, entry.path), entry.kind) if base else entry)
            if claim is not None and claim.part is Part.CONTAINER:
                waiting.append(claim.path)
                continue
            yield entry, replace(claim, path=entry.path) if claim and base else claim


def _links_to_steps(layout: Layout, view: RootView) -> Iterator[Claim]:
    """Links that no layout knows by name but that lead to a step: their targets must not go. Listed a second time
    rather than held, since a root may hold a million links of other kinds."""
    known = set(view.by_path)
    for entry in view.reader.scan(view.base):
        if entry.kind is not Kind.LINK or entry.path in known or entry.name == CONTROL:
            continue
        if links.resolve(layout, view, entry.path) is not None:
            yield Claim(entry.path, Kind.LINK, Part.POINTER)


def join(base: str, name: str) -> str:
    """Path of ``name`` in ``base``; either may be the root itself, ``""``."""
    return f"{base}/{name}" if base and name else base or name


def relative(base: str, path: str) -> str:
    """``path`` as seen from ``base``."""
    return path[len(base) + 1 :] if base else path
