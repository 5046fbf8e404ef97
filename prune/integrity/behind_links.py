"""What of a copy lies behind links: nobody looks there, so nobody may count on it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from prune.integrity.files import PAYLOAD, extension, plain
from prune.layouts.base import Members
from prune.model import Health, Kind, Verdict
from prune.stores.base import Reader


def behind_links(members: Members, reader: Reader) -> Iterator[Verdict]:
    """Unknown, for each entry that carries the checkpoint and is no plain file, or a link to none of this copy.

    A link is never followed out of its copy: what it leads to may be gone, on a disk that is not mounted, or a step
    that is itself to be deleted. A copy that counted as one that restores for such a link would push out one that does.
    """
    files = plain(members)
    has_bytes = any(stat.size for stat in files.values())
    for path, stat in members.files.items():
        carries = path in members.paths or extension(path) in PAYLOAD or not has_bytes
        if stat.kind is Kind.LINK and carries and _target(path, reader) not in files:
            yield Verdict(Health.UNKNOWN, f"{path} is a symlink: what it leads to is not looked at")
        elif stat.kind is Kind.OTHER and carries:
            yield Verdict(Health.UNKNOWN, f"{path} is no plain file: it is not opened")


def _target(path: str, reader: Reader) -> str | None:
    """Where a link leads, as a path in the root by its words alone; None where that cannot be read."""
    try:
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), reader.readlink(path)))
    except OSError:
        return None
