"""Dividing a fleet's runs among jobs: each run belongs to one shard by its name alone, so that adding a run moves
no other."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from prune.errors import UsageError
from prune.settings.schema import Settings

_SHARD = re.compile(r"(\d+)/(\d+)")


def parse_shard(text: str) -> tuple[int, int]:
    """``2/8`` → (2, 8): the second of eight. Raises UsageError for what is none."""
    match = _SHARD.fullmatch(text)
    index, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= index <= count:
        raise UsageError(f"--shard {text!r}: must be I/N with I from 1 to N", mend="Write 1/8 for the first of eight.")
    return index, count


def shard(settings: Settings, index: int, count: int) -> Settings:
    """The settings with only those runs that belong to shard ``index`` of ``count``."""
    return replace(settings, runs=tuple(run for run in settings.runs if shard_of(run.name, count) == index))


def shard_of(name: str, count: int) -> int:
    """The shard of a run, from 1 to ``count``."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") % count + 1
