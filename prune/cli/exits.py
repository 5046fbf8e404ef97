"""How a command ends: every error becomes a sentence and an exit code here, and nowhere else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from prune import logs
from prune.errors import PruneError

if TYPE_CHECKING:
    from prune.model import Outcome, Plan

DONE, FAILED, USAGE, BLOCKED, NOT_REACHED, DAMAGE, NOTHING_YET, ATTENTION = range(8)
_WORST_FIRST = (BLOCKED, FAILED, NOT_REACHED, DAMAGE)


class Terminated(BaseException):
    """SIGTERM reached a command that has no step to finish."""


def worst(codes: Iterable[int], *, attention: bool = False, strict: bool = False) -> int:
    """The exit code of several runs: blocked before failed before not reached before damage.

    Attention alone counts only when ``strict``.
    """
    found = set(codes)
    for code in _WORST_FIRST:
        if code in found:
            return code
    return ATTENTION if strict and attention else DONE


def code_of_plan(plan: Plan, *, strict: bool = False) -> int:
    codes = (BLOCKED if run.blocks else DONE for run in plan.runs)
    notices = plan.settings.notices if plan.settings else ()
    return worst(codes, attention=bool(notices) or any(run.attention for run in plan.runs), strict=strict)


def code_of_outcome(outcome: Outcome, *, strict: bool = False) -> int:
    codes = [BLOCKED for run in outcome.runs if run.blocked] + [FAILED for run in outcome.runs if run.failed]
    return worst(codes, attention=any(run.attention for run in outcome.runs), strict=strict)


def run(command: click.Command, args: Sequence[str] | None = None) -> int:
    """Runs a click command whose callback returns its exit code, and turns whatever it raises into one."""
    _open_what_is_closed()
    _end_on_sigterm()
    try:
        code = _told(command, args)
        sys.stdout.flush()
    except BrokenPipeError:
        code = _reader_is_gone()
    except OSError as error:
        code = _say(f"standard output: {error.strerror}", FAILED)
    return code


def _open_what_is_closed() -> None:
    """A standard stream that the caller closed leads to nowhere.

    Else the next file to be opened would take its number, and what somebody prints would land in that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in this order each gets its own number
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  (until the process ends)


def _told(command: click.Command, args: Sequence[str] | None) -> int:
    try:
        result = command.main(args=args, prog_name="prune", standalone_mode=False)
        return result if isinstance(result, int) else DONE
    except PruneError as error:
        return _say(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        return USAGE if isinstance(error, click.UsageError | click.FileError) else error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _say("interrupted", 128 + signal.SIGINT)
    except Terminated:
        return _say("terminated", 128 + signal.SIGTERM)
    except BrokenPipeError:
        raise
    except RecursionError:
        return _unexpected(RecursionError("too deep a nesting"))
    except Exception as error:  # the last net: whatever it is, a person gets a sentence
        return _unexpected(error)


def _unexpected(error: Exception) -> int:
    if logs.shows(logs.DEBUG):
        import traceback

        sys.stderr.write(logs.masked("".join(traceback.format_exception(error))))
        hint = "please report this with the lines above"
    else:
        hint = "please report this, with what --verbose says about it"
    text = f"{type(error).__name__}: {error}" if not isinstance(error, OSError) else _of_system(error)
    return _say(f"unexpected: {text}\n  Nothing was assumed; {hint}.", FAILED)


def _of_system(error: OSError) -> str:
    named = f"{error.filename}: " if error.filename else ""
    return f"{named}{error.strerror or error}"


def _say(text: str, code: int) -> int:
    line = logs.masked(f"prune: {text}\n").encode("utf-8", "backslashreplace").decode("utf-8")
    try:
        sys.stderr.write(line)
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody hears it; the code still tells
        pass
    return code


def _reader_is_gone() -> int:
    """The other end of the pipe was closed, as `| head` does: end quietly, and let the shutdown not complain."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
    return 128 + signal.SIGPIPE


def _end_on_sigterm() -> None:
    def end(_number: int, _frame: FrameType | None) -> Any:
        raise Terminated

    try:
        signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread, so the signals are somebody else's
        pass
