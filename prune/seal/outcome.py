"""What sealing came to, copy by copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prune.integrity.manifest import Manifest
from prune.model import Block, Copy, Health


@dataclass(frozen=True, slots=True)
class Sealed:
    """A copy that got its manifest, or its sidecar, or both."""

    step: int
    replica: str
    paths: tuple[str, ...]
    files: int
    bytes: int
    manifest: bool = True
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A copy that gets none, and why. ``damage`` where it is not what it should be."""

    step: int
    replica: str
    path: str
    health: Health | None
    detail: str
    damage: bool = False

    @classmethod
    def of(cls, copy: Copy, detail: str, *, damage: bool = False) -> Refused:
        return cls(copy.step, copy.replica, copy.paths[0], copy.health, detail, damage)


@dataclass(frozen=True, slots=True)
class Sealing:
    """What sealing one run came to. ``already`` counts copies whose manifest holds."""

    run: str
    sealed: tuple[Sealed, ...] = ()
    already: int = 0
    refused: tuple[Refused, ...] = ()
    failed: tuple[Refused, ...] = ()
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Ready:
    """A copy with what its manifests will say, by the name of its top-most entry."""

    copy: Copy
    manifests: Mapping[str, Manifest]
    new: bool  # whether the manifests are to be written; else only the sidecars
