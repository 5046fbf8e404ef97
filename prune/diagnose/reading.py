"""A log read for its troubles: which line tells what, and which of several is the cause."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from prune.diagnose.paths import names_checkpoint
from prune.diagnose.signatures import EMPTY, KILLED, RAISED, SIGNATURES, WORDS, Near, Signature, Trouble

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RANK = re.compile(
    r"\A\s*(?:\[?(?:rank|default|worker|node)\W?[0-9]+\]?\W{0,2}|\([^)]*pid=[0-9]+[^)]*\)\s?)(?=\S|\s)", re.I
)
_AROUND = re.compile(
    r"torch/serialization|torch/distributed/checkpoint|safetensors|numpy/lib/.*npyio|h5py|pickle\.load|torch\.(load|save)|"
    r"checkpoint|ckpt|load_state|save_state|(save|from)_pretrained|resum|restor",
    re.IGNORECASE,
)
_LOOK_BACK = 80  # lines of a traceback, at most
LONGEST_LINE = 4000


@dataclass(frozen=True, slots=True)
class Sighting:
    """One line of the log that a signature fits; ``line`` counts from 1."""

    signature: Signature
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a log tells. ``cause`` is None where nothing in it is known to us."""

    lines: tuple[str, ...]
    cause: Sighting | None
    also: tuple[Sighting, ...]  # the first line of each other kind of trouble
    killed: str | None  # the line that tells of a process that was ended
    raised: str | None  # the last line of the last traceback


def read(text: str) -> Reading:
    """Finds the troubles in a log. A checkpoint problem outweighs others; of its own kind the first is the cause.

    What follows the first is mostly its consequence: other ranks, retries, shutdowns.
    """
    lines = tuple(_clean(line) for line in text.splitlines())
    telling = [number for number, line in enumerate(lines) if _may_tell(line)]
    sightings = [sighting for number in telling if (sighting := _sighting(lines, number)) is not None]
    cause = _cause(sightings)
    told = [lines[number] for number in telling]
    return Reading(lines, cause, _others(sightings, cause), _last(told, KILLED), _last(lines, RAISED))


def _may_tell(line: str) -> bool:
    lowered = line.lower()
    return any(word in lowered for word in WORDS)


def _clean(line: str) -> str:
    """Without colours, progress bars written over and prefixes of ranks."""
    line = _ESCAPES.sub("", line[:LONGEST_LINE]).rstrip("\r").rpartition("\r")[2]
    return _RANK.sub("", line, count=1)


def _sighting(lines: Sequence[str], number: int) -> Sighting | None:
    line = lines[number].strip()
    for signature in SIGNATURES:
        if signature.pattern.search(line) and _is_near(signature.near, lines, number):
            return Sighting(signature, number + 1, line)
    if line == "EOFError" and _is_near("traceback", lines, number):  # torch.load says no more of an empty file
        return Sighting(EMPTY, number + 1, line)
    return None


def _is_near(near: Near, lines: Sequence[str], number: int) -> bool:
    """Whether a checkpoint is named where it must be for the line to speak of one."""
    if near == "line":
        return names_checkpoint(lines[number])
    if near == "traceback":
        return any(_AROUND.search(line) or names_checkpoint(line) for line in _block(lines, number))
    return True


def _block(lines: Sequence[str], number: int) -> Sequence[str]:
    """The line with the traceback it ends; without one, the line alone."""
    start = number
    for at in range(number - 1, max(-1, number - _LOOK_BACK), -1):
        if lines[at].lstrip().startswith("Traceback (most recent call last)"):
            start = at
            break
        if RAISED.match(lines[at]) and at < number:
            break
    return lines[start : number + 1]


_ORDER = (
    {Trouble.SAVE, Trouble.STORAGE},  # why a save failed explains the damage it left
    {Trouble.DAMAGED, Trouble.MISSING, Trouble.POINTER},
    {Trouble.OTHER},
)


def _cause(sightings: Sequence[Sighting]) -> Sighting | None:
    for kinds in _ORDER:
        of_kind = [sighting for sighting in sightings if sighting.signature.trouble in kinds]
        if of_kind:
            return _plainest(of_kind)
    return None


def _plainest(sightings: Sequence[Sighting]) -> Sighting:
    """The first; but a line that speaks for itself outweighs an earlier one that means something only by its place."""
    strong = [sighting for sighting in sightings if not sighting.signature.near]
    of_room = [sighting for sighting in sightings if sighting.signature.id in ("disk-full", "quota")]
    return (of_room or strong or list(sightings))[0]


def _others(sightings: Sequence[Sighting], cause: Sighting | None) -> tuple[Sighting, ...]:
    found: dict[str, Sighting] = {}
    for sighting in sightings:
        if cause is None or sighting.signature.id != cause.signature.id:
            found.setdefault(sighting.signature.id, sighting)
    return tuple(found.values())


def _last(lines: Sequence[str], pattern: re.Pattern[str]) -> str | None:
    return next((line.strip() for line in reversed(lines) if pattern.search(line)), None)
