"""One way to a PostgreSQL server per process and address: bounded in time, remade where it broke, and left alone for a
moment after it could not be reached, so that a fleet of runs does not wait for it run by run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import SQLAlchemyError

from prune import logs
from prune.errors import UsageError
from prune.journal.tables import KNOWN, SCHEMA, VERSION_TABLE

PATIENCE_SECONDS = 5.0  # for one transaction, whatever the server does meanwhile
MIGRATION_SECONDS = 60.0
LEFT_ALONE_SECONDS = 5.0
STALLED_CLIENT = "10s"  # after this the server ends a transaction whose client is paused: it holds up all others
SCHEMA_LOCK = 0x636B70740001  # any number that is ours; history's own is in postgres.py


class Unavailable(Exception):
    """The server did not do what was asked of it. Says why, without any secret."""


class PatientConnection(psycopg.Connection[Any]):
    """Waits for the server only so long. A server that is stopped, or a network that swallows, answers nothing at all,
    and no time limit of the server's own helps against that."""

    until: float | None = None  # by the monotonic clock; None: each call has its own patience

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        if self.closed:
            raise psycopg.OperationalError("the connection is closed")
        until = self.until if self.until is not None else time.monotonic() + PATIENCE_SECONDS
        return super().wait(_ended_at(until, gen, self), *args, **kwargs)


def _ended_at(until: float, gen: Generator[Any, Any, Any], connection: PatientConnection) -> Generator[Any, Any, Any]:
    """The same conversation, broken off for good where the other side is silent until then."""
    try:
        wish = next(gen)
        while True:
            ready = yield wish
            if not ready and time.monotonic() > until:
                connection.pgconn.finish()
                raise psycopg.OperationalError("the server does not answer in time")
            wish = gen.send(ready)
    except StopIteration as end:
        return end.value


@dataclass
class Server:
    """All that one process knows of one database. Used from many threads."""

    url: str
    where: str
    engine: Engine
    trouble: str | None = None
    ready: bool = False  # the schema was found to be ours
    guard: threading.RLock = field(default_factory=threading.RLock)
    _alone_until: float = 0.0

    @contextmanager
    def transaction(self, *, patience: float | None = None) -> Iterator[Connection]:
        """One transaction, committed at the end of the block. Raises Unavailable, whatever went wrong."""
        if time.monotonic() < self._alone_until and self.trouble is not None:
            raise Unavailable(self.trouble)
        try:
            with self.engine.connect() as connection:
                _give_until(connection, patience or PATIENCE_SECONDS)
                with connection.begin():
                    yield connection
        except (SQLAlchemyError, psycopg.Error, OSError) as error:
            self._failed(error)
            raise Unavailable(self.trouble) from error
        self.trouble = None

    def _failed(self, error: Exception) -> None:
        cause = getattr(error, "orig", None) or error
        self.trouble = f"{self.where}: {_first_line(cause)}"
        if isinstance(cause, psycopg.OperationalError):
            self._alone_until = time.monotonic() + LEFT_ALONE_SECONDS

    def try_at_once(self) -> None:
        """Forgets that it could not be reached a moment ago."""
        self._alone_until = 0.0

    def prepare(self, *, write: bool) -> bool:
        """Whether the tables are there; with ``write`` they are made, and brought up to date. Raises Unavailable."""
        with self.guard:
            if self.ready:
                return True
            with self.transaction() as connection:
                version = _version(connection)
            if version is not None and version not in KNOWN:
                raise Unavailable(f"{self.where} was written by a newer version (schema {version}); it is left alone")
            if version != SCHEMA and write:
                self._migrate()
                version = SCHEMA
            self.ready = version == SCHEMA
            return version is not None

    def _migrate(self) -> None:
        from prune.journal.migrate import upgrade

        with self.transaction(patience=MIGRATION_SECONDS) as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": SCHEMA_LOCK})
            if _version(connection) != SCHEMA:
                upgrade(connection)


_servers: dict[str, Server] = {}
_servers_lock = threading.Lock()


def server_of(url: str) -> Server:
    """The one Server of this process for a URL. Raises UsageError for a URL that libpq cannot read."""
    with _servers_lock:
        if url not in _servers:
            _servers[url] = Server(url, where_of(url), _engine(url))
        return _servers[url]


def where_of(url: str) -> str:
    """The address without user, password and options. Raises UsageError."""
    try:
        found = conninfo_to_dict(_for_libpq(url))
        for number in str(found.get("port") or "0").split(","):
            int(number)
    except (psycopg.Error, ValueError) as error:
        raise UsageError(f"state: this is no address of a PostgreSQL database: {_first_line(error)}",
                         mend="write postgresql://USER@HOST:PORT/DATABASE") from None  # fmt: skip
    logs.hide(str(found["password"]) if found.get("password") else None)
    port = f":{found['port']}" if found.get("port") else ""
    return f"postgresql://{found.get('host') or ''}{port}/{found.get('dbname') or ''}"


def _for_libpq(url: str) -> str:
    """libpq reads the address itself, so that services, several hosts and ssl options work as everywhere."""
    scheme, _, rest = url.partition("://")
    if scheme not in ("postgresql", "postgresql+psycopg"):
        raise UsageError(f"state = {scheme}://…: only psycopg is used for PostgreSQL", mend="write postgresql://…")
    return f"postgresql://{rest}"


def _engine(url: str) -> Engine:
    conninfo = _for_libpq(url)

    def connect() -> PatientConnection:
        connection = PatientConnection.connect(
            conninfo, connect_timeout=int(PATIENCE_SECONDS), application_name="ckpt-prune", prepare_threshold=None
        )
        connection.until = time.monotonic() + PATIENCE_SECONDS
        connection.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, false)", (STALLED_CLIENT,))
        connection.commit()
        return connection

    engine = create_engine("postgresql+psycopg://", creator=connect, pool_pre_ping=True, pool_size=4, max_overflow=8,
                           pool_timeout=PATIENCE_SECONDS)  # fmt: skip

    @event.listens_for(engine, "checkin")
    def _(dbapi_connection: Any, _record: Any) -> None:
        if dbapi_connection is not None:
            dbapi_connection.until = None

    return engine


def _give_until(connection: Connection, seconds: float) -> None:
    held = connection.connection.dbapi_connection
    assert isinstance(held, PatientConnection)
    held.until = time.monotonic() + seconds


def _version(connection: Connection) -> str | None:
    if connection.execute(text("SELECT to_regclass(:table)"), {"table": VERSION_TABLE}).scalar() is None:
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return None if found is None else str(found)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return logs.masked(lines[0]) if lines else type(error).__name__


def _forget_after_fork() -> None:
    """A child must not speak on its parent's connections."""
    for server in _servers.values():
        server.engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_after_fork)
