"""A real PostgreSQL of one test's own: started as a user without rights, killed, stopped and started again at will."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

NOBODY = 65534
WHY_NOT = (
    "PostgreSQL's server (initdb, postgres), psycopg, SQLAlchemy and alembic are needed: apt-get install postgresql"
)


@cache
def binaries() -> Path | None:
    """Where initdb and postgres stand."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "postgres").exists() and (place / "initdb").exists()), None)


def usable() -> bool:
    try:
        import alembic  # noqa: F401
        import psycopg  # noqa: F401
        import sqlalchemy  # noqa: F401
    except ImportError:
        return False
    return binaries() is not None and (os.geteuid() != 0 or shutil.which("setpriv") is not None)


needs_postgres = pytest.mark.skipif(not usable(), reason=WHY_NOT)


class PostgresServer:
    """One cluster in a directory of its own, reached by a socket there.

    ``listen`` makes it answer all of a network too, ``within`` is what puts it there.
    """

    def __init__(self, *, listen: str = "", network: str = "", within: Sequence[str] = ()) -> None:
        self.listen, self.within = listen, within
        self.home = Path(tempfile.mkdtemp(prefix="prune-pg-", dir="/tmp"))  # short: socket paths are
        self.data = self.home / "data"
        self.process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        if os.geteuid() == 0:
            os.chown(self.home, NOBODY, NOBODY)
        subprocess.run([*self._user(), str(_binary("initdb")), "-A", "trust", "-U", "prune", "--no-sync", "-E", "UTF8",
                        "--locale", "C", "-D", str(self.data)],
                       check=True, capture_output=True, cwd=self.home)  # fmt: skip
        if network:
            with (self.data / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {network} trust\n")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://prune:hunter2@/{database}?host={self.home}"

    def from_afar(self, url: str) -> str:
        """The same database as other hosts reach it."""
        return url.partition("?")[0].replace("@/", f"@{self.listen}/")

    def new_database(self) -> str:
        """The URL of an empty one."""
        self._databases += 1
        self.run(f"CREATE DATABASE test_{self._databases} TEMPLATE template0")  # nobody can be connected to that one
        return self.url(f"test_{self._databases}")

    def start(self) -> None:
        until = time.monotonic() + 60
        while True:
            self.process = subprocess.Popen(
                [*self.within, *self._user(), str(_binary("postgres")), "-D", str(self.data),
                 "-c", f"listen_addresses={self.listen}", "-c", f"unix_socket_directories={self.home}",
                 "-c", "fsync=off", "-c", "max_connections=60"],
                cwd=self.home, stdout=subprocess.DEVNULL, stderr=(self.home / "log").open("ab"),
            )  # fmt: skip
            while self.process.poll() is None:
                if self._answers():
                    return
                assert time.monotonic() < until, (self.home / "log").read_text()
                time.sleep(0.05)
            assert time.monotonic() < until, (self.home / "log").read_text()  # a killed one's children may still go
            time.sleep(0.2)

    def run(self, sql: str, url: str | None = None) -> str:
        """What psql prints for a statement."""
        words = [str(_binary("psql")), url or self.url(), "-qtAc", sql]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()

    def kill(self) -> None:
        """SIGKILL to all of it, as a machine that loses its power."""
        assert self.process is not None
        self._signal(self._all(), signal.SIGKILL)
        self.process.wait()

    def pause(self) -> None:
        self._signal(self._all(), signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(self._all()[::-1], signal.SIGCONT)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def _signal(self, pids: list[int], number: int) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):  # a child may end at any time
                os.kill(pid, number)

    def _answers(self) -> bool:
        return subprocess.run([str(_binary("pg_isready")), "-q", "-h", str(self.home)]).returncode == 0

    def _all(self) -> list[int]:
        """The server's own process and its children."""
        assert self.process is not None
        children = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout
        return [self.process.pid, *map(int, children.split())]

    def _user(self) -> list[str]:
        if os.geteuid() != 0:
            return []
        return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def _binary(name: str) -> Path:
    place = binaries()
    assert place is not None
    return place / name


def started(*, listen: str = "", network: str = "", within: Sequence[str] = ()) -> Iterator[PostgresServer]:
    """For fixtures: a server that runs, and is gone afterwards."""
    server = PostgresServer(listen=listen, network=network, within=within)
    try:
        server.start()
        yield server
    finally:
        server.close()
