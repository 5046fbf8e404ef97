"""Helper processes for looking at and removing very many files.

One interpreter looks at about as many files a second as the kernel lets it; two look at twice as many. A helper is
started only for work that outlasts its start many times over, does nothing but what one line asks of it, and ends
when its pipe closes. Killed half-way, it leaves what any killed pass leaves.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from prune.stores import tree
from prune.stores.base import FileStat
from prune.stores.local import LocalRoot
from prune.stores.measure import Measure, kind_of
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
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", tree.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=list(self.roots.values()),
        )

    def measure(self, root: LocalRoot, paths: Sequence[str]) -> Measured:
        try:
            answer = self._ask("sum", root, paths)
        except OSError as error:
            return error
        numbers = [int(word) for word in answer[:16]]
        total = Measure()
        (total.files, total.size, total.freed, total.linked, total.mtime_ns, total.oldest_mtime_ns, total.ctime_ns,
         total.inner_ctime_ns) = numbers[:8]  # fmt: skip
        total.top_links = [tree.unhexed(word) for word in answer[16:]]
        mode, size, blocks, links, mtime_ns, ctime_ns, dev, ino = numbers[8:]
        ino = ino if root.keeps_inodes else 0
        return total, FileStat(kind_of(mode), size, blocks * 512, links, mtime_ns, ctime_ns, dev, ino)

    def remove(self, root: LocalRoot, path: str) -> int:
        """Raises OSError as ``LocalRoot.remove`` does."""
        return int(self._ask("remove", root, [path])[0])

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _ask(self, what: str, root: LocalRoot, paths: Sequence[str]) -> list[str]:
        """The words of the answer. Raises the OSError that the helper met, or one that says it is gone."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        question = [what, str(self.roots[id(root)]), str(root.dev), *map(tree.hexed, paths)]
        self.process.stdin.write(" ".join(question).encode("ascii") + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line.endswith(b"\n"):
            raise OSError(0, "a helper process ended early", root.root)
        outcome, *words = line.decode("ascii").split()
        if outcome == "error":
            code, text, name = words
            raise OSError(int(code), tree.unhexed(text), tree.unhexed(name))
        return words
