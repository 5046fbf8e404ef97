"""`prune serve` as a process of its own, with systemd's ear at our side."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Served:
    """One daemon process. ``heard`` is what it told systemd."""

    def __init__(self, config: Path, *, folder: Path) -> None:
        self.config = config
        self._folder = folder
        self._ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        (folder / "notify").unlink(missing_ok=True)
        self._ear.bind(str(folder / "notify"))
        self._ear.setblocking(False)
        self.heard: list[str] = []
        self.log = folder / "serve.log"
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "NOTIFY_SOCKET": str(self._folder / "notify"),
            "WATCHDOG_USEC": "400000",
            "XDG_STATE_HOME": str(self._folder / "state"),
        }
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "prune", "serve", "--config", str(self.config)],
                stderr=log,
                stdout=log,
                env=environment,
            )

    def again(self) -> None:
        """Starts it once more after it has gone."""
        self.process.wait(60)
        self.process = self._start()

    def listen(self) -> str:
        while True:
            try:
                self.heard.append(self._ear.recv(4096).decode())
            except BlockingIOError:
                return "\n".join(self.heard)

    def ready(self) -> None:
        self.until(lambda: "READY=1" in self.listen(), "ready")

    def until(self, condition: Callable[[], Any], what: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"not {what}; exit {self.process.poll()}; {self.said()[-3000:]}")
            time.sleep(0.05)

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        """Ends it politely; returns its exit code."""
        if self.process.poll() is None:
            self.send(signal.SIGTERM)
        code = self.process.wait(60)
        self.listen()
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        self._ear.close()


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())
