"""What a command says: its result on stdout, everything else on stderr."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import Any, TextIO

from prune import logs
from prune.errors import Failed

_OPEN_LEVELS = 4  # the document, its runs, one run, its lists: from there on an item is a line


@dataclass(frozen=True, slots=True)
class Screen:
    """How the user wants to be talked to."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    strict: bool = False
    no_color: bool = False

    @property
    def terminal(self) -> bool:
        """Whether stdout is a terminal that a person looks at."""
        return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    @property
    def color(self) -> bool:
        return self.terminal and not self.no_color and not os.environ.get("NO_COLOR")

    def say(self, text: str = "") -> None:
        """One or more lines for people on stdout; nothing when JSON was asked for."""
        if not self.json:
            write(sys.stdout, text + "\n")

    def emit(self, document: Any) -> None:
        """The JSON document that is the result."""
        write(sys.stdout, to_json(document))

    def note(self, text: str) -> None:
        """A line on stderr, for people; not when quiet."""
        if not self.quiet:
            write(sys.stderr, logs.masked(text) + "\n")

    def warn(self, text: str) -> None:
        """A line on stderr that is said even when quiet."""
        write(sys.stderr, logs.masked(text) + "\n")

    def agrees(self, question: str, *, yes: bool) -> bool:
        """Whether to go on: asks only a person at a terminal."""
        if yes or not sys.stdin.isatty():
            return True
        write(sys.stderr, f"{question} [y/N] ")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def progress(self) -> Progress:
        """A progress line on stderr, where a person looks at it."""
        return Progress(sys.stderr, shown=sys.stderr.isatty() and not self.quiet)

    def byte_progress(self) -> Progress:
        """The same for work that is counted in bytes, with its rate and the time that is left."""
        return ByteProgress(sys.stderr, shown=sys.stderr.isatty() and not self.quiet)


class Progress:
    """One line on stderr that is written over, at most ten times a second; gone when the work is done."""

    def __init__(self, stream: TextIO, *, shown: bool) -> None:
        self._stream, self._shown = stream, shown
        self._last = 0.0
        self._width = 0

    def __call__(self, what: str, done: int, of: int) -> None:
        now = time.monotonic()
        if not self._shown or now - self._last < 0.1:
            return
        self._last = now
        line = self._text(what, done, of)[: max(20, _columns() - 1)]
        write(self._stream, "\r" + line.ljust(self._width))
        self._width = len(line)

    def _text(self, what: str, done: int, of: int) -> str:
        return f"{what} {done}/{of}" if of else f"{what} {done}"

    def end(self) -> None:
        if self._width:
            write(self._stream, "\r" + " " * self._width + "\r")
            self._width = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class ByteProgress(Progress):
    """A progress line of bytes: how many of how many, how fast, and how long it will still take."""

    def __init__(self, stream: TextIO, *, shown: bool) -> None:
        super().__init__(stream, shown=shown)
        self._what = ""
        self._began, self._from = 0.0, 0

    def _text(self, what: str, done: int, of: int) -> str:
        from prune.settings.units import format_duration, format_size

        now = time.monotonic()
        if what != self._what or done < self._from:
            self._what, self._began, self._from = what, now, done
        seconds = now - self._began
        rate = (done - self._from) / seconds if seconds > 0.5 else 0.0
        text = f"{what} {format_size(done)} of {format_size(of)}"
        if rate < 1:
            return text
        left = format_duration(int(max(0, of - done) / rate) * 1_000_000_000)
        return f"{text}, {format_size(int(rate))}/s, {left} left"


def to_json(document: Any) -> str:
    """JSON text in ASCII, a step a line: names that are not UTF-8 survive it as lone surrogates."""
    return _laid_out(document, _OPEN_LEVELS, "") + "\n"


def _laid_out(value: Any, levels: int, indent: str) -> str:
    """What is on the outer levels an item a line, what is below them on one."""
    import json

    if not levels or not value or not isinstance(value, (dict, list, tuple)):
        return json.dumps(value, ensure_ascii=True, allow_nan=False)
    deeper = indent + "  "
    if isinstance(value, dict):
        items = [f"{json.dumps(str(key))}: {_laid_out(item, levels - 1, deeper)}" for key, item in value.items()]
    else:
        items = [_laid_out(item, levels - 1, deeper) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inner = f",\n{deeper}".join(items)
    return f"{opening}\n{deeper}{inner}\n{indent}{closing}"


def write(stream: TextIO, text: str) -> None:
    """Writes whatever the stream can show, and the rest escaped."""
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failed(f"{'standard output' if stream is sys.stdout else 'standard error'}: {error.strerror}") from None


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 80
