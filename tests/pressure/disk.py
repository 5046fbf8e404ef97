"""A volume whose figures follow from what really lies in the test's directories."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prune.pressure.relief import Means
from prune.stores.base import Space

MIB = 1 << 20


@dataclass
class Disk:
    """``capacity`` bytes, of which the files below ``roots`` and ``foreign`` bytes of others are used."""

    capacity: int
    roots: tuple[Path, ...]
    foreign: int = 0
    pinned: int = 0  # bytes that were freed and do not come back
    late_looks: int = 0  # so many looks after a deletion still show the old figure
    on_look: Callable[[Disk], None] = lambda _disk: None
    looks: int = 0
    slept: float = 0.0
    _shown: int | None = None
    _owed: int = field(default=0)

    def space(self, _root: str = "") -> Space:
        self.looks += 1
        self.on_look(self)
        used = sum(used_below(root) for root in self.roots)
        free = self.capacity - used - self.foreign - self.pinned
        if self._shown is not None and free > self._shown and self.late_looks:
            self._owed += 1
            if self._owed <= self.late_looks:
                return Space(self._shown, self.capacity, None, None)
        self._owed = 0
        self._shown = free
        return Space(free, self.capacity, None, None)

    def sleep(self, seconds: float) -> None:
        self.slept += seconds

    def means(self, **more: Any) -> Means:
        """No real time passes between looks: half a second of waiting is five looks."""
        return Means(space_of=self.space, sleep=self.sleep, late_ns=more.pop("late_ns", 200_000_000), **more)


def used_below(root: Path) -> int:
    """Bytes of every file, in blocks of 64 KiB and what is over left out, so that sums are round; links count once."""
    seen: dict[tuple[int, int], int] = {}
    for folder, _folders, files in os.walk(root):
        for name in files:
            if name in ("record", "tombstones", "lock"):
                continue
            try:
                status = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue
            seen[status.st_dev, status.st_ino] = status.st_size >> 16 << 16
    return sum(seen.values())
