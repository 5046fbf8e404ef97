"""Runs as tasks on a Dask cluster that is there already. Nothing about checkpoints is decided here.

A task that its worker took down with it is carried out again by another; the run's own locks and records make that
safe. What a cluster cannot do at all is told run by run, and stops no other run.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from prune.errors import UsageError
from prune.fleet.tasks import version
from prune.settings.schema import SECOND, RunSettings
from prune.stop import Stop

CONNECT_SECONDS = 15.0
POLL_SECONDS = 0.5
NO_WORKER_SECONDS = 120.0
WAIT_NS = 150 * SECOND  # for the lock of a worker that was lost on another host: its lease must run out first
STOP_LOOK_SECONDS = 1.0

T = TypeVar("T")
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Told(Generic[T]):
    """What came of one run's task: what it returned, or why there is nothing."""

    run: RunSettings
    result: T | None = None
    error: str | None = None


@contextmanager
def cluster(address: str) -> Iterator[Cluster]:
    """A cluster by its scheduler's address. Raises UsageError where none answers, or its workers cannot do the work."""
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        raise UsageError(f"--dask needs Dask, which is not installed: {error}", mend="pip install 'ckpt-prune[dask]'")
    _quieten()
    try:
        get_address_host_port(address)  # a client of what is no address is half made, and complains when it goes
    except ValueError as error:
        raise UsageError(f"--dask {address}: this is no scheduler's address: {error}",
                         mend="write tcp://HOST:8786") from None  # fmt: skip
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        why = f"--dask {address}: no scheduler answers there: {error}"
        raise UsageError(why, mend="write tcp://HOST:8786") from None
    try:
        found = Cluster(client, address)
        found.check_workers()
        yield found
    finally:
        client.close(timeout=5)


@dataclass
class Cluster:
    """A connected cluster."""

    client: Any
    address: str

    @property
    def alive(self) -> bool:
        """Whether its scheduler is connected now."""
        return bool(self.client.status == "running")

    @property
    def closed(self) -> bool:
        """Whether its scheduler was lost for good."""
        return self.client.status in ("closing", "closed", "failed")

    @property
    def threads(self) -> int:
        """How many tasks it can work on at once."""
        try:
            return sum(self.client.nthreads().values())
        except (OSError, ValueError):  # it went this moment
            return 0

    def check_workers(self) -> None:
        """Raises UsageError where there is no worker, or one without this very version."""
        from prune import __version__

        with suppress(TimeoutError):
            self.client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        found = self.client.run(version, on_error="return")
        if not found:
            raise UsageError(f"--dask {self.address}: the cluster has no worker", mend="start some, then try again")
        for worker, answer in found.items():
            if answer != __version__:
                what = f"has ckpt-prune {answer}" if isinstance(answer, str) else f"cannot work: {answer}"
                raise UsageError(
                    f"--dask {self.address}: worker {worker} {what}", mend=f"install ckpt-prune {__version__} there"
                )

    def each(
        self,
        task_of: Callable[[RunSettings], Callable[[RunSettings, Stop], T]],
        runs: Sequence[RunSettings],
        *,
        stop: Stop | None = None,
        progress: Progress = lambda _done, _of: None,
    ) -> Iterator[Told[T]]:
        """What comes of each run's task, as it comes. A stop ends what is under way after its step in hand; runs that
        were not begun by then are left out."""
        wish = stop if stop is not None else Stop()  # one that nobody has asked for yet is false
        yield from _Window(self, task_of, list(reversed(runs)), wish, progress).work()


