"""Where the control folder of a root stands: in it, beside it, or where the configuration says."""

from __future__ import annotations

import os
from dataclasses import dataclass

CONTROL_NAME = ".prune"


@dataclass(frozen=True, slots=True)
class Place:
    """An absolute path, whether a folder stands there, and what is wrong with it (None: nothing)."""

    path: str
    exists: bool
    trouble: str | None = None


def inside(root: str) -> str:
    return os.path.join(root, CONTROL_NAME)


def beside(root: str) -> str:
    head, name = os.path.split(root)
    return os.path.join(head, f".{name}{CONTROL_NAME}")


def find_place(root: str, *, stand_beside: bool, override: str | None = None) -> Place:
    """The place of a root's control folder. ``root`` is a real path.

    A folder found at one place is used, whatever the layout or configuration would prefer now; two are trouble.
    """
    if "://" in root:
        from prune.stores.object import place

        return place.find_place(root, stand_beside=stand_beside, override=override)
    wanted = os.path.abspath(override) if override else beside(root) if stand_beside else inside(root)
    candidates = list(dict.fromkeys([wanted, inside(root), beside(root)]))
    found = [path for path in candidates if os.path.lexists(path)]
    if len(_distinct(found)) > 1:
        return Place(found[0], True, f"two control folders: {found[0]} and {found[1]}; keep the one with the newer "
                     "volume.json and move the other away")  # fmt: skip
    path = found[0] if found else wanted
    return Place(path, bool(found), _trouble(path, root, bool(found)))


def _distinct(paths: list[str]) -> set[object]:
    """Places by device and inode: one folder seen by two names is one."""
    seen: set[object] = set()
    for path in paths:
        try:
            status = os.stat(path)
            seen.add((status.st_dev, status.st_ino))
        except OSError:
            seen.add(path)
    return seen


def _trouble(path: str, root: str, exists: bool) -> str | None:
    try:
        if exists and os.path.islink(path):
            return f"{path} is a symbolic link; it must be a directory on the root's own file system"
        if exists and not os.path.isdir(path):
            return f"{path} is not a directory; move it away"
        holder = path if exists else os.path.dirname(path)
        if os.stat(holder).st_dev != os.stat(root).st_dev:
            return f'{holder} is on another file system than {root}; set control = "…" to a place beside the root'
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None
