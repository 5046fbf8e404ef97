"""SHA-256 of files: a thread a file, and for a lone big one a thread that reads ahead of the hash."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from prune.integrity import stream
from prune.stores.base import Reader

Tick = Callable[[int], None]  # told the number of bytes just read; called from several threads, one at a time
_BIG = 32 << 20  # bytes from which on reading ahead pays for its thread
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hashed:
    """What was read of one file: its length in bytes and its SHA-256 in lower-case hexadecimal."""

    size: int
    sha256: str


def hash_file(reader: Reader, path: str, tick: Tick | None = None, *, ahead: bool = False) -> Hashed:
    """Length and SHA-256 of one file. Raises OSError, and whatever ``tick`` raises."""
    digest, size = hashlib.sha256(), 0
    with reader.open(path) as file:
        length = file.seek(0, os.SEEK_END)
        read = stream.pieces_ahead if ahead and length >= _BIG else stream.pieces
        with stream.considerate(file, length) as passed:
            for piece in read(file, 0, length):
                digest.update(piece)
                size += len(piece)
                passed(size)
                if tick is not None:
                    tick(len(piece))
    return Hashed(size, digest.hexdigest())


def hash_many(
    reader: Reader, paths: Iterable[str], *, threads: int | None = None, tick: Tick | None = None
) -> Mapping[str, Hashed | OSError]:
    """Length and SHA-256 of several files by path, or the error that kept one from being read."""
    wanted = sorted(set(paths))
    threads = threads or cores()
    ahead = len(wanted) < threads

    def job(path: str, tick: Tick) -> Hashed:
        return hash_file(reader, path, tick, ahead=ahead)

    return for_each(wanted, job, threads=threads, tick=tick)


def for_each(
    items: Iterable[str], job: Callable[[str, Tick], T], *, threads: int | None = None, tick: Tick | None = None
) -> dict[str, T | OSError]:
    """Results of ``job(item, tick)`` by item, OSError as a result of its own, on several threads.

    Any other exception, also one out of the caller's ``tick`` or an interrupt, stops the other jobs at their next
    tick and is raised.
    """
    wanted = list(items)
    stopped, turn = threading.Event(), threading.Lock()
    failures: list[BaseException] = []

    def counted(amount: int) -> None:
        if stopped.is_set():
            raise _Stopped
        if tick is not None:
            with turn:
                tick(amount)

    def one(item: str) -> T | OSError:
        try:
            return job(item, counted)
        except OSError as error:
            return error
        except BaseException as error:
            failures.append(error)
            stopped.set()
            raise

    threads = min(threads or cores(), len(wanted))
    if threads <= 1:
        return {item: one(item) for item in wanted}
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads, thread_name_prefix="check") as pool:
        try:
            return dict(zip(wanted, pool.map(one, wanted), strict=True))
        except BaseException as error:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise (failures[0] if isinstance(error, _Stopped) else error)


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0))


class _Stopped(Exception):
    """Another job failed or the caller was interrupted: nothing more is wanted."""
