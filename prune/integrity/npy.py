"""NumPy's ``.npy``: a text header with type and shape, then that many bytes.

Format: numpy/numpy, ``numpy/lib/format.py`` (versions 1.0 to 3.0).
"""

from __future__ import annotations

import re

from prune.integrity.window import Damage, Window

MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 1 << 20
_DESCR = re.compile(r"'descr':\s*'([<>|=])([a-zA-Z])([0-9]{1,9})(?:\[\w+\])?'")
_SHAPE = re.compile(r"'shape':\s*\(([0-9, L]*)\)")


def looks_like(window: Window) -> bool:
    return window.head[: len(MAGIC)] == MAGIC


def check(window: Window) -> bool:
    """Whether the file has the bytes its header asks for; False for object arrays and records. Raises Damage."""
    if not looks_like(window):
        return False
    wide = window.head[6:7] != b"\x01"
    start = 12 if wide else 10
    length = int.from_bytes(window.exactly(0, start, "the npy header")[8:start], "little")
    if length > _LONGEST_HEADER:
        raise Damage(f"the npy header claims {length} bytes")
    header = window.exactly(start, length, "the npy header").decode("utf-8", "replace")
    item = _item_size(header)
    count = _count(header)
    if item is None or count is None:
        return False
    expected = start + length + item * count
    if window.size < expected:
        raise Damage(f"expected {expected} bytes by its npy header, found {window.size}: it was cut")
    return True


def _item_size(header: str) -> int | None:
    match = _DESCR.search(header)
    if match is None or match[2] == "O":
        return None
    return int(match[3]) * (4 if match[2] == "U" else 1)


def _count(header: str) -> int | None:
    match = _SHAPE.search(header)
    if match is None:
        return None
    count = 1
    for extent in re.findall("[0-9]+", match[1]):
        if len(extent) > 20 or count > 1 << 200:
            raise Damage("the npy header gives an impossible shape")
        count *= int(extent)
    return count
