"""Runs the command under strace with a fault injected at one of its system calls."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

WHY_NOT = "strace is not installed, or may not trace here"


@cache
def usable() -> bool:
    if shutil.which("strace") is None:
        return False
    tried = subprocess.run(["strace", "-f", "-e", "trace=none", "true"], capture_output=True)
    return tried.returncode == 0


needs_strace = pytest.mark.skipif(not usable(), reason=WHY_NOT)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "prune", *words]


def run(
    words: Sequence[str], state: Path, *, inject: str | None = None, calls: str = "", log: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """The finished process. ``inject`` as strace takes it, e.g. ``unlinkat:signal=KILL:when=3``."""
    environment = {**os.environ, "PRUNE_STATE": f"sqlite:///{state}", "PYTHONDONTWRITEBYTECODE": "1"}
    prefix: list[str] = []
    if inject is not None:
        prefix = ["strace", "-f", "-qq", "-o", str(log or "/dev/null"), "-e", f"trace={inject.split(':')[0]}",
                  "-e", f"inject={inject}"]  # fmt: skip
    elif calls:
        prefix = ["strace", "-f", "-qq", "-o", str(log or "/dev/null"), "-e", f"trace={calls}"]
    return subprocess.run(
        [*prefix, *command(*words)], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip


def count(words: Sequence[str], state: Path, calls: Sequence[str], log: Path) -> dict[str, int]:
    """How often the busiest thread of an undisturbed run makes each of these calls: strace counts by thread."""
    run(words, state, calls=",".join(calls), log=log)
    found: dict[tuple[str, str], int] = {}
    for line in log.read_text(errors="replace").splitlines():
        match = re.match(r"(\d+)\s+(\w+)\(", line)
        if match and match[2] in calls:
            key = match[1], match[2]
            found[key] = found.get(key, 0) + 1
    return {call: max((n for (_, name), n in found.items() if name == call), default=0) for call in calls}


def spread(total: int, most: int | None) -> list[int]:
    """Positions from 1 to ``total``: all, or ``most`` of them evenly with the first and the last among them."""
    if most is None or total <= most:
        return list(range(1, total + 1))
    if most == 1:
        return [total]
    return sorted({1 + round(place * (total - 1) / (most - 1)) for place in range(most)})
