"""Runs the daemon's jobs when they are due, one pass at a time each, and never loses or doubles one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from threading import Lock

from apscheduler.executors.base import BaseExecutor
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

THREADS = 256  # made as needed; jobs wait for disks, and one that hangs keeps only its own thread
TICKS_AT_ONCE = 8  # a tick that finds its pass still running only leaves word and ends

Work = Callable[[], None]
Failed = Callable[[str, Exception], None]


class Job:
    """One job's passes, never two at once; a tick that comes meanwhile is one more pass right after."""

    def __init__(self, name: str, work: Work, failed: Failed) -> None:
        self.name = name
        self.work = work
        self._failed = failed
        self._lock = Lock()
        self._running = False
        self._again = False

    def tick(self) -> None:
        """Runs the work now, or after the pass that is running; returns at once in that case."""
        with self._lock:
            self._again = self._running
            if self._running:
                return
            self._running = True
        while True:
            self._pass()
            with self._lock:
                if not self._again:
                    self._running = False
                    return
                self._again = False

    @property
    def running(self) -> bool:
        return self._running

    def drop_catch_up(self) -> None:
        """The pass that runs now is the last one."""
        with self._lock:
            self._again = False

    def _pass(self) -> None:
        try:
            self.work()
        except Exception as error:
            self._failed(self.name, error)


class Ticker:
    """Jobs with triggers. A late tick still runs, however late; many missed ones are one.

    ``failed`` is told the name and the exception of a job that raised; the job lives on.
    """

    def __init__(self, failed: Failed, executor: BaseExecutor | None = None) -> None:
        self._failed = failed
        self._jobs: dict[str, Job] = {}
        self.scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": executor or ThreadPoolExecutor(THREADS)},
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": TICKS_AT_ONCE},
        )

    def put(self, name: str, trigger: BaseTrigger, work: Work, *, at_once: bool) -> None:
        """Adds a job, or gives it a new trigger and new work; ``at_once``: with a first pass now."""
        job = self._jobs.setdefault(name, Job(name, work, self._failed))
        job.work = work
        first = {"next_run_time": datetime.now(UTC)} if at_once else {}
        self.scheduler.add_job(job.tick, trigger, id=name, replace_existing=True, **first)

    def only(self, names: set[str]) -> None:
        """Removes jobs of other names; what they are doing now, they finish."""
        for name in set(self._jobs) - names:
            with suppress(JobLookupError):  # a job whose trigger came to its end is gone by itself
                self.scheduler.remove_job(name)
            self._jobs.pop(name).drop_catch_up()

    def names(self) -> set[str]:
        return set(self._jobs)

    def tick(self, name: str) -> None:
        """Brings a job's next pass forward to now."""
        self.scheduler.modify_job(name, next_run_time=datetime.now(UTC))

    def start(self) -> None:
        self.scheduler.start()

    def stop(self) -> None:
        """No more ticks; returns when the passes that run now have ended."""
        for job in self._jobs.values():
            job.drop_catch_up()
        self.scheduler.shutdown(wait=True)

    def next_runs(self) -> dict[str, datetime]:
        """When each job is due."""
        return {job.id: job.next_run_time for job in self.scheduler.get_jobs() if job.next_run_time}
