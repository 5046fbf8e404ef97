"""Metrics by epoch out of the CSV files that trainers append to."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from prune.stores.base import Reader

_MOST = 16 << 20  # bytes that are looked through
_EPOCH = "epoch"


def by_epoch(reader: Reader, path: str) -> Mapping[int, Mapping[str, float]]:
    """Rows by the number in their column ``epoch``, the last of each; empty where there is no such file or column.

    Raises OSError where the file is there and cannot be read.
    """
    try:
        with reader.open(path) as file:
            text = file.read(_MOST).decode("utf-8", "replace")
    except FileNotFoundError:
        return {}
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error:
        return {}
    names = [name.strip() for name in rows[0]] if rows else []
    if _EPOCH not in names:
        return {}
    numbered = (dict(zip(names, map(_number, row), strict=False)) for row in rows[1:])
    found: dict[int, Mapping[str, float]] = {}
    for row in numbered:
        epoch = row.pop(_EPOCH, None)
        if epoch is not None and epoch == int(epoch):
            found[int(epoch)] = {name: value for name, value in row.items() if value is not None}
    return found


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) < 1e300 else None
