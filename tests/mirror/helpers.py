"""Mirroring runs made of directories, and what is compared afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from prune.mirror import Conduct, Mirrored, mirror
from prune.settings.schema import RunSettings
from tests.runs import settings_of


def mirrored_now(
    run: RunSettings, state: Path, steps: Iterable[int] = (), *, source: str | None = None, **conduct: object
) -> Mirrored:
    """What mirroring this run did."""
    settings = settings_of(run, state=state)
    return mirror(settings, steps, source=source, conduct=Conduct(**conduct))[0]  # type: ignore[arg-type]


def copied(done: Mirrored) -> list[tuple[int, str]]:
    """Steps and replicas, in the order in which they were copied."""
    return [(copy.step, copy.replica) for copy in done.copied]


def seen(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything in a root but the control folder: kinds, modes, times, contents and link texts by path."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != ".prune"]
        for name in (*folders, *files):
            path = Path(folder) / name
            status = path.lstat()
            content: object = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            found[str(path.relative_to(root))] = (status.st_mode, status.st_mtime_ns, content)
    return found


def without_folder_times(found: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    return found


def temporaries(root: Path) -> list[str]:
    """Names of unfinished files, and what staging holds."""
    staging = root / ".prune" / "staging"
    left = os.listdir(staging) if staging.is_dir() else []
    return [*left, *(str(path.relative_to(root)) for path in root.rglob("*.part"))]
