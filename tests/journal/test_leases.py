"""One daemon at a time on a run that many look after."""

from __future__ import annotations

import time

import pytest

from prune.journal import leases
from prune.journal.base import Refused
from prune.journal.postgres import open_postgres
from tests.journal.server import PostgresServer, needs_postgres

pytestmark = [needs_postgres, pytest.mark.slow]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr(leases, "SECONDS", 1.0)
    return 1.0


def quiet(lease: leases.RunLease) -> leases.RunLease:
    """One whose holder is as if dead: nobody renews it any more."""
    lease._ended.set()
    return lease


def test_a_run_is_leased_to_one_and_another_run_to_another(url: str) -> None:
    journal = open_postgres(url, write=True)
    first = journal.lease("tiny")
    with pytest.raises(Refused, match=r"process \d+ on .* works on it"):
        journal.lease("tiny")
    other = journal.lease("big")
    assert first.held() and other.held()  # noqa: PT018
    first.release()
    again = journal.lease("tiny")
    assert again.token > first.token
    for lease in (again, other):
        lease.release()


def test_a_lease_lasts_as_long_as_its_holder_works(url: str, short: float) -> None:
    journal = open_postgres(url, write=True)
    lease = journal.lease("tiny")
    time.sleep(2.5 * short)
    assert lease.held()
    with pytest.raises(Refused):
        journal.lease("tiny")
    lease.release()


def test_a_dead_holders_run_is_taken_over_after_its_lease(url: str, short: float) -> None:
    journal = open_postgres(url, write=True)
    dead = quiet(journal.lease("tiny"))
    with pytest.raises(Refused):
        journal.lease("tiny")
    time.sleep(1.2 * short)
    lease = journal.lease("tiny")
    assert lease.token == dead.token + 1
    assert not dead.held()
    dead.release()  # a late word of the dead one takes nothing away
    assert lease.held()
    with pytest.raises(Refused):
        journal.lease("tiny")
    lease.release()


def test_a_lease_that_ran_out_is_never_renewed_even_where_nobody_took_over(url: str, short: float) -> None:
    journal = open_postgres(url, write=True)
    lease = quiet(journal.lease("tiny"))
    time.sleep(1.2 * short)
    lease.until = leases.boot_seconds() + 60  # as if our own clock had not seen the pause
    lease.renew()
    assert not lease.held()
    assert "another took it" in (lease.lost or "")


def test_a_stolen_lease_is_noticed(url: str, server: PostgresServer, short: float) -> None:
    journal = open_postgres(url, write=True)
    lease = journal.lease("tiny")
    server.run("UPDATE prune_leases SET holder = 'other:1:x', token = token + 1", url)
    time.sleep(0.5 * short)
    assert not lease.held()


def test_with_the_database_away_the_work_ends_with_the_lease_and_none_begins(
    url: str, server: PostgresServer, short: float
) -> None:
    journal = open_postgres(url, write=True)
    lease = journal.lease("tiny")
    server.kill()
    assert lease.held()
    time.sleep(1.2 * short)
    assert not lease.held()
    assert "ran out" in (lease.lost or "")
    with pytest.raises(Refused, match="cannot be told"):
        journal.lease("tiny")
    server.start()
    journal.server.try_at_once()
    journal.lease("tiny").release()


def test_the_databases_clock_decides_and_not_the_hosts(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = open_postgres(url, write=True)
    lease = journal.lease("tiny")
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 2**62)
    with pytest.raises(Refused):
        journal.lease("tiny")
    assert lease.held()
    lease.release()
