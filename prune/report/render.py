"""A report as text: aligned words for pipes and files, rich tables at a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from prune.report.lines import Cell, Grid, Line, Report

if TYPE_CHECKING:
    from prune.cli.output import Screen

_RICH = {"good": "green", "bad": "red", "warn": "yellow", "dim": "dim", "strong": "bold", "": ""}

_NARROW = 24  # a column of cells up to this wide is never broken over lines


def show(report: Report, screen: Screen) -> None:
    """Prints a report as the screen shows it best; nothing when JSON or silence was asked for."""
    if screen.json or screen.quiet:
        return
    if screen.terminal:
        _rich(report, color=screen.color)
    else:
        screen.say(plain(report))


def plain(report: Report) -> str:
    """The report as aligned text without colour; costs no import that a plan has not paid for already."""
    return "\n".join(_plain_part(part) for part in report)


def _plain_part(part: Line | Grid) -> str:
    if isinstance(part, Line):
        return " " * part.indent + "".join(cell.text for cell in part.cells)
    rows = [part.titles, *([cell.text for cell in row] for row in part.rows)]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    right = [title in part.right for title in part.titles]
    return "\n".join(_plain_row(row, widths, right) for row in rows)


def _plain_row(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = [
        " " * (most - width(text)) + text if to_right else text + " " * (most - width(text))
        for text, most, to_right in zip(row, widths, right, strict=True)
    ]
    return "  ".join(cells).rstrip()


def width(text: str) -> int:
    """Columns a terminal needs for ``text``: East Asian characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _rich(report: Report, *, color: bool) -> None:
    from rich.console import Console

    console = Console(no_color=not color, highlight=False, markup=False, emoji=False)
    for part in report:
        console.print(_rich_grid(part) if isinstance(part, Grid) else _rich_line(part))


def _rich_line(part: Line) -> Any:
    from rich.padding import Padding

    return Padding(_rich_text(part.cells), (0, 0, 0, part.indent))


def _rich_text(cells: Iterable[Cell]) -> Any:
    from rich.text import Text

    return Text.assemble(*((cell.text, _RICH[cell.style]) for cell in cells))


def _rich_grid(part: Grid) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, title in enumerate(part.titles):
        short = all(width(row[place].text) <= _NARROW for row in part.rows)
        justify: Any = "right" if title in part.right else "left"
        table.add_column(title, justify=justify, overflow="fold", no_wrap=short)
    for row in part.rows:
        table.add_row(*(_rich_text([cell]) for cell in row))
    return table
