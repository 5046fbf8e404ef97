"""What a report consists of: lines and grids of words. Colour may underline a word, it never stands for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Style = Literal["", "good", "bad", "warn", "dim", "strong"]


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    style: Style = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One paragraph, made of cells one after the other; ``indent`` counts spaces."""

    cells: tuple[Cell, ...] = ()
    indent: int = 0


@dataclass(frozen=True, slots=True)
class Grid:
    """A table. ``right`` names the columns that are aligned to the right."""

    titles: tuple[str, ...]
    rows: list[tuple[Cell, ...]] = field(default_factory=list)
    right: frozenset[str] = frozenset()


Report = list[Line | Grid]


def line(*parts: str | Cell, indent: int = 0) -> Line:
    return Line(tuple(part if isinstance(part, Cell) else Cell(part) for part in parts), indent)


def printable(text: str) -> str:
    """``text`` with everything escaped that a terminal would not show as it is: newlines, bytes that are not UTF-8,
    control and direction characters."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def in_utf8(text: str) -> str:
    """``text`` as it is, but for bytes that are not UTF-8: for formats that can hold everything else."""
    return "".join(_escaped(letter) if "\ud800" <= letter <= "\udfff" else letter for letter in text)


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as surrogateescape holds it
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 2 else list(words))
