"""One place that tells people: attention, blocks, fallback, damage found, target not reached, and that it is over.

The log always gets it. A webhook or Apprise gets it where configured: the same thing again at most once in
``notify.every``, no more than a few messages an hour altogether, and "recovered" when it is gone.
"""

from __future__ import annotations

import json
import queue
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from prune import logs
from prune.model import Attention, Block
from prune.settings.schema import HOUR, Notify

MOST_IN_AN_HOUR = 30
SEND_SECONDS = 20.0
FLAPPING = 2  # gone for so many looks in a row before it counts as recovered


@dataclass(frozen=True, slots=True)
class Matter:
    """One thing to tell. Two of one key are the same matter, whatever their details say by now."""

    run: str
    kind: str
    replica: str | None
    detail: str
    mend: str = ""
    state: str = "open"  # open | recovered

    @property
    def key(self) -> tuple[str, str, str | None]:
        return self.run, self.kind, self.replica

    @property
    def sentence(self) -> str:
        where = f"{self.run} on {self.replica}" if self.replica else self.run
        if self.state == "recovered":
            return f"{where}: recovered: {self.kind}"
        return f"{where}: {self.kind}: {self.detail}" + (f" ({self.mend})" if self.mend else "")


def matters_of(run: str, attention: Iterable[Attention], blocks: Iterable[Block]) -> list[Matter]:
    """What a pass over one run found, one matter per key."""
    found: dict[tuple[str, str, str | None], Matter] = {}
    for block in blocks:
        matter = Matter(run, block.block, block.replica, block.detail)
        found.setdefault(matter.key, matter)
    for note in attention:
        matter = Matter(run, note.kind, note.replica, note.detail, note.mend)
        found.setdefault(matter.key, matter)
    return list(found.values())


_FIELDS = ("run", "kind", "replica", "detail", "mend")


@dataclass
class _Open:
    matter: Matter
    told_ns: int | None = None  # when it was last sent
    missed: int = 0  # looks in a row that no longer found it


Send = Callable[[list[Matter]], None]


@dataclass
class Notifier:
    """Remembers what is open, and decides what is worth telling now. Safe for many threads.

    ``send`` hands messages over and must not wait; ``now_ns`` is a clock in nanoseconds.
    """

    every_ns: int = HOUR
    send: Send = lambda matters: None
    now_ns: Callable[[], int] = time.time_ns
    _open: dict[tuple[str, str, str | None], _Open] = field(default_factory=dict)
    _sent: list[int] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def observe(self, run: str, matters: Iterable[Matter]) -> list[Matter]:
        """Takes note of everything that is so in a run now, and sends what is new, still so after long, or over.

        Returns what was sent, for tests and callers that wish to know.
        """
        found = {matter.key: matter for matter in matters}
        with self._lock:
            due = [*self._news(found), *self._recovered(run, found)]
            return self._deliver(due)

    def tell(self, matter: Matter) -> list[Matter]:
        """One thing that happened, such as a fallback: told once in ``every_ns``, never "recovered"."""
        with self._lock:
            known = self._open.get(matter.key)
            if known is not None and not self._again(known):
                return []
            logs.warning(matter.sentence)
            happened = _Open(matter, self.now_ns())
            self._open[matter.key] = happened
            happened.missed = -(1 << 62)  # an event has no end to be told
            return self._deliver([matter])

    def open_matters(self) -> list[dict[str, Any]]:
        """Everything that is open, as plain values, for a memory that outlives the process."""
        with self._lock:
            return [
                {name: getattr(held.matter, name) for name in _FIELDS}
                | {"told_ns": held.told_ns, "missed": held.missed}
                for held in self._open.values()
            ]

    def recall(self, remembered: Iterable[dict[str, Any]]) -> None:
        """What an earlier process had open. What cannot be understood is passed over, and told anew."""
        with self._lock:
            for entry in remembered:
                try:
                    matter = Matter(**{name: entry[name] for name in _FIELDS})
                    self._open[matter.key] = _Open(matter, entry["told_ns"], int(entry["missed"]))
                except (KeyError, TypeError, ValueError):
                    continue

    def forget(self, runs: Iterable[str]) -> None:
        """Drops what is open in runs that are no longer in the settings; nobody recovered, so nothing is told."""
        kept = set(runs)
        with self._lock:
            self._open = {key: held for key, held in self._open.items() if key[0] in kept}

    def _news(self, found: dict[tuple[str, str, str | None], Matter]) -> Iterator[Matter]:
        for key, matter in found.items():
            known = self._open.get(key)
            if known is None:
                logs.warning(matter.sentence)
                self._open[key] = _Open(matter, self.now_ns())
                yield matter
                continue
            known.missed = 0
            known.matter = matter
            if self._again(known):
                logs.warning(f"still: {matter.sentence}")
                known.told_ns = self.now_ns()
                yield matter

    def _recovered(self, run: str, found: dict[tuple[str, str, str | None], Matter]) -> Iterator[Matter]:
        for key, held in list(self._open.items()):
            if key[0] != run or key in found:
                continue
            held.missed += 1
            if held.missed >= FLAPPING:
                del self._open[key]
                if held.told_ns is None:
                    continue  # nobody was told that it began
                over = Matter(run, held.matter.kind, held.matter.replica, held.matter.detail, state="recovered")
                logs.info(over.sentence)
                yield over

    def _again(self, known: _Open) -> bool:
        """A time still to come is none: the clock was set back since."""
        return known.told_ns is None or not 0 <= self.now_ns() - known.told_ns < self.every_ns

    def _deliver(self, due: list[Matter]) -> list[Matter]:
        """Sends as many as the hour allows. What is held back is due again at the next look."""
        now = self.now_ns()
        self._sent = [at for at in self._sent if 0 <= now - at < HOUR]
        room = MOST_IN_AN_HOUR - len(self._sent)
        sent = due[: max(0, room)]
        for held in due[max(0, room) :]:
            if held.key in self._open:
                self._open[held.key].told_ns = None
        if sent:
            self._sent += [now] * len(sent)
            self.send(sent)
        return sent


