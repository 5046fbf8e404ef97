"""Sealing, mirroring and pruning behind a training: one thread that never raises into it."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from prune.errors import UsageError
from prune.publish.target import StrPath
from prune.settings.flags import RunFlags
from prune.settings.load import load
from prune.settings.schema import MINUTE, Settings
from prune.stop import Stop

LOCK_WAIT_NS = 10 * MINUTE  # a pass of a daemon or of cron on the same run is waited for
LEAVING_SECONDS = 60.0  # what an interpreter that ends gives the step in hand
_log = logging.getLogger("prune")  # trainers configure logging; ours is for the command line


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that went wrong behind the training: at which work, and how."""

    work: str  # seal, mirror, prune or resume
    detail: str


@dataclass(frozen=True, slots=True)
class Work:
    """What is done after each save."""

    seal: bool = True
    mirror: bool = True
    prune: bool = True


class Background:
    """After each save, in one thread: seal the step, bring the mirrors up to date, prune by policy::

        with Background("/data/ckpt/tiny", mirrors=["/mnt/mirror/tiny"], keep_last=12) as background:
            for step in steps:
                ...
                background.saved(step)

    The run is given by its root, or by ``config`` (a prune.toml) and ``run`` where that holds several. Saves that come
    faster than the work are sealed one by one and mirrored and pruned together. Every guard of ``prune apply`` holds.

    Nothing is ever raised into training but UsageError here, for settings that cannot be: failures are logged to the
    logger ``prune``, and stand in ``failures``. Leaving the block waits until all is done; a process that ends without
    gives it a minute to finish the step in hand, and whatever is cut off, the next pass settles.
    """

    def __init__(
        self,
        root: StrPath | None = None,
        *,
        mirrors: Sequence[StrPath] = (),
        policy: str | None = None,
        layout: str | None = None,
        keep_last: int | None = None,
        config: StrPath | None = None,
        run: str | None = None,
        work: Work | None = None,
    ) -> None:
        if root is None and config is None:
            raise UsageError("neither a root nor a configuration was given", mend="give the run's root, or config=…")
        flags = RunFlags(
            None if root is None else os.fsdecode(root),
            tuple(os.fsdecode(mirror) for mirror in mirrors),
            policy=policy,
            layout=layout,
            keep_last=keep_last,
        )
        self.settings = load(None if config is None else os.fsdecode(config), flags, () if run is None else (run,))
        if len(self.settings.runs) != 1:
            several = f"{len(self.settings.runs)} runs are configured, and one is trained"
            raise UsageError(several, mend="name it: run=…")
        self.work = work or Work()
        self.failures: list[Failure] = []
        self._stop = Stop()
        self._waiting: list[int] = []
        self._asked = False  # for what training would be resumed from
        self._busy = False
        self._ending = False
        self._turn = threading.Condition()
        self._thread: threading.Thread | None = None

    def saved(self, step: int) -> None:
        """Tells that the checkpoint of ``step`` is whole under its name. Returns at once."""
        with self._turn:
            if self._ending:
                return
            self._waiting.append(step)
            self._begin()
            self._turn.notify_all()

    def tell_candidate(self) -> None:
        """Has the log told what training would be resumed from now, by structure alone. Returns at once.

        Never a collective, and nothing that the other processes of a job would have to wait for.
        """
        with self._turn:
            if self._ending:
                return
            self._asked = True
            self._begin()
            self._turn.notify_all()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until everything told so far is done, at most ``seconds``; returns whether it is."""
        with self._turn:
            return self._turn.wait_for(lambda: not (self._waiting or self._asked or self._busy), seconds)

    def finish(self, seconds: float | None = None) -> bool:
        """Waits for what is left to do and ends the thread; returns whether all was done within ``seconds``.

        What is not done then is stopped after the step in hand.
        """
        done = self.wait(seconds)
        with self._turn:
            self._ending = True
            if not done:
                self._drop()
                self._stop.request()
            self._turn.notify_all()
        if self._thread is not None and done:
            self._thread.join()
        return done

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish(None if kind is None else LEAVING_SECONDS)

    # --- the thread ------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._thread is None:
            # A daemon: a training that hangs or dies is not kept alive by us, and a pass may be cut off anywhere.
            self._thread = threading.Thread(target=self._live, name="prune", daemon=True)
            self._thread.start()
            atexit.register(_leave, weakref.ref(self))

    def _drop(self) -> None:
        self._waiting.clear()
        self._asked = False

    def _live(self) -> None:
        while (turn := self._next()) is not None:
            asked, steps = turn
            try:
                if asked:
                    self._safely("resume", lambda: tell_candidate(self.settings, self._stop))
                if steps:
                    self._look_after(steps)
            finally:
                with self._turn:
                    self._busy = False
                    self._turn.notify_all()

    def _next(self) -> tuple[bool, list[int]] | None:
        """Whether the candidate is asked for, and the steps saved since; None at the end."""
        with self._turn:
            self._turn.wait_for(lambda: self._waiting or self._asked or self._ending)
            if not (self._waiting or self._asked):
                return None
            turn = self._asked, self._waiting
            self._asked, self._waiting = False, []
            self._busy = True
            return turn

    def _look_after(self, steps: list[int]) -> None:
        if self.work.seal:
            self._safely("seal", lambda: seal_steps(self.settings, steps, self._stop))
        if self.work.mirror and self.settings.runs[0].mirrors and not self._stop:
            self._safely("mirror", lambda: mirror_run(self.settings, self._stop))
        if self.work.prune and not self._stop:
            self._safely("prune", lambda: prune_run(self.settings, self._stop))

    def _safely(self, work: str, act: Callable[[], list[str]]) -> None:
        """Does one work; whatever it raises is a failure to tell, and training goes on."""
        started = time.monotonic()
        try:
            troubles = act()
        except Exception as error:
            _log.debug("%s failed", work, exc_info=True)
            troubles = [f"{type(error).__name__}: {error}"]
        for trouble in troubles:
            self.failures.append(Failure(work, trouble))
            _log.warning("%s of %s: %s", work, self.settings.runs[0].name, trouble)
        _log.debug("%s took %.2f s", work, time.monotonic() - started)


def tell_candidate(settings: Settings, stop: Stop) -> list[str]:
    """Logs what training would be resumed from, or why nothing there will do: told, and no failure of ours."""
    from prune.checking import Interrupted, Means
    from prune.errors import NothingYet
    from prune.journal import open_journal
    from prune.resume import Terms, find

    journal = open_journal(settings.state, write=True)
    try:
        found = find(settings.runs[0], Terms(Means("structure", stop=stop)), journal)
    except Interrupted:
        return []
    finally:
        journal.close()
    if found.candidate is not None:
        _log.info("training could be resumed from %s", found.candidate.path)
    elif isinstance(found.error, NothingYet):
        _log.info("a new run: nothing to resume")
    elif found.error is not None:
        _log.warning("there is nothing to resume from: %s", found.error)
    return []


def seal_steps(settings: Settings, steps: Sequence[int], stop: Stop) -> list[str]:
    """Writes the manifests of steps that have none; what went wrong, in sentences. A step that has gone is passed over:
    it was pruned already, or the trainer's own rotation took it."""
    from prune.checking import Interrupted, Means
    from prune.seal import Sealing, seal_all

    found: list[Sealing] = []
    for step in steps:
        with contextlib.suppress(UsageError, Interrupted):
            found += seal_all(settings, [step], means=Means(stop=stop), wait_ns=LOCK_WAIT_NS)
    return [
        *(f"{copy.path} on {copy.replica}: {copy.detail}" for run in found for copy in (*run.refused, *run.failed)),
        *(f"{block.block}: {block.detail}" for run in found for block in run.blocks),
    ]


