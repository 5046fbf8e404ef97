"""CRC-32C (Castagnoli) in plain Python, quick enough for checkpoints.

A chunk is one long integer, a polynomial over GF(2) whose lowest bit is its highest power. Modulo the generator, its
front times x^s is its front times the few terms of (x^s mod generator), so each fold leaves a message of s bits in
place of one of nearly 2s with a handful of shifts. What little is left goes through a table.
"""

from __future__ import annotations

from functools import lru_cache

CHUNK = 128 << 10  # bytes folded at a time
_GENERATOR = 0x82F63B78  # lowest bit the highest power
# (s, the powers in x^s mod generator): lengths in bits at which that remainder is sparse, each about half the last
_FOLDS = (
    (620753, (6, 14, 21, 29, 31)),
    (343956, (10, 17, 20, 23, 31)),
    (203189, (0, 15, 21, 28, 31)),
    (120287, (3, 5, 6, 8, 10, 26, 31)),
    (67303, (17, 19, 20, 21, 25, 29, 31)),
    (36330, (0, 2, 6, 7, 20, 27, 31)),
    (21062, (0, 2, 4, 14, 19, 22, 31)),
    (12649, (2, 4, 6, 11, 12, 15, 23, 25, 31)),
    (7369, (6, 15, 22, 26, 27, 28, 31)),
    (4049, (3, 14, 23, 25, 26, 27, 29, 30, 31)),
    (2345, (3, 8, 9, 13, 18, 21, 23, 26, 31)),
    (1267, (1, 4, 7, 8, 10, 17, 18, 19, 31)),
    (759, (0, 4, 9, 12, 15, 17, 26, 30, 31)),
)


def crc32c(data: bytes, value: int = 0) -> int:
    """CRC-32C of ``data``, continued from ``value``."""
    for start in range(0, len(data), CHUNK):
        value = _chunk(data[start : start + CHUNK], value)
    return value


def masked(value: int) -> int:
    """The form that TensorFlow and LevelDB store (tensorflow/tensorflow, ``core/lib/hash/crc32c.h``)."""
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _chunk(data: bytes, value: int) -> int:
    state = value ^ 0xFFFFFFFF
    if len(data) > 128:
        data, state = _folded(data, state), 0
    table = _table()
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ state >> 8
    return state ^ 0xFFFFFFFF


def _folded(data: bytes, state: int) -> bytes:
    """A short message that leaves the remainder from 0 that ``data`` leaves from ``state``."""
    bits = 8 * len(data)
    message = int.from_bytes(data, "little") ^ state
    for step, powers in _FOLDS:
        length = bits - step  # of the front
        if length <= 0 or length + 31 > step:  # too short for this fold
            continue
        front = message & ((1 << length) - 1)
        message >>= length
        for power in powers:
            message ^= front << (step - length - power)
        bits = step
    padding = -bits % 8
    return (message << padding).to_bytes((bits + padding) // 8, "little")


@lru_cache(maxsize=1)
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (_GENERATOR if remainder & 1 else 0)
        table.append(remainder)
    return tuple(table)
