"""Where the control folder of a root in an object store stands."""

from __future__ import annotations

from prune.control.place import Place, beside, inside
from prune.stores.object.root import ObjectRoot


def find_place(root: str, *, stand_beside: bool, override: str | None = None) -> Place:
    """As :func:`prune.control.place.find_place`, for a root in an object store."""
    wanted = override.rstrip("/") if override else beside(root) if stand_beside else inside(root)
    if stand_beside and not override and "/" not in root.partition("://")[2]:
        return Place(wanted, False, f'{root} is a whole bucket: set control = "…" to a prefix in another one')
    candidates = list(dict.fromkeys([wanted, inside(root), beside(root)]))
    if "/" not in root.partition("://")[2]:
        candidates.remove(beside(root))
    try:
        found = [place for place in candidates if _anything(place)]
    except OSError as error:
        return Place(wanted, False, f"{error.filename}: {error.strerror}")
    if len(found) > 1:
        return Place(found[0], True, f"two control folders: {found[0]} and {found[1]}; keep the one with the newer "
                     "volume.json and delete the other")  # fmt: skip
    return Place(found[0] if found else wanted, bool(found))


def _anything(place: str) -> bool:
    root = ObjectRoot(place)
    return any(page for page in root.bucket.pages(root.address.prefix))
