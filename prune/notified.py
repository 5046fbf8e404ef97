"""What has been told, remembered between processes: a cron job tells a thing once, and a restart repeats nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

from prune import logs
from prune.errors import UsageError
from prune.journal import default_state
from prune.model import Outcome
from prune.notify import Notifier, matters_of
from prune.outbox import Outbox, channels
from prune.settings.schema import Settings

SENDING_SECONDS = 30.0


def memory_of(state: str | None) -> str | None:
    """Where what was told is remembered: beside an SQLite state; None where the state is no file."""
    url = state or default_state()
    if not url.startswith("sqlite:///"):
        return None
    stem, _ = os.path.splitext(url.removeprefix("sqlite:///"))
    return f"{stem}.notified.json"  # several states may lie in one directory


def recall(notifier: Notifier, path: str | None) -> None:
    """Loads what an earlier process had told. Without it everything is told anew, which is no harm."""
    if path is None:
        return
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        logs.warning(f"{path}: what was told before cannot be read: {error}")
        return
    if isinstance(found, list):
        notifier.recall(entry for entry in found if isinstance(entry, dict))


def remember(notifier: Notifier, path: str | None) -> None:
    """Saves what is open now; a disk that refuses only means that things are told again."""
    if path is None:
        return
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(f"{path}.next", "w", encoding="utf-8", opener=_private) as file:
            json.dump(notifier.open_matters(), file)
        os.replace(f"{path}.next", path)
    except OSError as error:
        logs.warning(f"{path}: what was told cannot be remembered: {error.strerror}")


def tell_outcome(settings: Settings, outcome: Outcome) -> None:
    """Tells the configured channels what a pass of the command line found, each thing once. Never raises."""
    notify = settings.service.notify
    if not (notify.webhook or notify.apprise):
        return
    with _outbox(settings) as outbox:
        notifier = Notifier(notify.every, outbox)
        path = memory_of(settings.state)
        recall(notifier, path)
        notifier.observe_all(
            {run.run: matters_of(run.run, run.attention, [run.blocked] if run.blocked else []) for run in outcome.runs}
        )
        remember(notifier, path)


@contextmanager
def _outbox(settings: Settings) -> Iterator[Outbox]:
    try:
        outbox = Outbox(channels(settings.service.notify))
    except (ValueError, UsageError) as error:
        logs.error(f"nobody is notified: {error}")
        outbox = Outbox([])
    yield outbox
    outbox.close(SENDING_SECONDS)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
