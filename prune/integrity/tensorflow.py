"""TensorFlow's tensor bundle: ``P.index`` is a sorted table, ``P.data-0000i-of-0000N`` hold the tensors.

The table is LevelDB's (tensorflow/tensorflow, ``core/lib/io/format.h``, ``core/lib/io/table_builder.cc``); its first
entry, under the empty key, is the bundle's header with the number of shards, the others say where each tensor lies
(``core/util/tensor_bundle/tensor_bundle.cc``, ``core/protobuf/tensor_bundle.proto``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prune.integrity.crc32c import crc32c, masked
from prune.integrity.window import MOST, Damage, Window

DATA = re.compile(r"(?P<prefix>.+)\.data-(?P<shard>\d{5})-of-(?P<total>\d{5})")
_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_FOOTER = 48
_TRAILER = 5  # compression, checksum
_MOST_SHARDS = 99_999
_MOST_ENTRIES = 1_000_000  # more are not read
_STRING, _VARIANT = 7, 21  # core/framework/types.proto
Tick = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Tensor:
    """Where one tensor lies: shard, offset and length; its masked CRC-32C, type and number of elements."""

    name: bytes
    shard: int
    offset: int
    size: int
    crc: int
    kind: int  # TensorFlow's number of its type
    count: int | None  # None where its shape is not known


@dataclass(frozen=True, slots=True)
class Bundle:
    """What an index says of its data files. Both are None where the index is compressed or longer than is read here."""

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
    """What an index says, its blocks held against their checksums. Raises Damage when it is cut or is no table."""
    if window.size < _FOOTER or not looks_like(window):
        raise Damage(f"no TensorFlow index ends here ({window.size} bytes found): it was cut, or is none")
    footer = window.exactly(window.size - _FOOTER, _FOOTER, "the footer of the index")
    _, at = _handle(footer, 0)
    handle, _ = _handle(footer, at)
    pointers = _block(window, handle)
    if pointers is None:
        return Bundle(None, None)
    entries: list[tuple[bytes, bytes]] = []
    read = names = 0
    for _, value in _entries(pointers):
        handle, _ = _handle(value, 0)
        read += handle[1]
        if read > window.size:
            raise Damage("the blocks of the TensorFlow index lie over one another")
        block = _block(window, handle)
        if block is None:
            return Bundle(None, None)
        for entry in _entries(block):
            names += len(entry[0])
            if names > MOST or len(entries) == _MOST_ENTRIES:
                return Bundle(None, None)
            entries.append(entry)
    return _bundle(entries)


def _bundle(entries: list[tuple[bytes, bytes]]) -> Bundle:
    if not entries or entries[0][0] != b"":
        raise Damage("the TensorFlow index has no header")
    shards = dict(_fields(entries[0][1])).get(1, 1)
    if not isinstance(shards, int) or not 0 < shards <= _MOST_SHARDS:
        raise Damage("the TensorFlow index has an impossible number of shards")
    return Bundle(shards, tuple(_tensor(name, value, shards) for name, value in entries[1:] if not _is_sliced(value)))


def _is_sliced(value: bytes) -> bool:
    """Whether an entry only says how a tensor was cut up; the parts have entries of their own."""
    return any(number == 7 for number, _ in _fields(value))


def _tensor(name: bytes, value: bytes, shards: int) -> Tensor:
    fields = dict(_fields(value))
    numbers = [fields.get(key, 0) for key in (3, 4, 5, 6, 1)]
    if not all(isinstance(number, int) and 0 <= number < 1 << 62 for number in numbers):
        raise Damage(f"the TensorFlow index has no place for {name[:80]!a}")
    shard, offset, size, crc, kind = (int(number) for number in numbers if isinstance(number, int))
    if shard >= shards:
        raise Damage(f"the TensorFlow index puts {name[:80]!a} in shard {shard} of {shards}")
    shape = fields.get(2, b"")
    return Tensor(name, shard, offset, size, crc, kind, _count(shape) if isinstance(shape, bytes) else None)


def _count(shape: bytes) -> int | None:
    """Number of elements of a shape (``core/framework/tensor_shape.proto``)."""
    count = 1
    for number, dimension in _fields(shape):
        if number == 2 and isinstance(dimension, bytes):
            extent = dict(_fields(dimension)).get(1, 0)
            if not isinstance(extent, int) or count * extent >= 1 << 62:
                return None
            count *= extent
    return count


def _block(window: Window, handle: tuple[int, int]) -> bytes | None:
    """A block's contents; None when it is compressed."""
    offset, size = handle
    data = window.exactly(offset, size + _TRAILER, "a block of the TensorFlow index")
    if masked(crc32c(data[: size + 1])) != int.from_bytes(data[size + 1 :], "little"):
        raise Damage(f"the block at byte {offset} of the TensorFlow index differs from its checksum")
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


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer message by number; nested ones and strings as bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield number, value
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
        yield number, data if wire == 2 else int.from_bytes(data, "little")
        at += length


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


def check_sums(window: Window, tensors: Iterable[Tensor], tick: Tick) -> bool:
    """Reads the tensors of one data file against their checksums; False where one is of a kind not known here.

    Raises Damage naming the first tensor that differs.
    """
    complete = True
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        if tensor.kind == _VARIANT or tensor.count is None:
            complete = False
        elif tensor.kind == _STRING:
            complete = _strings_match(window, tensor) and complete
        else:
            crc = 0
            for piece in window.pieces(tensor.offset, tensor.size):
                crc = crc32c(bytes(piece), crc)
                tick(len(piece))
            _hold(tensor, crc)
    return complete


def _hold(tensor: Tensor, crc: int) -> None:
    if masked(crc) != tensor.crc:
        name = ascii(tensor.name[:80].decode("utf-8", "replace"))
        raise Damage(f"tensor {name}: expected masked CRC-32C {tensor.crc:08x}, found {masked(crc):08x}")


def _strings_match(window: Window, tensor: Tensor) -> bool:
    """Strings are stored as their lengths, a checksum of those, and the strings; the lengths count as fixed numbers
    (``WriteStringTensor`` in ``tensor_bundle.cc``). Raises Damage."""
    if tensor.size > MOST or tensor.count is None or tensor.count > tensor.size:
        return False
    data = window.exactly(tensor.offset, tensor.size, "a tensor of strings")
    crc, at, total = 0, 0, 0
    for _ in range(tensor.count):
        length, at = _varint(data, at)
        crc = crc32c(length.to_bytes(4 if length < 1 << 32 else 8, "little"), crc)
        total += length
    sums = masked(crc).to_bytes(4, "little")
    if data[at : at + 4] != sums or at + 4 + total != tensor.size:
        raise Damage("the lengths of a tensor of strings differ from their checksum")
    _hold(tensor, crc32c(data[at + 4 :], crc32c(sums, crc)))
    return True
