"""What publishing costs beside a plain save and fsync: ``python -m tests.benchmarks.publishing SCRATCH [--rounds N]``.

With torch installed it is ``torch.save`` of 1 GiB that is measured, else the same bytes written in pieces. Rounds of
the two alternate, and only the ratio of their medians counts.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import prune

SIZE = 1 << 30
PIECE = 64 << 20
TARGET = 1.15


def saver() -> tuple[str, Callable[[BinaryIO], object]]:
    """What is measured, and how it is written to an open file."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        piece = os.urandom(PIECE)
        return "1 GiB in pieces of 64 MiB", lambda file: [file.write(piece) for _ in range(SIZE // PIECE)]
    state = {f"w{number}": torch.randn(PIECE // 4) for number in range(SIZE // PIECE)}
    return "torch.save of 1 GiB", lambda file: torch.save(state, file)


def plainly(path: Path, save: Callable[[BinaryIO], object]) -> None:
    with path.open("wb") as file:
        save(file)
        file.flush()
        os.fsync(file.fileno())


def published(path: Path, save: Callable[[BinaryIO], object]) -> None:
    with prune.publish(path, step=1) as file:
        save(file)  # type: ignore[arg-type]


def seconds(action: Callable[[Path, Callable[[BinaryIO], object]], None], path: Path, save: Any) -> float:
    os.sync()
    begun = time.perf_counter()
    action(path, save)
    taken = time.perf_counter() - begun
    path.unlink()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    what, save = saver()
    times: dict[str, list[float]] = {"plain + fsync": [], "prune.publish": []}
    for _ in range(options.rounds):
        times["plain + fsync"].append(seconds(plainly, options.scratch / "plain.pt", save))
        times["prune.publish"].append(seconds(published, options.scratch / "published.pt", save))
    print(f"{what}, medians of {options.rounds} alternating rounds")
    base = statistics.median(times["plain + fsync"])
    for name, taken in times.items():
        median = statistics.median(taken)
        print(f"  {name:<14} {median:6.2f} s  {median / base:5.2f}  (fastest {min(taken):.2f} s)")
    print(f"  target {TARGET}")


if __name__ == "__main__":
    main()
