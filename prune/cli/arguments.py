"""Values that several commands take, read with the option's name in every refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from prune.errors import UsageError
from prune.settings import checks, units
from prune.settings.schema import Share

T = TypeVar("T")


def _read(option: str, value: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(value)
    except ValueError as error:
        raise UsageError(f"{option} {value!r}: {error}") from None


def duration_option(option: str, value: str) -> int:
    """Nanoseconds."""
    return _read(option, value, units.parse_duration)


def size_option(option: str, value: str) -> int:
    """Bytes, more than none."""
    return _read(option, value, checks.size)


def room_option(option: str, value: str) -> int | Share:
    """A size, or a share of the volume."""
    return _read(option, value, checks.room)


def step_argument(value: str) -> int:
    """A step as a person writes it: a number, or a name that ends in one (``step_0810.pt``, ``checkpoint-810``)."""
    from prune.layouts.naming import LARGEST_STEP

    number = _number_in(value)
    if number > LARGEST_STEP:
        raise UsageError(f"{value!r} is no step: no checkpoint is numbered beyond {LARGEST_STEP}",
                         mend="Write its number, as `prune plan` shows it.")  # fmt: skip
    return number


def _number_in(value: str) -> int:
    import re

    text = value.strip().rstrip("/").rpartition("/")[2]
    if text.isdecimal() and text.isascii():
        return int(text)
    numbers = re.findall(r"\d+", text.partition(".")[0])
    if len(numbers) == 1:
        return int(numbers[0])
    raise UsageError(f"{value!r} is no step", mend="Write its number, as `prune plan` shows it.")
