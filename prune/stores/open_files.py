"""Which files below given directories other processes hold open, mapped or locked, where the OS can tell."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

SHARED_SECONDS = 1.0


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


def look(real_roots: Iterable[str], *, anew: bool = True, proc: str = "/proc") -> OpenFiles:
    """What is held below these roots, of the processes this user may see. Missing rights hide them; that is no error.

    ``anew=False`` takes what another look of this thread saw up to a second ago, within ``looking_once``.
    """
    seen = _recent(proc) if not anew and _shared.depth else _pass_over(proc)
    return OpenFiles(seen.held_below(real_roots), seen.locked)


@contextmanager
def looking_once() -> Iterator[None]:
    """For passes over many runs: within the block, looks that decide nothing by themselves share one pass over all
    processes for a second at a time. Whatever deletes looks anew, once it holds the locks."""
    _shared.depth += 1
    try:
        yield
    finally:
        _shared.depth -= 1
        if not _shared.depth:
            _shared.seen = None


@dataclass(frozen=True, slots=True)
class _Seen:
    """One pass over all processes."""

    at: float
    proc: str
    paths: list[str]  # sorted, as the kernel shows them
    holders: Mapping[str, str]  # path -> one process that holds it
    locked: Mapping[tuple[int, int], str]

    def held_below(self, real_roots: Iterable[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for root in real_roots:
            prefix = root.rstrip(os.sep) + os.sep
            for place in range(bisect_left(self.paths, prefix), len(self.paths)):
                path = self.paths[place]
                if not path.startswith(prefix):
                    break
                found.setdefault(path.removesuffix(" (deleted)"), _name(self.proc, self.holders[path]))
        return found


class _Shared(threading.local):
    depth = 0
    seen: _Seen | None = None


_shared = _Shared()


def _recent(proc: str) -> _Seen:
    seen = _shared.seen
    if seen is None or seen.proc != proc or time.monotonic() - seen.at > SHARED_SECONDS:
        seen = _shared.seen = _pass_over(proc)
    return seen


def _pass_over(proc: str) -> _Seen:
    at = time.monotonic()
    holders: dict[str, str] = {}
    for pid in _pids(proc):
        for path in _held_by(proc, pid):
            holders.setdefault(path, pid)
    return _Seen(at, proc, sorted(holders), holders, _locks(proc))


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