def mirror_run(settings: Settings, stop: Stop) -> list[str]:
    """Brings the mirrors up to date; what went wrong, in sentences."""
    from prune.mirror import Conduct, mirror

    found = mirror(settings, conduct=Conduct(wait_ns=LOCK_WAIT_NS, stop=stop))
    return [
        *(f"step {copy.step} to {copy.replica}: {copy.error}" for run in found for copy in run.failed),
        *(f"{block.block}: {block.detail}" for run in found for block in run.blocks),
    ]


def prune_run(settings: Settings, stop: Stop) -> list[str]:
    """Carries out a fresh plan; what went wrong, in sentences."""
    from prune.engine import Conduct, apply

    outcome = apply(settings, conduct=Conduct(wait_ns=LOCK_WAIT_NS, stop=stop))
    return [
        *(f"step {copy.step} on {copy.replica}: {copy.error}" for run in outcome.runs for copy in run.failed),
        *(f"{run.blocked.block}: {run.blocked.detail}" for run in outcome.runs if run.blocked is not None),
    ]


def _leave(background: weakref.ref[Background]) -> None:
    """The interpreter ends: what is being done may finish, what only waits is left to the next pass."""
    alive = background()
    if alive is not None:
        with alive._turn:
            alive._drop()
        alive._stop.request()
        alive.wait(LEAVING_SECONDS)