@dataclass
class _Window(Generic[T]):
    """No more tasks at the cluster than keep it busy, so that neither side holds a whole fleet."""

    cluster: Cluster
    task_of: Callable[[RunSettings], Callable[[RunSettings, Stop], T]]
    rest: list[RunSettings]
    stop: Stop
    progress: Progress
    under_way: dict[Any, RunSettings] = field(default_factory=dict)
    _alone_since: float | None = None

    def work(self) -> Iterator[Told[T]]:
        count, done = len(self.rest), 0
        ending = _Ending(self.cluster.client)
        try:
            while self.rest or self.under_way:
                if self.stop:
                    self.rest.clear()
                    ending.tell()
                if self.cluster.alive:
                    self._send(ending.name)
                for told in self._ended():
                    done += 1
                    self.progress(done, count)
                    if told.result is not None or told.error is not None:
                        yield told
        finally:
            if self.cluster.alive and self.under_way:
                self.cluster.client.cancel(list(self.under_way))

    def _send(self, ending: str) -> None:
        most = max(2, 2 * self.cluster.threads)
        while self.rest and len(self.under_way) < most:
            run = self.rest.pop()
            name = run.name.encode("ascii", "backslashreplace").decode()
            key = f"prune-{name}-{secrets.token_hex(4)}"
            future = self.cluster.client.submit(_carried_out, self.task_of(run), run, ending, pure=False, key=key)
            self.under_way[future] = run

    def _ended(self) -> list[Told[T]]:
        """What has ended, after a moment's wait; everything, once nobody is left to do it."""
        from distributed import CancelledError, wait

        if self.under_way:
            with suppress(TimeoutError, CancelledError), self.cluster.client.as_current():
                wait(list(self.under_way), timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")
        else:
            time.sleep(POLL_SECONDS)
        ended = [future for future in self.under_way if future.status != "pending"]
        if not ended and self._abandoned():
            return self._given_up()
        return [_told(future, self.under_way.pop(future)) for future in ended]

    def _abandoned(self) -> bool:
        if self.cluster.alive and self.cluster.threads:
            self._alone_since = None
            return False
        now = time.monotonic()
        self._alone_since = self._alone_since or now
        return self.cluster.closed or now - self._alone_since > NO_WORKER_SECONDS

    def _given_up(self) -> list[Told[T]]:
        runs = [*self.under_way.values(), *reversed(self.rest)]
        self.under_way.clear()
        self.rest.clear()
        why = "its scheduler does not answer" if not self.cluster.alive else "it has no worker left"
        return [Told(run, error=f"the cluster was lost: {why}; the next pass ends what was begun") for run in runs]


@dataclass
class _Ending:
    """By which running tasks hear that they are to stop after the step in hand."""

    client: Any
    name: str = field(default_factory=lambda: f"prune-stop-{secrets.token_hex(8)}")
    _told: bool = False

    def tell(self) -> None:
        from distributed import Event

        if not self._told:
            self._told = True
            with suppress(OSError):  # a cluster that is gone hears nothing
                Event(self.name, client=self.client).set()


def _quieten() -> None:
    """What matters of a cluster is told in our own words."""
    for name in list(logging.root.manager.loggerDict):
        if name == "distributed" or name.startswith("distributed."):
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _told(future: Any, run: RunSettings) -> Told[Any]:
    if future.status == "finished":
        try:
            return Told(run, future.result(timeout=60))
        except Exception as error:  # what came back cannot be had or read
            return Told(run, error=f"{type(error).__name__}: {error}")
    if future.status == "error":
        return Told(run, error=_why(future.exception(timeout=60)))
    return Told(run, error="the cluster lost its task; the next pass ends what was begun")


def _why(error: BaseException | None) -> str:
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        return "one worker after another was lost while working on it; the next pass ends what they began"
    return f"{type(error).__name__}: {error}"


class ClusterStop(Stop):
    """On a worker: true once the one who sent the tasks wishes to stop. Asks at most once a second."""

    __slots__ = ("_event", "_looked")

    def __init__(self, name: str) -> None:
        super().__init__()
        from distributed import Event

        self._event = Event(name)
        self._looked = float("-inf")

    def __bool__(self) -> bool:
        if self.signal is None and time.monotonic() - self._looked > STOP_LOOK_SECONDS:
            self._looked = time.monotonic()
            try:
                if self._event.is_set():
                    self.request()
            except Exception:  # the scheduler is gone: nobody will hear of what is done, and nobody gave it up
                self._looked = float("inf")
        return self.signal is not None


def _carried_out(task: Callable[[RunSettings, Stop], T], run: RunSettings, ending: str) -> T | None:
    """On a worker."""
    stop = ClusterStop(ending)
    return None if stop else task(run, stop)
