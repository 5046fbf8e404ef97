"""A training loop as far as a disk can tell: saves at a steady rate on two volumes, and minds that the newest stay."""

from __future__ import annotations

import json
import os
import sys
import time
import zipfile
from pathlib import Path

SIZE = 1 << 20


def save(root: Path, step: int) -> None:
    """Writes one checkpoint under another name, syncs and renames it."""
    part = root / f"step_{step:06d}.pt.part"
    with zipfile.ZipFile(part, "w") as archive:
        archive.writestr("archive/data.pkl", step.to_bytes(8, "big") * (SIZE // 8))
    os.rename(part, root / f"step_{step:06d}.pt")


def missing(root: Path, steps: list[int]) -> list[int]:
    """Of these steps the ones that are not there whole."""
    found = []
    for step in steps:
        try:
            with zipfile.ZipFile(root / f"step_{step:06d}.pt") as archive:
                archive.testzip()
        except (OSError, zipfile.BadZipFile):
            found.append(step)
    return found


def main(primary: str, mirror: str, saves: int, keep: int, pause: float) -> dict[str, object]:
    failed: list[str] = []
    lost: list[tuple[str, list[int]]] = []
    least_free = 1 << 62
    done: list[int] = []
    for number in range(1, saves + 1):
        step = number * 10
        try:
            save(Path(primary), step)
            save(Path(mirror), step)
        except OSError as error:
            failed.append(f"{step}: {error}")
            continue
        done.append(step)
        for root in (primary, mirror):
            gone = missing(Path(root), done[-keep:])
            if gone:
                lost.append((root, gone))
            found = os.statvfs(root)
            least_free = min(least_free, found.f_bavail * found.f_frsize)
        time.sleep(pause)
    return {"saved": len(done), "failed": failed, "lost": lost, "least_free": least_free}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))))
