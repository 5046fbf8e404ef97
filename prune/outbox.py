"""The ways out: a webhook, Apprise, and the thread that sends, so that a slow channel keeps no pass waiting."""

from __future__ import annotations

import json
import queue
import threading
import time
import urllib.request
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from prune import logs
from prune.notify import FIELDS, Matter, Send
from prune.report.lines import printable
from prune.settings.schema import Notify

SEND_SECONDS = 20.0
MOST = 50  # matters in one message


def channels(settings: Notify) -> list[Send]:
    """The configured ways out. Raises ValueError with a sentence for a URL that cannot be one."""
    ways: list[Send] = []
    if settings.webhook:
        ways.append(Webhook(settings.webhook))
    if settings.apprise:
        ways.append(_apprise(settings.apprise))
    return ways


def text_of(matters: Sequence[Matter]) -> str:
    """A sentence each, as many as somebody reads and a channel takes."""
    lines = [printable(matter.sentence) for matter in matters[:MOST]]
    if len(matters) > MOST:
        lines.append(f"… and {len(matters) - MOST} more; `prune status` and the page list them all")
    return "\n".join(lines)


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
            "text": text_of(matters),
            "matters": [{name: getattr(matter, name) for name in (*FIELDS, "state")} for matter in matters[:MOST]],
            "more": max(0, len(matters) - MOST),
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
        if not hub.notify(title="ckpt-prune", body=text_of(matters)):
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
