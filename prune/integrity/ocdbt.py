"""Data files of OCDBT (``d/<32 hex digits>``), which have no end mark: nodes and values, one after the other.

Nodes tell their length and end with a CRC-32C (google/tensorstore, ``tensorstore/kvstore/ocdbt/format``). Values are
what the array's codec made of its chunks; Zstandard frames (RFC 8878), Orbax's default, tell where they end. Whatever
else stands there is passed over in silence, and all behind it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Protocol

from prune.integrity import crc32c
from prune.integrity.window import Damage, Window

NODE = b"\x0c\xdb\x20\xde"
MANIFEST = b"\x0c\xdb\x3a\x2a"
PATH = re.compile(r"(?:.*/)?d/[0-9a-f]{32}")
_FRAME = b"\x28\xb5\x2f\xfd"
_LONGEST_NODE = 64 << 20
_LONGEST_BLOCK = 128 << 10
_MOST_BLOCKS = 4  # followed in a cheap look: half a megabyte of values
_SLICE = 1 << 20
_RUN, _RESERVED = 1, 3  # kinds of blocks: a run of one byte is written once
_FIELDS = (0, 1, 2, 4)  # bytes of the dictionary's number by its two bits
_SIZES = (0, 2, 4, 8)  # bytes of the content's size by its two bits


class Read(Protocol):
    """Up to so many bytes from an offset, as a window reads them."""

    def __call__(self, offset: int, length: int, /) -> bytes: ...


def check(window: Window) -> bool:
    """Whether all of a file was followed to its very end, looking at its beginning and at what stands between values.

    False where it is not followed that far. Raises Damage where what begins does not end in it.
    """
    return _follow(window, window.read, _MOST_BLOCKS)


def check_sums(window: Window, tick: Callable[[int], None]) -> bool:
    """False, for values have no checksums: all is read, and nodes held to theirs. Raises Damage as ``check`` does."""
    _follow(window, _Slices(window, tick), sys.maxsize, sums=True)
    return False


class _Slices:
    """Reads a window once from beginning to end, a slice at a time, for one who asks for little pieces in order."""

    def __init__(self, window: Window, tick: Callable[[int], None]) -> None:
        self.window, self.tick = window, tick
        self.start, self.data = 0, b""

    def __call__(self, offset: int, length: int, /) -> bytes:
        if not self.start <= offset <= offset + length <= self.start + len(self.data):
            self.start, self.data = offset, self.window.read(offset, max(length, _SLICE))
            self.tick(len(self.data))
        return self.data[offset - self.start :][:length]


def _follow(window: Window, read: Read, most: int, *, sums: bool = False) -> bool:
    """``most`` blocks of values are followed. ``sums``: nodes are read in full and held to their checksums."""
    at, left = 0, most
    while at < window.size:
        beginning = read(at, 18)
        if beginning.startswith(NODE):
            at = _node_end(window.size, read, at, sums=sums)
        elif beginning.startswith(_FRAME):
            end, left = _frame_end(window.size, read, at, left)
            if end is None:
                return False
            at = end
        elif NODE.startswith(beginning) or _FRAME.startswith(beginning):
            raise Damage(f"{window.size} bytes, something longer begins at byte {at}: it was cut")
        else:
            return False
    return True


def is_sound(data: bytes, magic: bytes = MANIFEST) -> bool:
    """Whether these are all the bytes of a manifest or node, by its length and checksum."""
    if len(data) < 18 or data[:4] != magic or int.from_bytes(data[4:12], "little") != len(data):
        return False
    return crc32c.crc32c(data[:-4]) == int.from_bytes(data[-4:], "little")


def _node_end(size: int, read: Read, at: int, *, sums: bool) -> int:
    beginning = read(at, 18)
    length = int.from_bytes(beginning[4:12], "little")
    if len(beginning) < 18 or length > size - at:
        raise Damage(f"{size} bytes, the node at byte {at} is longer: it was cut")
    if sums and length <= _LONGEST_NODE and not is_sound(read(at, length), NODE):
        raise Damage(f"the node at byte {at} does not fit its CRC-32C")
    return at + max(length, 18)


def _frame_end(size: int, read: Read, start: int, left: int) -> tuple[int | None, int]:
    """Where a frame ends, None where following it would take too long; and how many blocks may still be followed."""
    cut = Damage(f"{size} bytes, the value at byte {start} is longer: it was cut")
    described = (read(start + 4, 1) or b"\0")[0]
    single = described >> 5 & 1
    at = start + 5 + (not single) + _FIELDS[described & 3] + (_SIZES[described >> 6] or single)
    last = False
    while not last:
        if not left:
            return None, 0
        if at + 3 > size:
            raise cut
        word = int.from_bytes(read(at, 3), "little")
        last, kind, length = bool(word & 1), word >> 1 & 3, word >> 3
        if kind == _RESERVED or length > _LONGEST_BLOCK:
            raise Damage(f"the value at byte {start} is no Zstandard frame to its end: it was overwritten in part")
        at += 3 + (1 if kind == _RUN else length)
        left -= 1
    at += 4 * (described >> 2 & 1)  # a checksum of what was compressed
    if at > size:
        raise cut
    return at, left
