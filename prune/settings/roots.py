"""What may be a root: no empty one, not the whole machine, and none equal to, inside or around another.

A root that is not there is no error here: a disk that is not mounted is a reason to delete nothing in its run, and
no reason to refuse all others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from prune.errors import UsageError
from prune.settings.schema import RunSettings

SCHEMES = ("s3", "gs", "az")


def is_url(root: str) -> bool:
    return "://" in root


def tidy(root: str, *, relative_to: str | None) -> str:
    """The root as an absolute path without superfluous parts, or as an object-store URL.

    ``relative_to`` is the directory that a relative one starts from; None refuses it. Raises ValueError with the
    rest of the sentence that says what is wrong.
    """
    if not root or root.isspace():
        raise ValueError("is empty")
    if "\0" in root:
        raise ValueError("holds a zero byte")
    if is_url(root):
        return _tidy_url(root)
    if not os.path.isabs(root):
        if relative_to is None:
            raise ValueError("is relative; in a file a root is a whole path, since nobody knows where a daemon starts")
        root = os.path.join(relative_to, root)
    # ".." after a symlink does not lead where the text says, so only the file system may resolve it.
    root = os.path.realpath(root) if ".." in root.split("/") else os.path.normpath(root)
    root = "/" + root.lstrip("/")  # POSIX lets a path keep two leading slashes
    if root == "/" or os.path.realpath(root) == "/":
        raise ValueError("is the whole file system")
    return root


def _tidy_url(root: str) -> str:
    scheme, _, rest = root.partition("://")
    if scheme == "file":
        return tidy(rest, relative_to=None)
    if scheme not in SCHEMES:
        raise ValueError(f"is in no known store; known are {', '.join(f'{known}://' for known in SCHEMES)}")
    parts = [part for part in rest.split("/") if part]
    if not parts:
        raise ValueError("names no bucket")
    if "@" in parts[0]:
        raise ValueError("holds credentials; give them by the environment's usual variables")
    return f"{scheme}://{'/'.join(parts)}"


@dataclass(slots=True)
class _Place:
    """One root and everything it lies in, by path and by what the file system says it is."""

    run: str
    replica: str
    root: str
    keys: list[object] = field(default_factory=list)  # of itself: its real path and its (device, inode)
    above: list[object] = field(default_factory=list)  # the same of every directory around it


def check_apart(runs: Iterable[RunSettings]) -> None:
    """Raises UsageError when a root is a file, or equal to, inside or around another root of any run."""
    places = [_place(run.name, replica.name, replica.root) for run in runs for replica in run.replicas]
    owner: dict[object, _Place] = {}
    for place in places:
        for key in place.keys:
            if key in owner and owner[key] is not place:
                raise _conflict(place, "is the same place as", owner[key])
            owner[key] = place
    for place in places:
        for key in place.above:
            if key in owner:
                raise _conflict(place, "lies inside", owner[key])


def _place(run: str, replica: str, root: str) -> _Place:
    if is_url(root):
        parts = root.split("/")
        above: list[object] = ["/".join(parts[:length]) for length in range(3, len(parts))]
        return _Place(run, replica, root, [root], above)
    head, name = os.path.split(root)
    real = os.path.join(_real(head), name)
    if os.path.islink(real):
        real = os.path.realpath(real)
    place = _Place(run, replica, root, [real])
    status = _status(real)
    if status is not None:
        if not stat.S_ISDIR(status.st_mode):
            raise UsageError(
                f"run {run!r}: the {replica} root {root} is a file, not a directory",
                mend="Name the directory that holds the checkpoints.",
            )
        place.keys.append((status.st_dev, status.st_ino))
    while (real := os.path.dirname(real)) != "/":
        place.above.append(real)
        if (around := _directory_id(real)) is not None:
            place.above.append(around)
    return place


def _status(path: str) -> os.stat_result | None:
    """Its status, or None where it is not there or cannot be asked: that is for the inventory to judge."""
    try:
        return os.stat(path)
    except OSError:
        return None


@lru_cache(maxsize=4096)
def _real(path: str) -> str:
    return os.path.realpath(path)


@lru_cache(maxsize=4096)
def _directory_id(path: str) -> tuple[int, int] | None:
    status = _status(path)
    return (status.st_dev, status.st_ino) if status else None


def forget_places() -> None:
    """Drops what was remembered of directories: a daemon calls it before it reads its settings again."""
    _real.cache_clear()
    _directory_id.cache_clear()


def _conflict(one: _Place, how: str, other: _Place) -> UsageError:
    def called(place: _Place) -> str:
        return f"{place.root} (run {place.run!r}, {place.replica})"

    return UsageError(
        f"the root {called(one)} {how} the root {called(other)}",
        mend="Every replica of every run needs a directory of its own; two runs may share a disk, never a root.",
    )
