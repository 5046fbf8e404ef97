"""Ways in which checkpoints are damaged: each cuts or overwrites one file and leaves its time as it was."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

Damage = Callable[[bytes], bytes]


def _zeroed_in_the_middle(data: bytes) -> bytes:
    at = max(0, len(data) // 2 - 2048)
    return data[:at] + bytes(min(4096, len(data) - at)) + data[at + 4096 :]


DAMAGES: Mapping[str, Damage] = {
    "truncated to 73 %": lambda data: data[: len(data) * 73 // 100],
    "truncated to 50 %": lambda data: data[: len(data) // 2],
    "0 bytes": lambda data: b"",
    "one byte short": lambda data: data[:-1],
    "4 KiB zeroed": _zeroed_in_the_middle,
    "all zero bytes": lambda data: bytes(len(data)),
}
KEEPS_THE_LENGTH = frozenset({"4 KiB zeroed", "all zero bytes"})


def damage(path: Path, how: str) -> None:
    """Damages one file in place, as ``DAMAGES`` names it."""
    status = path.stat()
    path.write_bytes(DAMAGES[how](path.read_bytes()))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def flip(path: Path, at: int | None = None, *, keep_time: bool = True) -> None:
    """Flips one bit, in the middle where no place is given."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 1
    path.write_bytes(data)
    if keep_time:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def largest_file(path: Path) -> Path:
    """A copy's largest file: itself, or the one below a directory."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return max(files, key=lambda each: each.stat().st_size)
