"""Text files by which hand-written loops name their newest checkpoint: ``latest``, ``last_checkpoint.txt``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from prune.layouts import links, trackers
from prune.layouts.base import Claim, Entry, Kind, Layout, Part, RootView
from prune.model import Pointer

_STEMS = ("latest", "last", "LATEST", "latest_checkpoint", "last_checkpoint", "latest_step", "last_step")
NAMES = frozenset(stem + ending for stem in _STEMS for ending in ("", ".txt")) | {"latest_checkpointed_iteration.txt"}
_ENDS_IN_NUMBER = re.compile(rf"[^0-9]*?(?P<step>{trackers.DIGITS})")


def claim(entry: Entry) -> Claim | None:
    """A pointer, if it is a file or a link; a directory of such a name is foreign."""
    return Claim(entry.path, entry.kind, Part.POINTER) if entry.kind in (Kind.FILE, Kind.LINK) else None


def pointers(layout: Layout, view: RootView, known: Iterable[str] = NAMES) -> list[Pointer]:
    """The links of a root that lead to a step, and its text pointers."""
    texts = (trackers.tracker(view, name, lambda text: _named(layout, view, text)) for name in sorted(known))
    return [*links.pointers(layout, view), *(pointer for pointer in texts if pointer is not None)]


def _named(layout: Layout, view: RootView, text: str) -> trackers.Named:
    """What the text names: an entry, a path to one, or a bare step number. Raises ValueError for none of these."""
    name = text.rstrip("/").rpartition("/")[2]
    for kind in (Kind.FILE, Kind.DIR):
        found = layout.claim(Entry(name, kind))
        if found is not None and found.part is Part.PAYLOAD:
            return trackers.Named(found.step, view.at(name))
    number = _ENDS_IN_NUMBER.fullmatch(name)
    if number is None:
        raise ValueError(f"names no step: {text[:80]!a}")
    return trackers.Named(int(number["step"]), view.at(name))
