"""Which files below given directories other processes hold open, mapped or locked, where the OS can tell."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """``paths``: real path → who holds it; ``locked``: (device, inode) → who has a lock on it."""

    paths: Mapping[str, str] = field(default_factory=dict)
    locked: Mapping[tuple[int, int], str] = field(default_factory=dict)

    def holder(self, real_path: str) -> str | None:
        """Who holds this path or anything below it."""
        found = self.paths.get(real_path)
        if found is not None or not self.paths:
            return found
        prefix = real_path + os.sep
        return next((who for path, who in self.paths.items() if path.startswith(prefix)), None)


def look(real_roots: Iterable[str], *, proc: str = "/proc") -> OpenFiles:
    """One pass over the processes this user may see. Missing rights hide processes; they are no error."""
    prefixes = tuple(root.rstrip(os.sep) + os.sep for root in real_roots)
    paths: dict[str, str] = {}
    for pid in _pids(proc):
        for path in _held_by(proc, pid):
            if path.startswith(prefixes):
                paths.setdefault(path.removesuffix(" (deleted)"), _name(proc, pid))
    return OpenFiles(paths, _locks(proc))


def _pids(proc: str) -> list[str]:
    me = str(os.getpid())
    try:
        return [name for name in os.listdir(proc) if name.isdigit() and name != me]
    except OSError:
        return []


def _held_by(proc: str, pid: str) -> set[str]:
    found: set[str] = set()
    try:
        for name in os.listdir(f"{proc}/{pid}/fd"):
            try:
                found.add(os.readlink(f"{proc}/{pid}/fd/{name}"))
            except OSError:
                continue
        with open(f"{proc}/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
            found.update(line[at:].rstrip("\n") for line in maps if (at := line.find("/")) >= 0)
    except OSError:
        pass  # gone, or not ours to see
    return found


def _name(proc: str, pid: str) -> str:
    try:
        with open(f"{proc}/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return f"process {pid} ({file.read().strip()})"
    except OSError:
        return f"process {pid}"


def _locks(proc: str) -> dict[tuple[int, int], str]:
    found: dict[tuple[int, int], str] = {}
    me = str(os.getpid())
    try:
        with open(f"{proc}/locks", encoding="ascii", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return found
    for line in lines:
        fields = line.split()
        if len(fields) < 6 or fields[1] == "->" or fields[4] == me:
            continue
        try:
            major, minor, inode = fields[5].split(":")
            found[os.makedev(int(major, 16), int(minor, 16)), int(inode)] = f"process {fields[4]} (a lock)"
        except ValueError:
            continue
    return found
