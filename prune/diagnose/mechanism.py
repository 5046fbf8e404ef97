"""How a checkpoint came to be as it is: the log's own words, weighed against what stands on the disk."""

from __future__ import annotations

import os

from prune.diagnose.place import Look
from prune.diagnose.reading import Reading
from prune.diagnose.signatures import CUT, NEVER, ZEROS, Trouble
from prune.model import Health
from prune.settings.units import format_size

_TEMPORARY = (".part", ".partial", ".tmp", ".incomplete", ".staging")
_SMALL_SHARE = 100  # a volume with less than this part of it free is as good as full


def mechanism(reading: Reading, look: Look) -> str:
    """A sentence: the likeliest way to this state, and what else speaks for it."""
    return "; ".join(part for part in (_likeliest(reading, look), _ended(reading, look), _room(reading, look)) if part)


def _likeliest(reading: Reading, look: Look) -> str:
    signature = reading.cause.signature if reading.cause else None
    if look.holder is not None:
        return f"it is open in {look.holder} right now: it may be read while it is still written"
    if signature is not None and signature.trouble in (Trouble.SAVE, Trouble.STORAGE):
        return signature.how
    if not look.exists:
        return signature.how if signature is not None else "it is not there"
    if look.path.endswith(_TEMPORARY):
        return "it is a temporary: its writer never came to the rename"
    if look.size == 0:
        return NEVER
    if look.hollow:
        return (
            f"only {format_size(look.allocated)} of its {format_size(look.size)} were ever written to the disk: {ZEROS}"
        )
    if look.health is Health.BROKEN:
        return _of_damage(look, signature.how if signature is not None else CUT)
    return (
        "its structure is complete now: it was replaced since, or read while it was written, or is damaged inside, "
        "where only reading all of it shows"
    )


def _of_damage(look: Look, said: str) -> str:
    return ZEROS if look.detail is not None and "zero" in look.detail else said


def _ended(reading: Reading, look: Look) -> str:
    return f"the log says that a process was ended: {reading.killed[:200]}" if reading.killed else ""


def _room(reading: Reading, look: Look) -> str:
    """What the volume says of room now, where a lack of it may have been the reason."""
    folder = look.path
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    try:
        space = os.statvfs(folder)
    except OSError as error:
        return f"{folder} cannot be looked at: {error.strerror}"
    free, total = space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize
    failed = reading.cause is not None and reading.cause.signature.trouble is Trouble.SAVE
    if total and (failed or free < total // _SMALL_SHARE):
        return f"{format_size(free)} of {format_size(total)} are free there now"
    return ""
