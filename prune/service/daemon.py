"""The daemon: its jobs, its signals, its end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import FrameType

from apscheduler.triggers.interval import IntervalTrigger

from prune import logs
from prune.errors import PruneError, UsageError
from prune.journal import open_journal
from prune.model import SECOND
from prune.notified import memory_of, recall, remember
from prune.notify import Matter, Notifier
from prune.outbox import Outbox, channels
from prune.service.board import Board
from prune.service.health import Health, allowed_ns, health_of
from prune.service.lanes import lanes
from prune.service.metrics import Metrics
from prune.service.schedule import LONGEST, comes, gap_of, trigger_of
from prune.service.scheduler import Ticker
from prune.service.scrub import Scrubber
from prune.service.sdnotify import Supervisor
from prune.service.source import Source
from prune.service.worker import Worker
from prune.settings.schema import RunSettings, Settings
from prune.stop import Stop
from prune.stores.mounts import mounts

PRESSURE = "pressure"
HEARTBEAT_SECONDS = 5.0


def check_service(settings: Settings) -> None:
    """Refuses what only a daemon needs right. Raises UsageError naming the key."""
    service = settings.service
    for key in ("schedule", "mirror", "scrub"):
        text = getattr(service, key)
        if text is None:
            continue
        try:
            comes(text, service.timezone)
        except ValueError as error:
            raise UsageError(f"{settings.source or 'settings'}: service.{key}: {error}") from None
    if service.pressure_check > LONGEST:
        raise UsageError(f"{settings.source or 'settings'}: service.pressure_check: is more than a year between looks")
    try:
        channels(service.notify)
    except ValueError as error:
        raise UsageError(f"{settings.source or 'settings'}: {error}") from None
    logs.hide(service.token)


@dataclass
class Daemon:
    """Everything that runs while ``prune serve`` does."""

    source: Source
    supervisor: Supervisor = field(default_factory=Supervisor)
    clock: Callable[[], int] = time.time_ns
    stop: Stop = field(default_factory=Stop)

    def __post_init__(self) -> None:
        self.started_ns = self.clock()
        self.board = Board()
        self.metrics = Metrics(self.board)
        self.outbox = Outbox(channels(self._settings.service.notify))
        self.notifier = Notifier(self._settings.service.notify.every, self._send, self.clock)
        recall(self.notifier, memory_of(self._settings.state))
        self.worker = Worker(self.source, self.board, self.metrics, self.notifier, self.stop, self.clock)
        self.scrubber = Scrubber(self.notifier.tell)
        self.ticker = Ticker(self._job_failed)
        self._wish = threading.Event()
        self._all_remembered = True  # nothing was told since it was last remembered
        self._reload = False
        self._lanes: dict[str, tuple[RunSettings, ...]] = {}

    @property
    def _settings(self) -> Settings:
        return self.source.settings

    # --- life ------------------------------------------------------------------------------------------------

    def run(self, *, http: Callable[[], Callable[[], None]] | None = None) -> int:
        """Works until SIGTERM or SIGINT; finishes the step in hand. Returns the exit code.

        ``http`` starts the server and returns what stops it.
        """
        self._listen_to_signals()
        self._remember_successes()
        self.arrange(first=True)
        close_http = http() if http is not None else None
        self.ticker.start()
        self.supervisor.ready(self._status())
        logs.info(f"serving {len(self._settings.runs)} runs in {len(self._lanes)} lanes")
        self._wait()
        self.supervisor.stopping()
        logs.info("stopping after the step in hand")
        if close_http is not None:
            close_http()
        self.ticker.stop()
        self._remember_told()
        self.outbox.close()
        return 0

    def _wait(self) -> None:
        beat = min(self.supervisor.heartbeat_seconds or HEARTBEAT_SECONDS, HEARTBEAT_SECONDS)
        while not self.stop:
            self._wish.wait(beat)
            self._wish.clear()
            if self._reload and not self.stop:
                self._reload = False
                self.reload()
            self.notifier.catch_up()
            self._remember_told()
            self.supervisor.alive()

    def reload(self) -> None:
        """Reads the settings again; bad ones change nothing."""
        self.supervisor.reloading()
        before = self._settings.service
        if self.source.reload():
            if self._settings.service.listen != before.listen:
                logs.warning("service.listen has changed: HTTP answers there after a restart, and until then as before")
            if self._settings.service.notify != before.notify:
                self.outbox.close()
                self.outbox = Outbox(channels(self._settings.service.notify))
                self.notifier.every_ns = self._settings.service.notify.every
            self.arrange(first=False)
        self.supervisor.ready(self._status())

    # --- jobs ------------------------------------------------------------------------------------------------

    def arrange(self, *, first: bool) -> None:
        """Gives every lane its job, and the volumes theirs. New lanes get a first pass at once."""
        service = self._settings.service
        self.worker.meet(self._settings.runs)
        self._lanes = lanes(self._settings.runs, [mount.point for mount in mounts()])
        names = self._arrange_looks(first=first)
        for lane in self._lanes:
            for kind, schedule in (("apply", service.schedule), ("mirror", service.mirror), ("scrub", service.scrub)):
                if schedule is None:
                    continue
                name = f"{kind} {lane}"
                trigger = trigger_of(schedule, service.timezone)
                at_once = kind == "apply" and name not in self.ticker.names()
                self.ticker.put(name, trigger, self._work(kind, lane), at_once=at_once)
                names.add(name)
        self.ticker.only(names)

    def _arrange_looks(self, *, first: bool) -> set[str]:
        """A look at free space for each place, so that one that hangs keeps no other waiting."""
        seconds = max(self._settings.service.pressure_check, SECOND // 10) / SECOND
        for place in self.worker.places:
            look = partial(self.worker.look_at, place)
            self.ticker.put(f"{PRESSURE} {place}", IntervalTrigger(seconds=seconds), look, at_once=first)
        return {f"{PRESSURE} {place}" for place in self.worker.places}

    def _work(self, kind: str, lane: str) -> Callable[[], None]:
        chore = {"apply": self._apply, "mirror": self._mirror, "scrub": self._scrub}[kind]
        return lambda: chore(lane)

    def _apply(self, lane: str) -> None:
        before = self._settings.runs
        self.worker.pass_over(lane, self._runs_of(lane))
        if self._settings.runs != before:
            self.arrange(first=False)

    def _mirror(self, lane: str) -> None:
        for run in self._runs_of(lane):
            if self.stop:
                return
            try:
                self.worker.mirror(run)
            except (OSError, PruneError) as error:
                logs.error(f"{run.name}: mirror: {error}")

    def _scrub(self, lane: str) -> None:
        service, now = self._settings.service, self.clock()
        gap = gap_of(service.scrub or service.schedule, service.timezone, now_ns=now)
        for run in self._runs_of(lane):
            if self.stop:
                return
            try:
                self.scrubber.scrub(
                    self._settings, run, period_ns=service.scrub_period, gap_ns=gap, now_ns=now, stop=self.stop
                )
            except (OSError, PruneError) as error:
                logs.error(f"{run.name}: scrub: {error}")

    def _runs_of(self, lane: str) -> tuple[RunSettings, ...]:
        return self._lanes.get(lane, ())

    def _job_failed(self, name: str, error: Exception) -> None:
        logs.error(f"job {name}: {type(error).__name__}: {error}; it runs again at its next tick")

    # --- what others ask -------------------------------------------------------------------------------------

    def health(self) -> Health:
        """Whether every run has had a good pass lately."""
        now = self.clock()
        self.started_ns = min(self.started_ns, now)  # a clock set back must not make the start lie ahead
        return health_of(
            self.board.views(),
            allowed_ns=allowed_ns(self._settings.service, now_ns=now),
            started_ns=self.started_ns,
            now_ns=now,
        )

    def _status(self) -> str:
        return self.source.trouble or f"{len(self._settings.runs)} runs"

    def _send(self, matters: list[Matter]) -> None:
        self.outbox(matters)
        self._all_remembered = False

    def _remember_told(self) -> None:
        if not self._all_remembered:
            self._all_remembered = True
            remember(self.notifier, memory_of(self._settings.state))

    def _remember_successes(self) -> None:
        """Last good passes from history, so that a restart does not make a stale run look fresh."""
        journal = open_journal(self._settings.state, write=False)
        try:
            for event in reversed(journal.history(kinds=("pass",), limit=5000)):
                if event.data.get("ok") and event.at_ns <= self.started_ns:
                    self.worker.remember_success(event.run, event.at_ns)
        finally:
            journal.close()

    # --- signals ---------------------------------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGINT, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_reload)

    def _on_stop(self, number: int, _frame: FrameType | None) -> None:
        self.stop.request(number)
        self._wish.set()

    def _on_reload(self, _number: int, _frame: FrameType | None) -> None:
        self._reload = True
        self._wish.set()
