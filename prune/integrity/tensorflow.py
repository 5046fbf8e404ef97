"""TensorFlow's tensor bundle: ``P.index`` is a sorted table, ``P.data-0000i-of-0000N`` hold the tensors.

The table is LevelDB's (tensorflow/tensorflow, ``core/lib/io/format.h``, ``core/lib/io/table_builder.cc``); its first
entry, under the empty key, is the bundle's header with the number of shards, the others say where each tensor lies
(``core/util/tensor_bundle/tensor_bundle.cc``, ``core/protobuf/tensor_bundle.proto``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prune.integrity.window import Damage, Window

DATA = re.compile(r"(?P<prefix>.+)\.data-(?P<shard>\d{5})-of-(?P<total>\d{5})")
_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_FOOTER = 48
_TRAILER = 5  # compression, checksum
_MOST_SHARDS = 99_999


@dataclass(frozen=True, slots=True)
class Tensor:
    """Where one tensor lies: shard, offset and length, its masked CRC-32C and TensorFlow's number of its type."""

    name: bytes
    shard: int
    offset: int
    size: int
    crc: int
    kind: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """What an index says of its data files. ``tensors`` is None where the index is compressed."""

    shards: int | None
    tensors: tuple[Tensor, ...] | None

    def needed(self, prefix: str) -> Mapping[str, int]:
        """How long each data file must be at the least."""
        if self.shards is None:
            return {}
        lengths = {data_name(prefix, shard, self.shards): 0 for shard in range(self.shards)}
        for tensor in self.tensors or ():
            name = data_name(prefix, tensor.shard, self.shards)
            lengths[name] = max(lengths.get(name, 0), tensor.offset + tensor.size)
        return lengths


def data_name(prefix: str, shard: int, total: int) -> str:
    return f"{prefix}.data-{shard:05d}-of-{total:05d}"


def looks_like(window: Window) -> bool:
    return window.tail[-8:] == _MAGIC


def read_index(window: Window) -> Bundle:
    """What an index says. Raises Damage when it is cut or is no table."""
    if window.size < _FOOTER or not looks_like(window):
        raise Damage(f"no TensorFlow index ends here ({window.size} bytes found): it was cut, or is none")
    footer = window.exactly(window.size - _FOOTER, _FOOTER, "the footer of the index")
    _, at = _handle(footer, 0)
    handle, _ = _handle(footer, at)
    pointers = _block(window, handle)
    if pointers is None:
        return Bundle(None, None)
    entries: list[tuple[bytes, bytes]] = []
    for _, value in _entries(pointers):
        block = _block(window, _handle(value, 0)[0])
        if block is None:
            return Bundle(None, None)
        entries.extend(_entries(block))
    return _bundle(entries)


def _bundle(entries: list[tuple[bytes, bytes]]) -> Bundle:
    if not entries or entries[0][0] != b"":
        raise Damage("the TensorFlow index has no header")
    shards = _fields(entries[0][1]).get(1, 1)
    if not isinstance(shards, int) or not 0 < shards <= _MOST_SHARDS:
        raise Damage("the TensorFlow index has an impossible number of shards")
    return Bundle(shards, tuple(_tensor(name, value, shards) for name, value in entries[1:]))


def _tensor(name: bytes, value: bytes, shards: int) -> Tensor:
    fields = _fields(value)
    numbers = [fields.get(key, 0) for key in (3, 4, 5, 6, 1)]
    if not all(isinstance(number, int) and 0 <= number < 1 << 62 for number in numbers):
        raise Damage(f"the TensorFlow index has no place for {name[:80]!a}")
    shard, offset, size, crc, kind = (int(number) for number in numbers if isinstance(number, int))
    if shard >= shards:
        raise Damage(f"the TensorFlow index puts {name[:80]!a} in shard {shard} of {shards}")
    return Tensor(name, shard, offset, size, crc, kind)


def _block(window: Window, handle: tuple[int, int]) -> bytes | None:
    """A block's contents; None when it is compressed."""
    offset, size = handle
    data = window.exactly(offset, size + _TRAILER, "a block of the TensorFlow index")
    return None if data[size] else data[:size]


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = _varint(data, at)
    size, at = _varint(data, at)
    return (offset, size), at


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a block; a key is given by what it shares with the one before."""
    if len(block) < 4:
        raise Damage("a block of the TensorFlow index is cut")
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * restarts
    if end < 0:
        raise Damage("a block of the TensorFlow index is damaged")
    key, at = b"", 0
    while at < end:
        shared, at = _varint(block, at)
        fresh, at = _varint(block, at)
        length, at = _varint(block, at)
        if shared > len(key) or at + fresh + length > end or shared + fresh > 1 << 16:
            raise Damage("a block of the TensorFlow index is damaged")
        key = key[:shared] + block[at : at + fresh]
        at += fresh + length
        yield key, block[at - length : at]


def _fields(message: bytes) -> dict[int, int | bytes]:
    """The fields of a protocol buffer message, the last of each number; nested ones as bytes."""
    found: dict[int, int | bytes] = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            found[number], at = _varint(message, at)
            continue
        if wire == 2:
            length, at = _varint(message, at)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise Damage("an entry of the TensorFlow index is damaged")
        if at + length > len(message):
            raise Damage("an entry of the TensorFlow index is cut")
        data = message[at : at + length]
        found[number] = data if wire == 2 else int.from_bytes(data, "little")
        at += length
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise Damage("a number in the TensorFlow index is damaged")
