"""Sizes of the newest copies, which a quiet pass only lists: measured once each, and remembered by identity."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from prune.model import Copy, Identity
from prune.stores.local import LocalRoot

REMEMBERED = 20_000


class Sizes:
    """Apparent bytes of copies, the latest ones remembered."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, int, Identity], int] = OrderedDict()

    def of(self, root: str) -> Callable[[Copy], int | None]:
        """A function that measures copies below ``root``; None for what cannot be measured."""

        def measure(copy: Copy) -> int | None:
            key = (root, copy.step, copy.identity)
            with self._lock:
                if key in self._known:
                    self._known.move_to_end(key)
                    return self._known[key]
            size = _measured(root, copy)
            if size is not None:
                self._remember(key, size)
            return size

        return measure

    def _remember(self, key: tuple[str, int, Identity], size: int) -> None:
        with self._lock:
            self._known[key] = size
            while len(self._known) > self._remembered:
                self._known.popitem(last=False)


def _measured(root: str, copy: Copy) -> int | None:
    try:
        with LocalRoot(root) as opened:
            return sum(opened.measure(path).size for path in copy.paths)
    except OSError:
        return None
