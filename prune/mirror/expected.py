"""The hashes recorded for a source: copying compares with them, so that a sealed copy is read only once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prune.checking import manifests_for
from prune.integrity.content import carries_weight, sidecars_of
from prune.integrity.files import sizes
from prune.integrity.manifest import fits
from prune.inventory.site import OpenReplica
from prune.layouts.base import Members
from prune.model import Copy


@dataclass(frozen=True, slots=True)
class Recorded:
    """SHA-256 by path, of files not written since. ``complete`` where every file that carries weight has one."""

    hashes: Mapping[str, str] = field(default_factory=dict)
    complete: bool = False


def recorded_for(replica: OpenReplica, copy: Copy, members: Members) -> Recorded:
    """What the manifest in force, and then the sidecars, say of a copy's files.

    A manifest that was about to be replaced by another says nothing here: which of the two holds, a check decides.
    """
    assert replica.root is not None
    manifests, _ = manifests_for(replica, copy, members)
    hashes: dict[str, str] = {}
    if len(manifests) == 1 and fits(manifests[0], sizes(members)):
        created = manifests[0].created_at_ns
        hashes = {f.path: f.sha256 for f in manifests[0].files if _written_before(members, f.path, created)}
    for path, expected in sidecars_of(members, replica.root).items():
        if path not in hashes and _written_before(members, path, expected.written_ns):
            hashes[path] = expected.sha256
    weighty = [path for path, stat in members.files.items() if carries_weight(path, stat)]
    return Recorded(hashes, bool(weighty) and all(path in hashes for path in weighty))


def _written_before(members: Members, path: str, time_ns: int) -> bool:
    stat = members.files.get(path)
    return stat is not None and 0 < stat.mtime_ns <= time_ns
