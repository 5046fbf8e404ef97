"""The tree of an OCDBT database: which data files its newest version needs, as manifest and nodes name them.

Format: google/tensorstore, ``tensorstore/kvstore/ocdbt/format`` (``manifest.cc``, ``version_tree.cc``, ``btree.cc``,
``data_file_id_codec.h``). Bodies are compressed as a whole; tables of files stand at their beginning.
"""

from __future__ import annotations

from dataclasses import dataclass

from prune.integrity import zstd

_HEADER = 12  # magic and length
_SUM = 4
_MOST = 128 << 10  # of a body that is decoded: tables stand first, and decoding is slow
_MOST_ENTRIES = 1 << 16
_LONGEST = 64 << 20
_ARRAY = b'"zarr_format":'  # once in the description of each array
_PACKED = (b'"compressor":{"id":"zstd"', b'"name":"zstd"')


class Unreadable(ValueError):
    """Of another version of the format, too large to be looked at, or damaged."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands. ``base`` is the part of its path that the names in it are relative to."""

    path: str
    base: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Node:
    files: tuple[str, ...]  # data files that it names
    children: tuple[Place, ...]
    packed: bool  # every value is known to be a Zstandard frame


def newest_root(manifest: bytes) -> Place | None:
    """The root of the newest version; None where there is none in this manifest. Raises Unreadable."""
    try:
        body = _Body(_decoded(manifest))
        body.skip(16)
        if body.number():
            return None  # a manifest that is numbered: the versions are elsewhere
        body.number(), body.number(), body.skip(1)
        if body.number():
            body.skip(4)
        files, count = body.files(""), body.count()
        body.numbers(count), body.skip(count)
        places = body.places(count, files)
    except (IndexError, ValueError) as error:
        raise Unreadable(str(error)) from error
    return places[-1] if places and places[-1].length <= _LONGEST else None


def read_node(data: bytes, base: str) -> Node:
    """One node. Raises Unreadable."""
    try:
        decoded = _decoded(data)
        body = _Body(decoded)
        height = body.byte()
        files, children = body.files(base), tuple[Place, ...]()
        if height:
            count = body.count()
            body.numbers(count - 1)
            suffixes = body.numbers(count)
            body.numbers(count)
            body.skip(sum(suffixes))
            children = body.places(count, files)
    except (IndexError, ValueError) as error:
        raise Unreadable(str(error)) from error
    arrays, packings = decoded.count(_ARRAY), sum(map(decoded.count, _PACKED))
    packed = not height and len(decoded) < _MOST and 0 < arrays <= packings
    return Node(tuple(path for path, _ in files), children, packed)


def _decoded(data: bytes) -> bytes:
    header = _Body(data, _HEADER)
    if header.number():
        raise Unreadable("another version of the format")
    compressed = header.number()
    if compressed > 1:
        raise Unreadable("another compression")
    body = data[header.at : -_SUM]
    return zstd.decompress(body, _MOST) if compressed else body


class _Body:
    """Reads numbers one after the other. Raises IndexError where they end, Unreadable where they are none."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def skip(self, length: int) -> bytes:
        if length < 0 or self.at + length > len(self.data):
            raise IndexError("it ends too early")
        self.at += length
        return self.data[self.at - length : self.at]

    def byte(self) -> int:
        return self.skip(1)[0]

    def number(self) -> int:
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift > 63:
                raise Unreadable("a number longer than any")

    def numbers(self, count: int) -> list[int]:
        return [self.number() for _ in range(count)]

    def count(self) -> int:
        found = self.number()
        if found > _MOST_ENTRIES:
            raise Unreadable("more entries than are looked at")
        return found

    def files(self, base: str) -> list[tuple[str, str]]:
        """A table of data files: each with its own base, which is the beginning of its path."""
        count = self.count()
        if not count:
            return []
        shared, own, bases = [0, *self.numbers(count - 1)], self.numbers(count), self.numbers(count)
        found, before = list[tuple[str, str]](), b""
        for place in range(count):
            if shared[place] > len(before):
                raise Unreadable("a name that begins with more than there is")
            before = before[: shared[place]] + self.skip(own[place])
            path = before.decode()
            found.append((base + path, base + before[: bases[place]].decode()))
        return found

    def places(self, count: int, files: list[tuple[str, str]]) -> tuple[Place, ...]:
        of, offsets, lengths = self.numbers(count), self.numbers(count), self.numbers(count)
        return tuple(
            Place(*files[file], offset, length) for file, offset, length in zip(of, offsets, lengths, strict=True)
        )
