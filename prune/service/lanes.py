"""Runs that share a mount go one after the other, others side by side: a mount that hangs stops only its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from prune.settings.roots import is_url
from prune.settings.schema import RunSettings


def lanes(runs: Iterable[RunSettings], mount_points: Sequence[str]) -> dict[str, tuple[RunSettings, ...]]:
    """Runs by the places their replicas lie on. Pure: no mount is touched to find out."""
    deepest_first = sorted(set(mount_points), key=len, reverse=True)
    found: dict[str, list[RunSettings]] = {}
    for run in runs:
        places = sorted({_place(replica.root, deepest_first) for replica in run.replicas})
        found.setdefault(" ".join(places), []).append(run)
    return {name: tuple(members) for name, members in sorted(found.items())}


def _place(root: str, deepest_first: Sequence[str]) -> str:
    if is_url(root):
        parts = urlsplit(root)
        return f"{parts.scheme}://{parts.netloc}"
    return next((point for point in deepest_first if root == point or root.startswith(point.rstrip("/") + "/")), "/")
