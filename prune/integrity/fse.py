"""Finite state entropy, the coding of tables and numbers in Zstandard (RFC 8878, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_MOST_SYMBOLS = 256


class Backward:
    """Bits read from the end of some bytes towards their beginning; below it stand zeros, and ``left`` is negative."""

    def __init__(self, data: bytes) -> None:
        if not data or not data[-1]:
            raise ValueError("bits without the one that ends them")
        self.data = data
        self.left = 8 * (len(data) - 1) + data[-1].bit_length() - 1

    def read(self, count: int) -> int:
        value = self.peek(count)
        self.left -= count
        return value

    def peek(self, count: int) -> int:
        start = self.left - count
        if start < 0:
            known = self.left if self.left > 0 else 0
            return (int.from_bytes(self.data[:8], "little") & ((1 << known) - 1)) << (count - known)
        first = start >> 3
        return int.from_bytes(self.data[first : first + 8], "little") >> (start & 7) & ((1 << count) - 1)


@dataclass(frozen=True, slots=True)
class Table:
    """By state: the symbol it stands for, and from which base by how many bits the next state is told."""

    log: int
    symbols: Sequence[int]
    bits: Sequence[int]
    bases: Sequence[int]

    @staticmethod
    @lru_cache(64)
    def of(shares: tuple[int, ...], log: int) -> Table:
        """From each symbol's share of the states; -1 is less than one."""
        size = 1 << log
        if sum(map(abs, shares)) != size:
            raise ValueError("shares that are no whole")
        symbols, high = [0] * size, size
        for symbol, share in enumerate(shares):
            if share == -1:
                high -= 1
                symbols[high] = symbol
        at, step = 0, (size >> 1) + (size >> 3) + 3
        for symbol, share in enumerate(shares):
            for _ in range(share):
                symbols[at] = symbol
                at = (at + step) & (size - 1)
                while at >= high:
                    at = (at + step) & (size - 1)
        following = [abs(share) for share in shares]
        bits, bases = [0] * size, [0] * size
        for state, symbol in enumerate(symbols):
            bits[state] = log - following[symbol].bit_length() + 1
            bases[state] = (following[symbol] << bits[state]) - size
            following[symbol] += 1
        return Table(log, symbols, bits, bases)


def of_one(symbol: int) -> Table:
    """A table of one symbol, which takes no bits."""
    return Table(0, [symbol], [0], [0])


def from_header(data: bytes, at: int, most: int) -> tuple[Table, int]:
    """A table as it is told in front of what it codes, and where that begins. Raises ValueError, IndexError."""
    number = int.from_bytes(data[at : at + 512], "little")
    log, read = (number & 15) + 5, 4
    if log > most:
        raise ValueError("a table larger than any")
    left, shares = 1 << log, list[int]()
    while left > 0:
        width = (left + 1).bit_length()
        value = number >> read & ((1 << width) - 1)
        low, spare = value & ((1 << (width - 1)) - 1), (1 << width) - 2 - left
        read += width
        if low < spare:
            value, read = low, read - 1
        elif value > (1 << (width - 1)) - 1:
            value -= spare
        shares.append(value - 1)
        left -= abs(value - 1)
        repeats = 3 if value == 1 else 0
        while repeats == 3:
            repeats = number >> read & 3
            read += 2
            shares += [0] * repeats
        if len(shares) > _MOST_SYMBOLS:
            raise ValueError("more symbols than there are")
    end = at + (read + 7) // 8
    if left < 0 or end > len(data):
        raise ValueError("shares that are no whole")
    return Table.of(tuple(shares), log), end
