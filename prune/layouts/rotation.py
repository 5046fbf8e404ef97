"""A stack's own rotation, where a file that is there tells how many checkpoints it keeps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from prune.layouts.base import RootView
from prune.stores.base import read_text

LONGEST = 1 << 20  # bytes of a configuration that is looked through for one number


@dataclass(frozen=True, slots=True)
class Rotation:
    """``keeps`` checkpoints stay (None: all), by this setting, as this file says."""

    keeps: int | None
    setting: str
    path: str


def in_plain_text(view: RootView, names: Iterable[str], setting: str, *, all_from: int = -1) -> Rotation | None:
    """What the first of these files says of a setting: beside the checkpoints, or in a folder above them in the root.

    YAML, TOML and JSON write ``setting: 3``, ``setting = 3`` and ``"setting": 3`` alike. Null, and numbers of at most
    ``all_from``, mean that all stay. None where no file tells.
    """
    name = rf"""(?:^|[\s{{,-])["']?{re.escape(setting)}["']?"""
    said = re.compile(rf"""(?m){name}\s*[:=]\s*["']?(-?\d{{1,9}}|null|None)\b""")
    for path in _places(view.base, names):
        try:
            found = said.search(read_text(view.reader, path, limit=LONGEST))
        except (OSError, ValueError):
            continue
        if found is not None:
            number = int(found[1]) if found[1].lstrip("-").isdigit() else None
            return Rotation(None if number is None or number <= all_from else number, setting, path)
    return None


def _places(base: str, names: Iterable[str]) -> Iterable[str]:
    folder: str | None = base
    while folder is not None:
        for name in names:
            yield f"{folder}/{name}" if folder else name
        folder = folder.rpartition("/")[0] if folder else None
