"""Helper processes for looking at and removing very many files.

One interpreter looks at about as many files a second as the kernel lets it; two look at twice as many. A helper is
started only for work that outlasts its start many times over, does nothing but what one line asks of it, and ends
when its pipe closes. Killed half-way, it leaves what any killed pass leaves.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import astuple, dataclass, field, replace
from typing import Any, TypeVar

from prune.stores.base import FileStat
from prune.stores.local import LocalRoot, Measure, remove_at
from prune.stores.pace import Measured

Result = TypeVar("Result")


@dataclass
class Crew:
    """As many helpers as there are processors to use, each served by a thread of ours."""

    roots: Sequence[LocalRoot]
    size: int = field(default_factory=lambda: min(4, len(os.sched_getaffinity(0))))
    _helpers: list[_Helper] = field(default_factory=list)
    _mine: threading.local = field(default_factory=threading.local)
    _pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Crew:
        self._pool = ThreadPoolExecutor(self.size)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._pool is not None
        self._pool.shutdown()
        for helper in self._helpers:
            helper.close()

    def each(self, work: Callable[[_Helper, Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """Results in the order of the items."""
        assert self._pool is not None
        return self._pool.map(lambda item: work(self.helper(), item), items)

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        """Runs work on one of the threads, which may ask for its ``helper``."""
        assert self._pool is not None
        return self._pool.submit(work)

    def helper(self) -> _Helper:
        """The calling thread's own helper."""
        mine = getattr(self._mine, "helper", None)
        if mine is None:
            mine = self._mine.helper = _Helper(self.roots)
            self._helpers.append(mine)
        return mine


class _Helper:
    def __init__(self, roots: Sequence[LocalRoot]) -> None:
        self.roots = {id(root): root.fd for root in roots}
        code = "import sys; sys.path[:0] = [sys.argv[1]]; from prune.stores.crew import serve; serve()"
        home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code, home],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=list(self.roots.values()),
        )

    def measure(self, root: LocalRoot, paths: Sequence[str]) -> Measured:
        answer = self._ask("measure", root, list(paths))
        if isinstance(answer, OSError):
            return answer
        (files, size, freed, linked, newest, oldest, ctime, inner, links), top = answer
        first = _stat_from(top)
        first = first if root.keeps_inodes else replace(first, ino=0)
        return Measure(files, size, freed, linked, newest, oldest, ctime, inner, links), first

    def remove(self, root: LocalRoot, path: str) -> int:
        """Raises OSError as ``LocalRoot.remove`` does."""
        answer = self._ask("remove", root, [path, root.dev])
        if isinstance(answer, OSError):
            raise answer
        return int(answer)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _ask(self, what: str, root: LocalRoot, words: list[Any]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps([what, self.roots[id(root)], words]).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError as error:
            return error
        if not line:
            return OSError(0, "a helper process ended early", root.root)
        answer = json.loads(line)
        if "error" in answer:
            code, text, name = answer["error"]
            return OSError(code, text, name)
        return answer["ok"]


def serve() -> None:
    """A helper's whole life: one line asked, one line answered."""
    for line in sys.stdin.buffer:
        what, fd, words = json.loads(line)
        try:
            answer = {"ok": _measure(fd, words) if what == "measure" else _remove(fd, *words)}
        except OSError as error:
            answer = {"error": [error.errno or 0, error.strerror or str(error), error.filename or ""]}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


def _measure(fd: int, paths: list[str]) -> list[Any]:
    from prune.stores.pace import measure_copy

    found, top = measure_copy(LocalRoot.at(fd), paths)
    sums = [found.files, found.size, found.freed, found.linked, found.mtime_ns, found.oldest_mtime_ns,
            found.ctime_ns, found.inner_ctime_ns, found.top_links]  # fmt: skip
    return [sums, [str(top.kind), *astuple(top)[1:]]]


def _remove(fd: int, path: str, dev: int) -> int:
    with LocalRoot.at(fd).parent(path) as (parent, name):
        return remove_at(parent, name, dev)


def _stat_from(words: list[Any]) -> FileStat:
    from prune.model import Kind

    return FileStat(Kind(words[0]), *words[1:])
