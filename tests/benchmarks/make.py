"""Big checkpoint trees, made fast, with old and strictly increasing times."""

from __future__ import annotations

import os
import time
from pathlib import Path

GAP_NS = 600 * 1_000_000_000


def sharded(root: Path, steps: int, shards: int, size: int = 512) -> None:
    """``step-N/shard_K.bin`` of some bytes each."""
    root.mkdir(parents=True, exist_ok=True)
    payload = b"\xa5" * size
    newest = time.time_ns() - 86_400 * 1_000_000_000
    for number in range(1, steps + 1):
        folder = root / f"step-{number * 10}"
        folder.mkdir()
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        at = newest - GAP_NS * (steps - number)
        for shard in range(shards):
            name = f"shard_{shard:05d}.bin"
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=fd)
            os.write(file, payload)
            os.utime(file, ns=(at, at))
            os.close(file)
        os.close(fd)
        os.utime(folder, ns=(at, at))


def flat(root: Path, steps: int, size: int) -> None:
    """``step_N.bin`` files of ``size`` bytes of data that does not compress."""
    root.mkdir(parents=True, exist_ok=True)
    newest = time.time_ns() - 86_400 * 1_000_000_000
    block = os.urandom(1 << 20)
    for number in range(1, steps + 1):
        path = root / f"step_{number * 10:06d}.bin"
        with path.open("wb") as file:
            for _ in range(max(1, size >> 20)):
                file.write(block[: min(size, 1 << 20)])
        at = newest - GAP_NS * (steps - number)
        os.utime(path, ns=(at, at))


def fleet(root: Path, runs: int, steps: int) -> None:
    """``run_K/step_N.bin``: many small runs."""
    for number in range(runs):
        flat(root / f"run_{number:05d}", steps, 64)
