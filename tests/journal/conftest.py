from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.journal.server import PostgresServer, started


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    yield from started()


@pytest.fixture
def url(server: PostgresServer) -> Iterator[str]:
    """An empty database. Whatever a test does to the server, the next one finds it at work."""
    yield server.new_database()
    if server.process is None or server.process.poll() is not None:
        server.start()
    server.wake()
