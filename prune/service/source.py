"""Where the daemon's settings come from, and how they are read again."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from prune import logs
from prune.errors import PruneError
from prune.settings.files import without_waiting
from prune.settings.schema import Settings

Identity = tuple[int, int, int, int]


@dataclass
class Source:
    """Settings in force. ``load`` reads and checks them; what it refuses changes nothing.

    Run templates are looked up again before each pass, so that a new run is found; the text of a file that was
    edited meanwhile counts only once a reload is asked for.
    """

    load: Callable[[], Settings]
    check: Callable[[Settings], None] = lambda settings: None  # refuses what only a daemon needs right
    settings: Settings = field(init=False)
    trouble: str | None = None  # why the last reload was refused
    _file: Identity | None = None

    def __post_init__(self) -> None:
        self.settings = self._read()

    def reload(self) -> bool:
        """Reads everything again. A bad file keeps the old settings, says so, and returns False."""
        try:
            self.settings = self._read()
        except Exception as error:  # of whatever kind: no file may end the daemon
            self.trouble = _sentence(error)
            logs.error(f"the settings were not reloaded, the old ones stay: {self.trouble}")
            return False
        self.trouble = None
        logs.info(f"settings reloaded: {len(self.settings.runs)} runs")
        return True

    def refresh(self) -> bool:
        """Looks for new runs of templates. True where the runs changed."""
        if self._file is None or self._file != _identity(self.settings.source):
            return False
        try:
            found = self.load()
            self.check(found)
        except Exception as error:
            logs.warning(f"runs could not be looked up again, the known ones stay: {_sentence(error)}")
            return False
        changed = found.runs != self.settings.runs
        self.settings = found
        return changed

    def _read(self) -> Settings:
        settings = self.load()
        self.check(settings)
        self._file = _identity(settings.source) if settings.source and _has_templates(settings.source) else None
        return settings


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, PruneError) else f"{type(error).__name__}: {error}"


def _identity(path: str | None) -> Identity | None:
    if path is None:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _has_templates(path: str) -> bool:
    try:
        with open(path, encoding="utf-8", opener=without_waiting) as file:
            return "{run}" in file.read()
    except (OSError, UnicodeDecodeError):
        return False
