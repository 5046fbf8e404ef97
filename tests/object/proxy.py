"""A small HTTP proxy between a client and an object store, in which things go wrong when a test says so."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "keep-alive", "content-length"})


@dataclass(frozen=True)
class Request:
    """One request as it passed: its number from 1 on, its method, and its path with query."""

    number: int
    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and "list-type=2" in self.target

    @property
    def is_bulk_delete(self) -> bool:
        return self.method == "POST" and urlsplit(self.target).query in ("delete", "delete=")

    @property
    def writes(self) -> bool:
        return self.method in ("PUT", "POST", "DELETE")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


Passing = Callable[[Request], Answer]
"""Sends a request on to the store and gives back what it answered."""

Fault = Callable[[Request, Passing], Answer | None]
"""What happens to a request; None: the connection is cut without an answer."""


def nothing_wrong(request: Request, passing: Passing) -> Answer | None:
    return passing(request)


class Proxy:
    """Use as a context manager; ``url`` is where clients go. Set ``fault`` at any time."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream)
        self.fault: Fault = nothing_wrong
        self.seen: list[Request] = []
        self._turn = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                proxy._serve(self)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}{self.upstream.path}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Proxy:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def forget(self) -> None:
        """Starts counting anew, with nothing wrong."""
        self.fault = nothing_wrong
        self.seen = []

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = _body(handler)
        with self._turn:
            request = Request(len(self.seen) + 1, handler.command, handler.path, dict(handler.headers.items()), body)
            self.seen.append(request)
        try:
            answer = self.fault(request, self._pass)
        except OSError:
            answer = None
        if answer is None:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        handler.send_response(answer.status)
        for name, value in answer.headers:
            if name.lower() not in _HOP_BY_HOP:
                handler.send_header(name, value)
        claimed = [value for name, value in answer.headers if name.lower() == "content-length"]
        length = claimed[0] if claimed and handler.command == "HEAD" else str(_claimed(answer))
        handler.send_header("Content-Length", length)
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(answer.body)
            if _claimed(answer) != len(answer.body):
                handler.close_connection = True
                handler.wfile.flush()
                handler.connection.shutdown(socket.SHUT_RDWR)

    def _pass(self, request: Request) -> Answer:
        assert self.upstream.hostname is not None
        connection = HTTPConnection(self.upstream.hostname, self.upstream.port, timeout=30)
        try:
            headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
            headers["Content-Length"] = str(len(request.body))
            connection.request(request.method, request.target, request.body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.getheaders(), response.read())
        finally:
            connection.close()


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    if "chunked" in handler.headers.get("Transfer-Encoding", ""):
        pieces = []
        while size := int(handler.rfile.readline().split(b";")[0], 16):
            pieces.append(handler.rfile.read(size))
            handler.rfile.readline()
        handler.rfile.readline()
        return b"".join(pieces)
    return handler.rfile.read(int(handler.headers.get("Content-Length") or 0))


def _claimed(answer: Answer) -> int:
    claimed = [int(value) for name, value in answer.headers if name == "X-Claimed-Length"]
    return claimed[0] if claimed else len(answer.body)


# --- faults ------------------------------------------------------------------------------------------------------


def drop(request: Request, passing: Passing) -> Answer | None:
    """The connection is cut before the store hears of anything."""
    return None


def drop_the_answer(request: Request, passing: Passing) -> Answer | None:
    """The store has done it, and nobody is told."""
    passing(request)
    return None


def refuse(status: int, code: str) -> Fault:
    def fault(request: Request, passing: Passing) -> Answer:
        return Answer(status, [("Content-Type", "application/xml")], f"<Error><Code>{code}</Code></Error>".encode())

    return fault


def delay(seconds: float) -> Fault:
    def fault(request: Request, passing: Passing) -> Answer:
        time.sleep(seconds)
        return passing(request)

    return fault


def without(header: str) -> Fault:
    """A store that passes over a condition without a word."""

    def fault(request: Request, passing: Passing) -> Answer:
        kept = {name: value for name, value in request.headers.items() if name.lower() != header}
        return passing(replace(request, headers=kept))

    return fault


def truncate(request: Request, passing: Passing) -> Answer:
    """Half of the answer arrives, then the connection is cut."""
    answer = passing(request)
    return Answer(answer.status, [*answer.headers, ("X-Claimed-Length", str(len(answer.body)))],
                  answer.body[: len(answer.body) // 2])  # fmt: skip


def short_page(request: Request, passing: Passing) -> Answer:
    """A list answer with the second half of its entries missing, and the word that more would come taken out."""
    answer = passing(request)
    entries = re.findall(rb"<Contents>.*?</Contents>|<CommonPrefixes>.*?</CommonPrefixes>", answer.body, re.DOTALL)
    body = answer.body
    for entry in entries[len(entries) // 2 :]:
        body = body.replace(entry, b"")
    body = re.sub(rb"<NextContinuationToken>.*?</NextContinuationToken>", b"", body)
    return Answer(answer.status, answer.headers, body)


def only(which: Callable[[Request], bool], fault: Fault) -> Fault:
    """A fault on the requests that fit, nothing wrong with the others."""

    def chosen(request: Request, passing: Passing) -> Answer | None:
        return (fault if which(request) else nothing_wrong)(request, passing)

    return chosen


def first(count: int, which: Callable[[Request], bool], fault: Fault) -> Fault:
    """A fault on the first ``count`` requests that fit."""
    left = [count]

    def chosen(request: Request, passing: Passing) -> Answer | None:
        if which(request) and left[0] > 0:
            left[0] -= 1
            return fault(request, passing)
        return passing(request)

    return chosen
