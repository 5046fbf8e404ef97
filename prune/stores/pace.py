"""Looking at many copies at once, with as many threads as the volume's own pace makes worth while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from prune.stores.base import FileStat
from prune.stores.local import LocalRoot
from prune.stores.measure import Measure

SLOW_ENTRY_NS = 100_000  # a call that waits this long is waiting for something other than this processor
MANY = 64
WORTH_FILES = 20_000  # below this the start of helper processes costs more than they save

Item = TypeVar("Item")
Result = TypeVar("Result")
Measured = tuple[Measure, FileStat] | OSError


def at_once(waits: bool, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
    """The work's results in order: one after the other, or many at once where each waits for something else."""
    if not waits or len(items) < 2:
        return map(work, items)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(MANY, len(items))) as pool:
        return list(pool.map(work, items))


def measure_all(root: LocalRoot, copies: Sequence[Sequence[str]], *, waits: bool = False) -> list[Measured]:
    """Measures each copy (a group of paths); what cannot be looked at comes back as its OSError.

    ``waits``: it is known that each call there waits; else the first copies tell.
    """
    if waits:
        return list(at_once(waits, lambda paths: _measure(root, paths), copies))
    results: list[Measured] = []
    started = time.monotonic_ns()
    entries = 0
    for paths in copies:
        found = _measure(root, paths)
        results.append(found)
        entries += 1 if isinstance(found, OSError) else found[0].files + 1
        if entries >= 8 or len(results) >= 4:
            break
    rest = copies[len(results) :]
    if not rest:
        return results
    if (time.monotonic_ns() - started) // entries < SLOW_ENTRY_NS:
        return results + _beside(root, rest, entries // len(results))
    return results + list(at_once(True, lambda paths: _measure(root, paths), rest))


def _beside(root: LocalRoot, copies: Sequence[Sequence[str]], per_copy: int) -> list[Measured]:
    """On a volume that answers at once: in this process, or in several where there is very much to look at."""
    if per_copy * len(copies) < WORTH_FILES:
        return [_measure(root, paths) for paths in copies]
    from prune.stores.crew import Crew

    with Crew([root]) as crew:
        return list(crew.each(lambda helper, paths: helper.measure(root, paths), copies))


def measure_copy(root: LocalRoot, paths: Sequence[str], inodes: set[int] | None = None) -> tuple[Measure, FileStat]:
    """Sums over all paths of a copy, and its first entry's own status. Raises OSError."""
    total = Measure(inodes)
    first: FileStat | None = None
    for path in paths:
        first = first or root.stat(path)
        total.merge(root.measure(path, inodes=inodes))
    assert first is not None
    return total, first


def _measure(root: LocalRoot, paths: Sequence[str]) -> Measured:
    try:
        return measure_copy(root, paths)
    except OSError as error:
        return error
