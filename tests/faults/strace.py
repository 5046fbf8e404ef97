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


def run(words: Sequence[str], state: Path, *, inject: str | None = None, calls: str = "", log: Path | None = None):  # type: ignore[no-untyped-def]
    """The finished process. ``inject`` as strace takes it, e.g. ``unlinkat:signal=KILL:when=3``."""
    environment = {**os.environ, "PRUNE_STATE": f"sqlite:///{state}", "PYTHONDONTWRITEBYTECODE": "1"}
    prefix: list[str] = []
    if inject is not None or calls:
        prefix = ["strace", "-f", "-qq", "-o", str(log or "/dev/null"), "-e", f"trace={calls or inject.split(':')[0]}"]  # type: ignore[union-attr]
        if inject is not None:
            prefix += ["-e", f"inject={inject}"]
    return subprocess.run([*prefix, *command(*words)], env=environment, capture_output=True, text=True, timeout=120)


def count(words: Sequence[str], state: Path, calls: Sequence[str], log: Path, below: Path) -> dict[str, int]:
    """How often an undisturbed run makes each of these calls, and the index of the first below a directory."""
    run(words, state, calls=",".join(calls), log=log)
    found = dict.fromkeys(calls, 0)
    for line in log.read_text(errors="replace").splitlines():
        match = re.match(r"\d+\s+(\w+)\(", line)
        if match and match[1] in found:
            found[match[1]] += 1
    return found
