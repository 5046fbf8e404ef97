"""Zstandard frames (RFC 8878) decoded without a library: for the small indexes that are written compressed.

Slow, bounded, and silent about what it cannot follow: frames with dictionaries are refused, checksums are passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from prune.integrity.fse import Backward, Table, from_header, of_one
from prune.integrity.huffman import Tree, read_literals

MAGIC = b"\x28\xb5\x2f\xfd"
LONGEST_BLOCK = 128 << 10
_RAW, _RUN, _COMPRESSED = 0, 1, 2
_FIELDS = (0, 1, 2, 4)  # bytes of the dictionary's number by its two bits
_SIZES = (0, 2, 4, 8)  # bytes of the content's size by its two bits
_FEW = (-1,)
_LITERALS = (4, 3, *(2,) * 11, 1, 1, 1, *(2,) * 9, 3, 2, *(1,) * 5, *_FEW * 4)
_OFFSETS = (*(1,) * 6, 2, 2, 2, *(1,) * 15, *_FEW * 5)
_MATCHES = (1, 4, 3, *(2,) * 6, *(1,) * 37, *_FEW * 7)
_LITERAL_BITS = (*(0,) * 16, 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, *range(7, 17))
_MATCH_BITS = (*(0,) * 32, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, *range(7, 17))


class Undecodable(ValueError):
    """No frame that this decoder follows: damaged, or of a kind that it does not know."""


def decompress(data: bytes, most: int) -> bytes:
    """What a frame holds; where that is longer than ``most``, its beginning of at least so many bytes."""
    try:
        return _Frame(data).decoded(most)
    except (IndexError, ValueError) as error:
        raise Undecodable(f"no Zstandard frame that can be followed: {error}") from error


def _bases(first: int, bits: tuple[int, ...]) -> tuple[int, ...]:
    found = [first]
    for each in bits[:-1]:
        found.append(found[-1] + (1 << each))
    return tuple(found)


_LITERAL_BASES, _MATCH_BASES = _bases(0, _LITERAL_BITS), _bases(3, _MATCH_BITS)


@dataclass
class _Frame:
    data: bytes
    out: bytearray = field(default_factory=bytearray)
    tree: Tree | None = None
    tables: list[Table | None] = field(default_factory=lambda: [None, None, None])
    recent: tuple[int, int, int] = (1, 4, 8)

    def decoded(self, most: int) -> bytes:
        described = self.data[4]
        if not self.data.startswith(MAGIC) or described & 8 or described & 3:
            raise Undecodable("another magic, a reserved bit, or a dictionary")
        single = described >> 5 & 1
        at = 5 + (not single) + _FIELDS[described & 3] + (_SIZES[described >> 6] or single)
        last = False
        while not last and len(self.out) < most:
            word = int.from_bytes(self.data[at : at + 3], "little")
            if at + 3 > len(self.data):
                raise Undecodable("it ends before its last block")
            last, kind, length = bool(word & 1), word >> 1 & 3, word >> 3
            if length > LONGEST_BLOCK:
                raise Undecodable("a block longer than any")
            at = self._block(kind, at + 3, length)
        return bytes(self.out)

    def _block(self, kind: int, at: int, length: int) -> int:
        """Decodes one block and tells where the next begins."""
        stored = 1 if kind == _RUN else length
        block = self.data[at : at + stored]
        if len(block) != stored or kind > _COMPRESSED:
            raise Undecodable("a block that is cut, or of a reserved kind")
        if kind == _COMPRESSED:
            literals, self.tree, used = read_literals(block, self.tree, LONGEST_BLOCK)
            self._sequences(block[used:], literals)
        else:
            self.out += block * length if kind == _RUN else block
        return at + stored

    def _sequences(self, data: bytes, literals: bytes) -> None:
        count, at = _count(data)
        if count == 0:
            self.out += literals
            return
        modes, at = data[at], at + 1
        for place, (default, log, most) in enumerate(((_LITERALS, 6, 9), (_OFFSETS, 5, 8), (_MATCHES, 6, 9))):
            mode = modes >> (6 - 2 * place) & 3
            if mode == 0:
                self.tables[place] = Table.of(default, log)
            elif mode == 1:
                self.tables[place], at = of_one(data[at]), at + 1
            elif mode == 2:
                self.tables[place], at = from_header(data, at, most)
        self._execute(Backward(data[at:]), literals, count)

    def _execute(self, bits: Backward, literals: bytes, count: int) -> None:
        lengths, offsets, matches = self.tables
        if lengths is None or offsets is None or matches is None:
            raise Undecodable("it repeats a table that it never had")
        one, two, three = bits.read(lengths.log), bits.read(offsets.log), bits.read(matches.log)
        taken, begun = 0, len(self.out)
        for left in range(count, 0, -1):
            power = offsets.symbols[two]
            if power > 31:
                raise Undecodable("an offset longer than any")
            offset = (1 << power) + bits.read(power)
            code, literal = matches.symbols[three], lengths.symbols[one]
            match = _MATCH_BASES[code] + bits.read(_MATCH_BITS[code])
            length = _LITERAL_BASES[literal] + bits.read(_LITERAL_BITS[literal])
            if left > 1:
                one = lengths.bases[one] + bits.read(lengths.bits[one])
                three = matches.bases[three] + bits.read(matches.bits[three])
                two = offsets.bases[two] + bits.read(offsets.bits[two])
            self.out += literals[taken : taken + length]
            taken += length
            self._copy(self._offset(offset, length), match)
            if taken > len(literals) or len(self.out) - begun > LONGEST_BLOCK or bits.left < 0:
                raise Undecodable("a block that says more than it holds")
        self.out += literals[taken:]

    def _offset(self, value: int, literals: int) -> int:
        """The offset that a value stands for: the three last ones have short names."""
        first, second, third = self.recent
        if value > 3:
            self.recent = (value - 3, first, second)
        else:
            name = value + (literals == 0)
            if name == 2:
                self.recent = (second, first, third)
            elif name > 2:
                self.recent = (third if name == 3 else first - 1, first, second)
        return self.recent[0]

    def _copy(self, offset: int, length: int) -> None:
        start = len(self.out) - offset
        if start < 0 or offset < 1:
            raise Undecodable("a match before the beginning")
        piece = bytes(self.out[start : start + length])
        while len(piece) < length:  # what repeats itself overlaps with what it writes
            piece += piece[: length - len(piece)]
        self.out += piece


def _count(data: bytes) -> tuple[int, int]:
    """How many sequences there are, and where their tables begin."""
    first = data[0]
    if first < 128:
        return first, 1
    if first < 255:
        return ((first - 128) << 8) + data[1], 2
    return data[1] + (data[2] << 8) + 0x7F00, 3
