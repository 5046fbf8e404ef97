"""What goes on beside the writing: a thread of its own, one job after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Queue

_QUEUE = 8  # pieces that wait to be hashed; what a save costs in memory is this many


class Helper:
    """One thread beside the writing one, with a short queue. Both work outside of the interpreter: they overlap."""

    def __init__(self) -> None:
        self._jobs: Queue[Callable[[], None] | None] = Queue(_QUEUE)
        self._thread: threading.Thread | None = None
        self._trouble: BaseException | None = None

    def start(self, job: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="prune-hash", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def wait(self) -> None:
        """Until everything started is done; raises what a job raised."""
        self._jobs.join()
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble

    def stop(self) -> None:
        if self._thread is not None and self._thread.is_alive():  # a forked child has none
            self._jobs.put(None)
            self._thread.join()
        self._thread = None

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except BaseException as trouble:  # handed to the one who waits
                self._trouble = trouble
            finally:
                del job  # its bytes with it
                self._jobs.task_done()
