"""Durations, sizes and shares as people write them, and back.

Durations become integers of nanoseconds, sizes integers of bytes. Every function that parses raises ValueError with
a sentence that names the value and what would be understood; the caller adds the file and the key.
"""

from __future__ import annotations

import re

from prune.settings.schema import DAY, HOUR, MINUTE, SECOND, WEEK, Share

_UNITS = {"ms": SECOND // 1000, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "w": WEEK}
_NUMBER = r"(\d+(?:\.\d+)?)"
_PART = re.compile(rf"{_NUMBER}\s*(ms|[smhdw])")
_DURATION = re.compile(rf"(?:{_NUMBER}\s*(?:ms|[smhdw])\s*)+")
_ISO = re.compile(
    rf"P(?:{_NUMBER}W)?(?:{_NUMBER}D)?(T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?",
)
_ISO_UNITS = {1: WEEK, 2: DAY, 4: HOUR, 5: MINUTE, 6: SECOND}
_SIZE = re.compile(rf"{_NUMBER}\s*([A-Za-z]*)")
_PERCENT = re.compile(rf"{_NUMBER}\s*%")
_LETTERS = "KMGTPE"
_FACTORS = (
    {"B": 1}
    | {f"{letter}B": 1000**power for power, letter in enumerate(_LETTERS, 1)}
    | {f"{letter}IB": 1024**power for power, letter in enumerate(_LETTERS, 1)}
)
_DURATION_HINT = "write 30s, 5m, 12h, 7d, 2w, PT5M, or a whole number of seconds"
_SIZE_HINT = "write 500MB, 2.5GB, 1TiB, or a whole number of bytes"


def parse_duration(value: str | int) -> int:
    """Nanoseconds of ``30s``, ``5m``, ``12h``, ``7d``, ``2w``, ``1h30m``, ISO 8601 (``PT5M``) or bare seconds.

    ISO months and years have no fixed length and are refused, as is anything negative.
    """
    if _is_whole(value):
        return int(value) * SECOND
    text = _text(value, _DURATION_HINT)
    if text.isdecimal():
        return int(text) * SECOND
    if _DURATION.fullmatch(text):
        return sum(_scaled(number, _UNITS[unit]) for number, unit in _PART.findall(text))
    if text[0] in "Pp":
        return _parse_iso(text)
    raise ValueError(f"{value!r} is no duration; {_DURATION_HINT}")


def parse_size(value: str | int) -> int:
    """Bytes of ``500MB`` (powers of 1000), ``1TiB`` (powers of 1024) or a bare number of bytes."""
    if _is_whole(value):
        return int(value)
    text = _text(value, _SIZE_HINT)
    if text.isdecimal():
        return int(text)
    match = _SIZE.fullmatch(text)
    unit = match[2].upper() if match else ""
    if match and unit in _FACTORS:
        return _scaled(match[1], _FACTORS[unit])
    if match and len(unit) == 1 and unit in _LETTERS:
        raise ValueError(f"{value!r} could mean {match[1]}{unit}B or {match[1]}{unit}iB; write one of them")
    raise ValueError(f"{value!r} is no size; {_SIZE_HINT}")


def parse_percent(value: str) -> Share:
    """A share of ``15%``, from 0 to 100."""
    match = _PERCENT.fullmatch(_text(value, "write 15%"))
    if not match:
        raise ValueError(f"{value!r} is no percentage; write 15%")
    if float(match[1]) > 100:
        raise ValueError(f"{value!r} is more than all; write at most 100%")
    return Share(float(match[1]))


def parse_size_or_percent(value: str | int) -> int | Share:
    """Bytes, or a share when it ends in ``%``."""
    if isinstance(value, str) and value.rstrip().endswith("%"):
        return parse_percent(value)
    try:
        return parse_size(value)
    except ValueError as error:
        raise ValueError(str(error).replace(_SIZE_HINT, f"{_SIZE_HINT}, or 15%")) from None


def format_size(size: int) -> str:
    """``0 B``, ``812 B``, ``2.3 GiB``: binary units, two or three digits."""
    if abs(size) < 1024:
        return f"{size} B"
    amount = float(size)
    for letter in _LETTERS:
        amount /= 1024
        if abs(amount) < 999.5 or letter == _LETTERS[-1]:
            break
    digits = 1 if abs(amount) < 99.95 else 0
    return f"{amount:.{digits}f} {letter}iB"


def format_duration(ns: int) -> str:
    """``5m``, ``3d 4h``, ``250ms``: the two largest units that count, rounded down; understood by parse_duration."""
    if ns < 0:
        return f"-{format_duration(-ns)}"
    if ns < SECOND:
        return f"{ns * 1000 // SECOND}ms" if ns >= SECOND // 1000 else "0s"
    units = (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND))
    largest = next(i for i, (_, length) in enumerate(units) if ns >= length)
    parts = []
    for name, length in units[largest : largest + 2]:
        count, ns = divmod(ns, length)
        if count:
            parts.append(f"{count}{name}")
    return " ".join(parts)


def _parse_iso(text: str) -> int:
    match = _ISO.fullmatch(text.upper())
    if match and match[3] != "T":
        parts = [(match[group], length) for group, length in _ISO_UNITS.items() if match[group]]
        if parts:
            return sum(_scaled(number, length) for number, length in parts)
    raise ValueError(f"{text!r} is no duration; {_DURATION_HINT} (ISO months and years have no fixed length)")


def _scaled(number: str, factor: int) -> int:
    """Exact for fractions: 0.1 of a unit is a tenth of it, not a rounded float's idea of it."""
    whole, _, fraction = number.partition(".")
    return int(whole) * factor + (int(fraction) * factor // 10 ** len(fraction) if fraction else 0)


def _is_whole(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    if value < 0:
        raise ValueError(f"{value} is negative")
    return True


def _text(value: object, hint: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not understood; {hint}")
    text = value.strip()
    if not text:
        raise ValueError(f"it is empty; {hint}")
    if text.startswith("-"):
        raise ValueError(f"{value!r} is negative; {hint}")
    return text
