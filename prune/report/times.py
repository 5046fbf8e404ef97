"""Times as people and programs read them: ISO 8601, UTC, whole seconds."""

from __future__ import annotations

import datetime

from prune.model import SECOND

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_OF_UTC = datetime.datetime(1970, 1, 1)  # without a time zone to format: many thousands of them are written


def iso(ns: int | None) -> str | None:
    """``2026-11-29T15:38:00Z``; None for None, and for what no calendar holds."""
    if ns is None:
        return None
    try:
        moment = _EPOCH_OF_UTC + datetime.timedelta(seconds=ns // SECOND)
    except OverflowError:
        return None
    return f"{moment.isoformat()}Z" if moment.year >= 1000 else None


def from_iso(text: str) -> int:
    """Nanoseconds since the epoch. Raises ValueError for what is no such time."""
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} says no time zone")
    since = moment - _EPOCH
    return (since.days * 86400 + since.seconds) * SECOND + since.microseconds * 1000


def ago(ns: int | None, now_ns: int) -> str:
    """``3m ago``, ``in 2h``, ``at an unknown time``."""
    from prune.settings.units import format_duration

    if ns is None:
        return "at an unknown time"
    return f"{format_duration(now_ns - ns)} ago" if ns <= now_ns else f"in {format_duration(ns - now_ns)}"
