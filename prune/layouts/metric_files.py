"""Metrics on disk that no stack owns: ``name=value`` in names, and a ``metrics.json`` beside the checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from prune.layouts import naming
from prune.layouts.base import Reader, RootView
from prune.stores.base import read_text

FILE = "metrics.json"
_LARGE = 10**300  # JSON has whole numbers that no float can hold
LIMIT = 64 << 20  # bytes of JSON read at most


def beside(view: RootView) -> Mapping[int, Mapping[str, float]]:
    """Metrics by step from the names of the steps, then from ``metrics.json`` in the base, else in the root.

    Raises OSError where such a file is there and cannot be read.
    """
    found = {step: values for step, values in in_names(view).items() if values}
    for step, values in _in_file(view):
        found.setdefault(step, {}).update(values)
    return found


def in_names(view: RootView) -> dict[int, dict[str, float]]:
    """The ``name=value`` pairs in every step's names."""
    found: dict[int, dict[str, float]] = {}
    for step, claims in view.steps.items():
        values: dict[str, float] = {}
        for claim in claims:
            if "=" in claim.path:
                values.update(naming.metrics(_stem(claim.path)))
        found[step] = values
    return found


def numbers(row: Any) -> dict[str, float]:
    """The numbers in a JSON object, by name, NaN included; truth values and infinities are none."""
    if not isinstance(row, dict):
        return {}
    return {str(name): float(value) for name, value in row.items() if _is_number(value)}


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value != value or abs(value) < _LARGE


def read_json(reader: Reader, path: str, limit: int = LIMIT) -> Any:
    """A JSON document. Raises OSError, and ValueError for what cannot be parsed, is too long or too deep."""
    try:
        return json.loads(read_text(reader, path, limit))
    except RecursionError:
        raise ValueError(f"{path}: nested too deeply") from None


def _in_file(view: RootView) -> Iterator[tuple[int, dict[str, float]]]:
    for path in dict.fromkeys((view.at(FILE), FILE)):
        try:
            document = read_json(view.reader, path)
        except (FileNotFoundError, ValueError):
            continue
        yield from _rows(document)
        return


def _rows(document: Any) -> Iterator[tuple[int, dict[str, float]]]:
    """Rows of ``{"100": {"loss": 0.1}}`` or ``[{"step": 100, "loss": 0.1}]``."""
    if isinstance(document, dict):
        for key, row in document.items():
            if key.isascii() and key.isdigit() and len(key) <= 18:
                yield int(key), numbers(row)
    elif isinstance(document, list):
        for row in document:
            step = row.get("step") if isinstance(row, dict) else None
            if isinstance(step, int) and not isinstance(step, bool):
                yield step, {name: value for name, value in numbers(row).items() if name != "step"}


def _stem(path: str) -> str:
    """The last name without its extension, when what follows the last dot is no number's fraction."""
    name = path.rpartition("/")[2]
    stem, dot, ending = name.rpartition(".")
    return stem if dot and not ending[:1].isdigit() else name
