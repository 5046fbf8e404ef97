"""Word to systemd over its datagram socket: ready, reloading, stopping, still alive."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping

from prune import logs


class Supervisor:
    """Whoever started us, if it wishes to hear. Without ``NOTIFY_SOCKET`` every word is for nobody."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._watchdog_usec = _watchdog(environment)

    @property
    def heartbeat_seconds(self) -> float | None:
        """How often ``alive`` should be called, half of what is allowed; None where nobody watches."""
        return self._watchdog_usec / 2e6 if self._address and self._watchdog_usec else None

    def ready(self, status: str) -> None:
        self._say(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        self._say(f"STATUS={status}")

    def reloading(self) -> None:
        self._say(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._say("STOPPING=1")

    def alive(self) -> None:
        self._say("WATCHDOG=1")

    def _say(self, words: str) -> None:
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.settimeout(1)
                channel.sendto(words.encode("utf-8", "replace"), address)
        except OSError as error:
            logs.debug(f"NOTIFY_SOCKET: {error.strerror or error}")


def _watchdog(environment: Mapping[str, str]) -> int:
    """Microseconds allowed between two signs of life, 0 where none are asked for of this process."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) if text.isdecimal() else 0
