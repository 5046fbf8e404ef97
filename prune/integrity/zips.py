"""ZIP files: what ``torch.save``, ``numpy.savez``, Keras and stable-baselines3 write.

The end record is written last, so its absence tells a save that did not finish. Layout of the records: PKWARE
APPNOTE.TXT, 4.3.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prune.integrity.window import Damage, Window

_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
_CUT = "the writer did not finish, or the file was cut"
_COMMENT = 0xFFFF
_SLICE = 1 << 20  # of the central directory, held at a time
_STORED, _DEFLATED, _ENCRYPTED = 0, 8, 1
_UNPACKED = 1 << 20  # of a packed member, held at a time
Tick = Callable[[int], None]
MOST_OF_DIRECTORY = 256 << 20  # a longer central directory is not walked


@dataclass(frozen=True, slots=True)
class Directory:
    """Where the central directory lies. ``shift`` is what was put before the archive, 0 for all known writers."""

    offset: int  # in the file
    size: int
    entries: int
    shift: int


@dataclass(frozen=True, slots=True)
class Member:
    """One member as the central directory has it; ``offset`` is that of its local header in the file."""

    name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    offset: int


def looks_like(window: Window) -> bool:
    """Whether the file begins or ends as a ZIP does."""
    return window.head[:4] in (b"PK\x03\x04", b"PK\x05\x06") or window.tail[-_END.size :][:4] == b"PK\x05\x06"


def check(window: Window) -> bool:
    """Whether the structure is complete; False where there is nothing to check. Raises Damage."""
    directory = find_directory(window)
    if directory.entries == 0 or directory.size > MOST_OF_DIRECTORY:
        return False
    ends: list[Member] = []
    for member in members(window, directory):
        if member.offset + _LOCAL.size + len(member.name) + member.packed > directory.offset:
            raise Damage(f"member {_shown(member)} does not fit before the ZIP directory: {_CUT}")
        ends = [*ends[:1], member]
    for member in ends:
        data_offset(window, directory, member)
    return True


def find_directory(window: Window) -> Directory:
    """The central directory by the end record. Raises Damage when there is none that fits the file."""
    if window.size < _END.size:
        raise Damage(f"a ZIP without its end record ({window.size} bytes): {_CUT}")
    tail_at = max(0, window.size - _END.size - _COMMENT)
    tail = window.tail if window.tail[-_END.size :][:4] == b"PK\x05\x06" else window.read(tail_at, window.size)
    tail_at = window.size - len(tail)
    reason = f"a ZIP without its end record ({window.size} bytes found): {_CUT}"
    at = tail.rfind(b"PK\x05\x06")
    while at >= 0:
        try:
            return _directory_at(window, tail_at + at, tail[at : at + _END.size])
        except Damage as damage:
            reason = str(damage)
        at = tail.rfind(b"PK\x05\x06", 0, at)
    raise Damage(reason)


def _directory_at(window: Window, at: int, record: bytes) -> Directory:
    if len(record) < _END.size:
        raise Damage(f"the ZIP end record is cut ({len(record)} of {_END.size} bytes): {_CUT}")
    _, _, _, _, entries, size, offset, comment = _END.unpack(record)
    if at + _END.size + comment > window.size:
        raise Damage(f"the ZIP comment is cut: expected {at + _END.size + comment} bytes, found {window.size}")
    end = at
    if 0xFFFF in (entries,) or 0xFFFFFFFF in (size, offset) or _has_locator(window, at):
        end, entries, size, offset = _zip64(window, at)
    shift = end - size - offset
    if shift < 0:
        raise Damage(f"the ZIP directory should end at byte {offset + size}, its end record is at {end}: {_CUT}")
    if shift > 0 and window.head[:4] == b"PK\x03\x04":
        # Archives hold archives (stable-baselines3 keeps torch files in one): cut behind an inner one, the file ends
        # with that one's directory.
        raise Damage(f"the only ZIP directory is that of an archive inside, which begins at byte {shift}: {_CUT}")
    if entries and window.read(offset + shift, 4) != b"PK\x01\x02":
        raise Damage(f"no ZIP directory at byte {offset + shift}, where the end record has it")
    return Directory(offset + shift, size, entries, shift)


def _has_locator(window: Window, at: int) -> bool:
    return window.read(at - _LOCATOR.size, 4) == b"PK\x06\x07"


def _zip64(window: Window, at: int) -> tuple[int, int, int, int]:
    """Start of the ZIP64 end record, number of entries, size and offset of the directory."""
    locator = window.exactly(at - _LOCATOR.size, _LOCATOR.size, "the ZIP64 locator") if at >= _LOCATOR.size else b""
    if locator[:4] != b"PK\x06\x07":
        raise Damage("the ZIP end record points to a ZIP64 record that is not there")
    start = _LOCATOR.unpack(locator)[2]
    for place in (start, at - _LOCATOR.size - _END64.size):  # the second when something was put before the archive
        record = window.read(place, _END64.size)
        if record[:4] == b"PK\x06\x06" and len(record) == _END64.size:
            fields = _END64.unpack(record)
            return place, fields[7], fields[8], fields[9]
    raise Damage(f"no ZIP64 end record at byte {start}, where its locator has it")


def members(window: Window, directory: Directory) -> Iterator[Member]:
    """The members in the directory's order, read in slices. Raises Damage where the directory is not one."""
    data, at, read = b"", 0, 0
    for _ in range(directory.entries):
        if len(data) - at < _CENTRAL.size + 3 * _COMMENT and read < directory.size:
            fresh = window.read(directory.offset + read, min(_SLICE, directory.size - read))
            data, at, read = data[at:] + fresh, 0, read + len(fresh)
        if data[at : at + 4] != b"PK\x01\x02" or len(data) - at < _CENTRAL.size:
            raise Damage(f"the ZIP directory of {directory.entries} members is damaged")
        fields = _CENTRAL.unpack_from(data, at)
        name_at = at + _CENTRAL.size
        extra_at = name_at + fields[10]
        after = extra_at + fields[11] + fields[12]
        if after > len(data):
            raise Damage(f"the ZIP directory of {directory.entries} members is cut")
        yield _member(fields, data[name_at:extra_at], data[extra_at : extra_at + fields[11]], directory.shift)
        at = after
    if read - (len(data) - at) != directory.size:
        raise Damage(f"the ZIP directory is longer than its {directory.entries} members")


