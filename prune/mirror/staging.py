"""Builds in ``staging/``: what they are called, and the end of those that nobody will go on with."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection

from prune.errors import PruneError
from prune.inventory.site import OpenReplica
from prune.mirror import place as places
from prune.mirror.order import Order
from prune.publish.claim import claim
from prune.publish.target import Target, opaque
from prune.stores.base import read_text
from prune.stores.local import LocalRoot

PREFIX = "copying"  # no publication's entry begins so
_LONGEST = 256 << 20  # bytes of a note: some million files


def token_of(order: Order) -> str:
    """What our entries in ``staging/`` are called for a copy: in letters only, as all names there."""
    return PREFIX + opaque(order.name)


def leftovers(target: OpenReplica) -> set[str]:
    """The tokens of builds in ``staging/``, at work or left behind. Raises OSError."""
    assert target.control is not None
    if target.in_store:
        return set()  # nothing is built aside there
    names = {entry.name.partition(".")[0] for entry in target.control.folder.scan("staging")}
    return {name for name in names if name.startswith(PREFIX)}


def sweep_staging(target: OpenReplica, *, wanted: Collection[str], older_than_ns: int) -> None:
    """Removes builds that nobody will go on with, once no process is at work on them: those whose copy is there by
    now or not wanted any more, and those untouched for long. Raises OSError."""
    assert target.control is not None
    assert target.root is not None
    folder = target.control.folder
    for token in leftovers(target):
        note = f"staging/{token}.json"
        if token in wanted and folder.exists(note) and folder.stat(note).mtime_ns > older_than_ns:
            continue
        with contextlib.suppress(PruneError), LocalRoot(os.path.join(target.control.path, "staging")) as staging:
            held = claim(Target(staging, token, target.root.real))
            try:
                clear(read_note(folder, note), target)
                for path in (f"staging/{token}", note):
                    places.remove_quietly(folder, path)
            finally:
                held.discard()
                held.close()


def clear(noted: object, target: OpenReplica) -> None:
    """Removes what an earlier build left beside final names, by its note."""
    assert target.root is not None
    beside = noted.get("beside") if isinstance(noted, dict) else None
    for at in beside if isinstance(beside, list) else ():
        if isinstance(at, str) and at.endswith(places.PART):
            places.remove_quietly(target.root, at)


def read_note(folder: LocalRoot, path: str) -> object:
    """What a build noted of itself; None where there is no note, or a torn one."""
    try:
        return json.loads(read_text(folder, path, limit=_LONGEST))
    except (OSError, ValueError):
        return None
