"""Log lines on stderr. Loguru is imported when the first line is really written: most commands write none.

Secrets never reach a line: passwords in URLs, bearer tokens, and whatever :func:`hide` was told.
"""

from __future__ import annotations

import re
import sys
from typing import Any

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
_NAMES = {DEBUG: "DEBUG", INFO: "INFO", WARNING: "WARNING", ERROR: "ERROR"}
_URL_PASSWORD = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^\s/@:]*:)[^\s/@]+(?=@)", re.IGNORECASE)
_LABELLED = re.compile(
    r"(?P<before>(?:bearer\s+|(?:token|password|secret|secret_access_key|account_key|sig|signature)[\"']?\s*[=:]\s*[\"']?))"
    r"[^\s\"'&,;}]+",
    re.IGNORECASE,
)

_level = WARNING
_color = False
_secrets: set[str] = set()
_logger: Any = None


def configure(*, quiet: bool = False, verbose: bool = False, color: bool = False, daemon: bool = False) -> None:
    """Errors alone when quiet, everything when verbose; a daemon also tells what it does."""
    global _level, _color, _logger
    _level = DEBUG if verbose else ERROR if quiet else INFO if daemon else WARNING
    _color = color
    _logger = None


def hide(secret: str | None) -> None:
    """From now on ``secret`` is written as ``***``."""
    if secret:
        _secrets.add(secret)


def masked(text: str) -> str:
    """``text`` without any secret that can be told as one."""
    for secret in _secrets:
        text = text.replace(secret, "***")
    return _LABELLED.sub(r"\g<before>***", _URL_PASSWORD.sub(r"\g<before>***", text))


def debug(message: str, **about: object) -> None:
    _write(DEBUG, message, about)


def info(message: str, **about: object) -> None:
    _write(INFO, message, about)


def warning(message: str, **about: object) -> None:
    _write(WARNING, message, about)


def error(message: str, **about: object) -> None:
    _write(ERROR, message, about)


def shows(level: int) -> bool:
    """Whether a line of this level would be written: for messages that cost something to make."""
    return level >= _level


def _write(level: int, message: str, about: dict[str, object]) -> None:
    if level < _level:
        return
    extra = "".join(f" {key}={value}" for key, value in about.items())
    line = _one_line(masked(message + extra))
    _sink().opt(depth=2, raw=False).log(_NAMES[level], "{}", line)


def _one_line(text: str) -> str:
    """A name may hold a line end, or what a terminal obeys: neither may look like a line of our own. The mend, which
    stands under its error, is told behind it."""
    if text.isprintable():
        return text
    text = text.replace("\n  ", ": ")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _sink() -> Any:
    """Loguru's logger, writing to whatever stderr is now."""
    global _logger
    if _logger is None:
        from loguru import logger

        logger.remove()
        form = "<level>{level: <7}</level> {message}" if _level > DEBUG else "{time:HH:mm:ss.SSS} {level: <7} {message}"
        logger.add(_to_stderr, format=form, level=_level, colorize=_color, catch=True)
        _logger = logger
    return _logger


def _to_stderr(line: str) -> None:
    sys.stderr.write(line)
