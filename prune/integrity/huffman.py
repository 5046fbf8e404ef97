"""The literals of a Zstandard block, which may be coded by Huffman's trees (RFC 8878, sections 3.1.1.3.1 and 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prune.integrity.fse import Backward, from_header

_DEEPEST = 11
_RAW, _RUN, _TREE = 0, 1, 2
_WIDTHS = ((10, 3), (10, 3), (14, 4), (18, 5))  # bits of either size, bytes of both, by the format's two bits


@dataclass(frozen=True, slots=True)
class Tree:
    """By the next so many bits: the symbol, and how many of them it takes."""

    depth: int
    symbols: Sequence[int]
    bits: Sequence[int]


def read_literals(block: bytes, tree: Tree | None, most: int) -> tuple[bytes, Tree | None, int]:
    """The literals a block begins with, the tree for the next block, and where the sequences begin.

    Raises ValueError or IndexError for what is no block.
    """
    kind, form = block[0] & 3, block[0] >> 2 & 3
    if kind in (_RAW, _RUN):
        header = (1, 2, 1, 3)[form]
        size = int.from_bytes(block[:header], "little") >> (4 if form & 1 else 3)
        end = header + (1 if kind == _RUN else size)
        if size > most or end > len(block):
            raise ValueError("more literals than there are")
        return block[header:end] * (size if kind == _RUN else 1), tree, end
    width, header = _WIDTHS[form]
    sizes = int.from_bytes(block[:header], "little") >> 4
    size, end = sizes & ((1 << width) - 1), header + (sizes >> width)
    data = block[header:end]
    if size > most or end > len(block):
        raise ValueError("more literals than there are")
    if kind == _TREE:
        tree, used = _tree(data)
        data = data[used:]
    if tree is None:
        raise ValueError("it repeats a tree that it never had")
    return _streams(data, tree, size, four=form > 0), tree, end


def _streams(data: bytes, tree: Tree, size: int, *, four: bool) -> bytes:
    if not four:
        return _stream(data, tree, size)
    each, at, found = (size + 3) // 4, 6, b""
    for place in range(3):
        length = int.from_bytes(data[2 * place : 2 * place + 2], "little")
        found += _stream(data[at : at + length], tree, each)
        at += length
    return found + _stream(data[at:], tree, size - 3 * each)


def _stream(data: bytes, tree: Tree, size: int) -> bytes:
    stream, found = Backward(data), bytearray()
    depth, symbols, bits, peek = tree.depth, tree.symbols, tree.bits, stream.peek
    while stream.left > 0 and len(found) < size:
        code = peek(depth)
        found.append(symbols[code])
        stream.left -= bits[code]
    if stream.left or len(found) != size:
        raise ValueError("literals that do not end where they should")
    return bytes(found)


def _tree(data: bytes) -> tuple[Tree, int]:
    first = data[0]
    if first >= 128:
        count, used = first - 127, 1 + (first - 126) // 2
        weights = [data[1 + place // 2] >> (0 if place & 1 else 4) & 15 for place in range(count)]
    else:
        used = 1 + first
        weights = _coded_weights(data[1:used])
    whole = sum(1 << weight >> 1 for weight in weights)
    depth = whole.bit_length()
    rest = (1 << depth) - whole
    if not whole or depth > _DEEPEST or rest & (rest - 1):
        raise ValueError("weights that make no tree")
    weights.append(rest.bit_length())
    symbols, bits = list[int](), list[int]()
    for weight in range(1, depth + 1):
        for symbol, own in enumerate(weights):
            if own == weight:
                symbols += [symbol] * (1 << weight >> 1)
                bits += [depth + 1 - weight] * (1 << weight >> 1)
    return Tree(depth, symbols, bits), used


def _coded_weights(data: bytes) -> list[int]:
    """Two states take turns until one has no bits left to go on by."""
    table, at = from_header(data, 0, 6)
    bits = Backward(data[at:])
    states = [bits.read(table.log), bits.read(table.log)]
    weights, turn = list[int](), 0
    while len(weights) < 255:
        state = states[turn]
        weights.append(table.symbols[state])
        states[turn] = table.bases[state] + bits.read(table.bits[state])
        turn = 1 - turn
        if bits.left < 0:
            weights.append(table.symbols[states[turn]])
            return weights
    raise ValueError("more weights than there are symbols")
