"""Runs that share a mount go one after the other, others side by side: a mount that hangs stops only its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from prune.settings.roots import is_url
from prune.settings.schema import RunSettings
from prune.stores.mounts import deepest_first, point_of


def lanes(runs: Iterable[RunSettings], mount_points: Sequence[str]) -> dict[str, tuple[RunSettings, ...]]:
    """Runs by the places their replicas lie on. Pure: no mount is touched to find out."""
    points = deepest_first(mount_points)
    found: dict[str, list[RunSettings]] = {}
    for run in runs:
        places = sorted({_place(replica.root, points) for replica in run.replicas})
        found.setdefault(" ".join(places), []).append(run)
    return {name: tuple(members) for name, members in sorted(found.items())}


def _place(root: str, points: Sequence[str]) -> str:
    if is_url(root):
        parts = urlsplit(root)
        return f"{parts.scheme}://{parts.netloc}"
    return point_of(root, points)
