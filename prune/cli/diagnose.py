"""`prune diagnose [LOG]`."""

from __future__ import annotations

import os
import stat
import sys
from typing import BinaryIO

import click

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen
from prune.errors import UsageError

_MOST = 16 << 20  # bytes; of a longer log, the end
_PIECE = 1 << 20


@verb("diagnose")
@on_runs
@click.argument("log", required=False)
@click.option("--path", metavar="CHECKPOINT", help="The checkpoint it is about, where the log does not name it.")
def command(screen: Screen, chosen: Chosen, log: str | None, path: str | None) -> int:
    """Read a traceback or log: which checkpoint broke, how, and what to resume from instead.

    LOG is a file, or - for standard input, which is also read when it is left out. Nothing is changed, and nothing
    leaves this machine.
    """
    from prune.diagnose import diagnose
    from prune.diagnose.result import sentences, to_json

    text = _read(log, screen) if log is not None or path is None else ""
    if not text.strip() and path is None:
        raise UsageError("there is nothing to read", mend="give a log, or the checkpoint by --path")
    beside = [os.curdir] if log in (None, "-") else [os.curdir, os.path.dirname(os.path.abspath(log or ""))]
    runs = () if chosen.nothing_said else chosen.load().runs
    found = diagnose(text, runs=runs, path=path, beside=beside)
    if screen.json:
        screen.emit(to_json(found))
    else:
        for label, sentence in sentences(found):
            screen.say(f"{label + ':':<19}{sentence}")
    return 0


def _read(log: str | None, screen: Screen) -> str:
    """The log, or the end of a very long one. Raises UsageError where it cannot be read."""
    try:
        if log is None or log == "-":
            if sys.stdin.isatty():
                screen.note("reading the log from standard input; end it with Ctrl-D")
            return _end(sys.stdin.buffer)
        with open(log, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
                raise UsageError(f"{log}: is no log file")
            if stat.S_ISREG(mode):
                file.seek(max(0, os.path.getsize(log) - _MOST))
            return _end(file)
    except (OSError, ValueError) as error:
        raise UsageError(f"{log}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _end(file: BinaryIO) -> str:
    """The last of a stream, however long it is."""
    kept = bytearray()
    while piece := file.read(_PIECE):
        kept += piece
        if len(kept) > 2 * _MOST:
            del kept[:-_MOST]
    return bytes(kept[-_MOST:]).decode("utf-8", "replace")
