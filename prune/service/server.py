"""The HTTP server in a thread of its own."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prune import logs
from prune.service.http import application

if TYPE_CHECKING:
    from prune.service.daemon import Daemon


@dataclass(frozen=True, slots=True)
class Serving:
    """A server at work."""

    url: str
    stop: Callable[[], None]


class _InOurLog(logging.Handler):
    """What the server says becomes lines of ours. An exception in an answer was told already, and one request broken
    off at the end would be a page of stack each."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            logs.debug(f"http: {record.getMessage().strip()}: {type(error).__name__}: {error}")
        elif record.levelno >= logging.WARNING:
            logs.warning(f"http: {record.getMessage()}")


def _listen_to_the_server() -> None:
    told = logging.getLogger("uvicorn.error")
    told.propagate = False
    told.handlers = [_InOurLog()]


def start(daemon: Daemon, listen: str) -> Serving:
    """Serves in a thread of its own. Port 0 is any free one. Raises OSError when the address cannot be had."""
    import uvicorn

    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, int(port)))
        bound.listen(128)
    except OSError:
        bound.close()
        raise
    _listen_to_the_server()
    config = uvicorn.Config(
        application(daemon), access_log=False, log_config=None, server_header=False, timeout_graceful_shutdown=5,
        lifespan="off",
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name="http", daemon=True)
    thread.start()
    until = time.monotonic() + 10
    while not server.started and thread.is_alive() and time.monotonic() < until:
        time.sleep(0.01)
    name, number = bound.getsockname()[:2]
    url = f"http://{f'[{name}]' if ':' in name else name}:{number}/"
    logs.info(f"listening on {url}")

    def stop() -> None:
        server.should_exit = True
        thread.join(10)

    return Serving(url, stop)
