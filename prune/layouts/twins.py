"""Which step a copy under a fixed name was made of: ``checkpoint_last.pt`` holds the bytes of a numbered file."""

from __future__ import annotations

from prune.layouts.base import RootView
from prune.stores.base import Reader

_TAIL = 1 << 16  # a ZIP's directory lies in it, with the CRC-32 of every member; an old pickle's last tensor does


def step_of(view: RootView, path: str) -> int | None:
    """The newest step that has a file of the same length and the same last bytes; None when none has.

    Raises OSError when the copy itself cannot be read.
    """
    size = view.reader.stat(path).size
    tail = _tail(view.reader, path)
    for step in sorted(view.steps, reverse=True):
        for claim in view.steps[step]:
            try:
                if view.reader.stat(claim.path).size == size and _tail(view.reader, claim.path) == tail:
                    return step
            except OSError:
                continue  # not known to be the twin
    return None


def _tail(reader: Reader, path: str) -> bytes:
    with reader.open(path) as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL))
        return file.read(_TAIL)