def channels(settings: Notify) -> list[Send]:
    """The configured ways out. Raises ValueError with a sentence for a URL that cannot be one."""
    ways: list[Send] = []
    if settings.webhook:
        ways.append(Webhook(settings.webhook))
    if settings.apprise:
        ways.append(_apprise(settings.apprise))
    return ways


class Webhook:
    """Posts matters as JSON. The text field makes it a message for Slack, Mattermost, Discord bridges and the like."""

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ValueError("service.notify.webhook is no http or https URL")
        self._url = url
        logs.hide(url)

    def __call__(self, matters: list[Matter]) -> None:
        """Raises OSError when it could not be delivered."""
        body = {
            "schema": "prune.notification/1",
            "text": "\n".join(matter.sentence for matter in matters),
            "matters": [{name: getattr(matter, name) for name in (*_FIELDS, "state")} for matter in matters],
        }
        request = urllib.request.Request(
            self._url, json.dumps(body).encode(), {"Content-Type": "application/json", "User-Agent": "ckpt-prune"}
        )
        with urllib.request.urlopen(request, timeout=SEND_SECONDS) as answer:
            answer.read(1 << 16)

    def __str__(self) -> str:
        return f"webhook at {urlsplit(self._url).hostname}"


def _apprise(urls: tuple[str, ...]) -> Send:
    try:
        import apprise
    except ImportError:
        raise ValueError("service.notify.apprise needs: pip install 'ckpt-prune[notify]'")
    hub: Any = apprise.Apprise()
    for place, url in enumerate(urls):
        logs.hide(url)
        if not hub.add(url):
            raise ValueError(f"service.notify.apprise[{place}] is no URL that Apprise knows")

    def send(matters: list[Matter]) -> None:
        if not hub.notify(title="ckpt-prune", body="\n".join(matter.sentence for matter in matters)):
            raise OSError("Apprise could not deliver it")

    return send


class Outbox:
    """Sends in a thread of its own, so that a slow channel keeps no pass waiting; what piles up is dropped and said."""

    def __init__(self, ways: list[Send], *, tries: int = 3, pause: float = 5.0) -> None:
        self._ways = ways
        self._tries = tries
        self._pause = pause
        self._queue: queue.Queue[list[Matter] | None] = queue.Queue(maxsize=100)
        self._thread = threading.Thread(target=self._work, name="notifier", daemon=True)
        self._thread.start()

    def __call__(self, matters: list[Matter]) -> None:
        if not self._ways:
            return
        try:
            self._queue.put_nowait(matters)
        except queue.Full:
            logs.error("notifications pile up: a channel does not answer; these are in the log alone")

    def close(self, timeout: float = 5.0) -> None:
        """Sends what waits, for so many seconds."""
        try:
            self._queue.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(timeout)

    def _work(self) -> None:
        while (matters := self._queue.get()) is not None:
            for way in self._ways:
                self._send(way, matters)

    def _send(self, way: Send, matters: list[Matter]) -> None:
        for attempt in range(1, self._tries + 1):
            try:
                way(matters)
                return
            except Exception as error:  # a channel's own trouble, of whatever kind, must not end the telling
                logs.error(f"{way}: try {attempt} of {self._tries}: {type(error).__name__}: {error}")
                if attempt < self._tries:
                    time.sleep(self._pause)
