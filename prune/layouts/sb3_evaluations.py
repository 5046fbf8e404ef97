"""Mean rewards out of ``evaluations.npz``, as stable-baselines3's ``EvalCallback`` writes it; arrays of numbers only.

Format: numpy/numpy, ``lib/format.py`` (a magic, a length, a header in text, then the numbers).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from math import prod
from typing import IO, BinaryIO

from prune.stores.base import Reader

NAME = "evaluations.npz"
_MOST = 16 << 20  # bytes of one array
_LETTERS = {"i8": "q", "i4": "i", "f8": "d", "f4": "f"}
_HEADER = re.compile(
    rb"\{'descr': '<(?P<type>[if][48])', 'fortran_order': False, 'shape': \((?P<shape>[0-9, ]{1,40})\), \}\s*"
)


def mean_rewards(reader: Reader, path: str) -> Mapping[int, float]:
    """The mean over the episodes of each evaluation, by time step; empty where there is no such file, or another one.

    Raises OSError where it is there and cannot be read.
    """
    try:
        with reader.open(path) as file:
            return _mean_rewards(file)
    except FileNotFoundError:
        return {}


def _mean_rewards(file: BinaryIO) -> Mapping[int, float]:
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(file) as archive:
            times, _ = _array(_member(archive.open("timesteps.npy")))
            results, shape = _array(_member(archive.open("results.npy")))
    except (zipfile.BadZipFile, zlib.error, RuntimeError, KeyError, ValueError, EOFError, struct.error):
        return {}
    episodes = shape[1] if len(shape) == 2 else 1
    if episodes < 1 or len(results) != len(times) * episodes:
        return {}
    rows = (results[at : at + episodes] for at in range(0, len(results), episodes))
    return {int(time): sum(row) / episodes for time, row in zip(times, rows, strict=True)}


def _member(file: IO[bytes]) -> bytes:
    data = file.read(_MOST + 1)
    if len(data) > _MOST:
        raise ValueError("longer than any list of evaluations")
    return data


def _array(data: bytes) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """The numbers of one array and its shape. Raises ValueError for anything but numbers in rows."""
    wide = data[6:7] != b"\x01"
    start = 12 if wide else 10
    length = int.from_bytes(data[8:start], "little")
    header = _HEADER.fullmatch(data[start : start + length])
    if data[:6] != b"\x93NUMPY" or header is None:
        raise ValueError("no array of numbers in rows")
    shape = tuple(int(size) for size in header["shape"].split(b",") if size.strip())
    letter = _LETTERS[header["type"].decode()]
    if prod(shape) > _MOST:
        raise ValueError("an impossible shape")
    return struct.unpack_from(f"<{prod(shape)}{letter}", data, start + length), shape
