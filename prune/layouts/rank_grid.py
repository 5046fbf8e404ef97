"""Files of ranks that must be complete: 0 to n-1 in every dimension, with none left out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from math import prod


def ranks(names: Iterable[str], pattern: re.Pattern[str]) -> frozenset[tuple[int, ...]]:
    """The numbers in every name that matches in full; a group that took no part counts as 0."""
    found = (pattern.fullmatch(name) for name in names)
    return frozenset(tuple(int(group or 0) for group in match.groups()) for match in found if match)


def gap(found: frozenset[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The first missing place of the smallest full grid around what was found; None when none is missing.

    Whole rows missing at the end cannot be seen from the numbers alone; sizes beside sibling steps tell those.
    """
    if not found:
        return None
    shape = [1 + max(numbers) for numbers in zip(*found, strict=True)]
    if prod(shape) == len(found):
        return None
    # Stops within len(found) + 1 places, so a wild number in one name cannot make this long.
    return next(place for place in product(*(range(size) for size in shape)) if place not in found)
