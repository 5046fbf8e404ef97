"""Which host names are ours: a page elsewhere must not reach us by pointing its own name at this machine."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from prune.service.answers import json_answer

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class HostCheck:
    """Refuses requests for a name that is not ours: a page elsewhere cannot reach us by pointing its name here.

    Numbers are fine, since a browser sends a number only where the user went to it.
    """

    def __init__(self, app: ASGIApp, listen: Callable[[], str], further: Callable[[], tuple[str, ...]] = tuple) -> None:
        self._app = app
        self._listen = listen
        self._further = further

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._ours(dict(scope["headers"]).get(b"host", b"").decode("latin-1")):
            response = json_answer({"error": "this host name is not served here"}, 421)
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _ours(self, host: str) -> bool:
        name = _host_name(host)
        if name in {further.lower() for further in self._further()}:
            return True
        bound = _host_name(self._listen())
        return name in LOOPBACK or name == bound or _is_number(name) or (
            not _is_loopback(bound) and name in _own_names()
        )  # fmt: skip


def _host_name(host: str) -> str:
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.rpartition(":")[0] if name.count(":") == 1 else name


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return name == "localhost" or (_is_number(name) and ipaddress.ip_address(name).is_loopback)


def _own_names() -> set[str]:
    """What this machine is called, and what its cluster calls the service in front of it."""
    name = socket.gethostname().lower()
    return {name, name.partition(".")[0], socket.getfqdn().lower()}
