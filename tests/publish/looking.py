"""What a test asks of a directory after a publication."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from prune.integrity.manifest import Manifest, parse

CONTROL = ".prune"


def names(root: Path) -> list[str]:
    """What people see in a root."""
    return sorted(name for name in os.listdir(root) if name != CONTROL)


def manifest(root: Path, name: str, end: str = ".json") -> Manifest:
    return parse((root / CONTROL / "manifests" / f"{name}{end}").read_bytes())


def manifests(root: Path) -> list[str]:
    return sorted(os.listdir(root / CONTROL / "manifests"))


def staged(root: Path) -> list[str]:
    folder = root / CONTROL / "staging"
    return sorted(os.listdir(folder)) if folder.exists() else []


def fits(root: Path, found: Manifest) -> bool:
    """Whether every file of the manifest is there, byte for byte."""
    for file in found.files:
        path = root / file.path
        if not path.is_file():
            return False
        data = path.read_bytes()
        if len(data) != file.size or hashlib.sha256(data).hexdigest() != file.sha256:
            return False
    return True


def one_manifest_fits(root: Path, name: str) -> bool:
    """Whether the installed manifest or the upcoming one fits: what a verifier accepts."""
    folder = root / CONTROL / "manifests"
    there = [end for end in (".json", ".json.next") if (folder / f"{name}{end}").exists()]
    return any(fits(root, manifest(root, name, end)) for end in there)
