"""The least that deleting could cost: two processes that unlink the oldest steps of a tree and do nothing else.

No look at anything, no record, nothing withdrawn first: ``python -m tests.benchmarks.unlink ROOT COUNT``.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path


def unlink_all(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for name in os.listdir(fd):
        os.unlink(name, dir_fd=fd)
    os.close(fd)
    os.rmdir(folder)


def main(root: str, count: int) -> None:
    steps = sorted(Path(root).glob("step-*"), key=lambda path: int(path.name.partition("-")[2]))
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(unlink_all, map(str, steps[:count])))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