def _member(fields: tuple[int, ...], name: bytes, extra: bytes, shift: int) -> Member:
    packed, size, offset = fields[8], fields[9], fields[16]
    wide = _zip64_extra(extra)
    if size == 0xFFFFFFFF:
        size = next(wide, size)
    if packed == 0xFFFFFFFF:
        packed = next(wide, packed)
    if offset == 0xFFFFFFFF:
        offset = next(wide, offset)
    return Member(name, fields[3], fields[4], fields[7], packed, size, offset + shift)


def _zip64_extra(extra: bytes) -> Iterator[int]:
    """The eight-byte numbers of the ZIP64 field, if there is one."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        at += 4
        if kind == 1:
            field = extra[at : at + length]
            yield from struct.unpack_from(f"<{len(field) // 8}Q", field)
            return
        at += length


def data_offset(window: Window, directory: Directory, member: Member) -> int:
    """Where a member's bytes begin, by its local header. Raises Damage when there is no such header."""
    header = window.read(member.offset, _LOCAL.size)
    if header[:4] != b"PK\x03\x04" or len(header) < _LOCAL.size:
        raise Damage(f"no ZIP member at byte {member.offset}, where the directory has {_shown(member)}")
    *_, name_length, extra_length = _LOCAL.unpack(header)
    start = member.offset + _LOCAL.size + int(name_length) + int(extra_length)
    if name_length != len(member.name) or start + member.packed > directory.offset:
        raise Damage(f"the ZIP header of member {_shown(member)} does not fit the directory")
    return start


def check_sums(window: Window, tick: Tick) -> bool:
    """Reads every member against its CRC-32; False where one has none recorded or cannot be unpacked here.

    Raises Damage naming the first member that differs, or when members lie over one another.
    """
    directory = find_directory(window)
    if directory.entries == 0 or directory.size > MOST_OF_DIRECTORY:
        return False
    complete, read = True, 0
    for member in members(window, directory):
        start = data_offset(window, directory, member)
        read += member.packed
        if read > directory.offset:  # else a small file could be an endless one
            raise Damage(f"member {_shown(member)} and those before it lie over one another")
        complete = _sum_matches(window, member, start, tick) and complete
    return complete


def _sum_matches(window: Window, member: Member, start: int, tick: Tick) -> bool:
    """Whether a member was checked and is right. torch.save told not to compute sums writes 0 for all of them."""
    if member.crc == 0 and member.size:
        tick(member.packed)
        return False
    if member.method not in (_STORED, _DEFLATED) or member.flags & _ENCRYPTED:
        tick(member.packed)
        return False
    unpack = _inflated if member.method == _DEFLATED else _stored
    crc = size = 0
    for piece in unpack(window, member, start, tick):
        crc = zlib.crc32(piece, crc)
        size += len(piece)
    if size != member.size:
        raise Damage(f"member {_shown(member)}: expected {member.size} bytes, found {size}")
    if crc != member.crc:
        raise Damage(f"member {_shown(member)}: expected CRC-32 {member.crc:08x}, found {crc:08x}")
    return True


def _stored(window: Window, member: Member, start: int, tick: Tick) -> Iterator[memoryview]:
    for piece in window.pieces(start, member.packed):
        yield piece
        tick(len(piece))


def _inflated(window: Window, member: Member, start: int, tick: Tick) -> Iterator[bytes]:
    """The unpacked bytes, a bounded amount at a time however well they are packed."""
    unpacker, left = zlib.decompressobj(-zlib.MAX_WBITS), member.size
    try:
        for piece in window.pieces(start, member.packed):
            packed, full = bytes(piece), False
            while (packed or full) and not unpacker.eof:
                found = unpacker.decompress(packed, _UNPACKED)
                left -= len(found)
                if left < 0:
                    raise Damage(f"member {_shown(member)} unpacks to more than its {member.size} bytes")
                yield found
                packed, full = unpacker.unconsumed_tail, len(found) == _UNPACKED
            tick(len(piece))
    except zlib.error as error:
        raise Damage(f"member {_shown(member)} cannot be unpacked ({error})") from None


def _shown(member: Member) -> str:
    return ascii(member.name[:80].decode("utf-8", "replace"))
