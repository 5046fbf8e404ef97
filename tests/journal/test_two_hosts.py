"""Two hosts on one run: their state is shared, and one of them is paused, dies, or loses the database."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from prune.journal import open_journal
from tests.journal.host import Host
from tests.journal.server import PostgresServer, needs_postgres
from tests.trees.build import mirrored, names, step_files

pytestmark = [needs_postgres, pytest.mark.slow]

STEPS = range(1, 13)
KEPT = 2


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    primary = step_files(tmp_path / "P", STEPS)
    return primary, mirrored(primary, tmp_path / "M")


def words(roots: tuple[Path, Path], *more: str) -> list[str]:
    primary, mirror = roots
    return ["apply", "--yes", "--json", "--primary", str(primary), "--mirror", str(mirror), "--keep-last", str(KEPT),
            *more]  # fmt: skip


def left(roots: tuple[Path, Path]) -> tuple[set[str], set[str]]:
    return names(roots[0]), names(roots[1])


def test_a_host_paused_past_its_lease_and_woken_deletes_nothing_more(url: str, roots: tuple[Path, Path]) -> None:
    paused = Host(url, words(roots), lease=1.5, slow=0.2)
    paused.after_batches(2)
    paused.signal(signal.SIGSTOP)
    before = left(roots)
    assert len(before[0]) > KEPT + 4
    time.sleep(2.5)

    code, other = Host(url, words(roots)).ended()
    assert (code, other["blocked"]["block"]) == (3, "locked"), (
        other
    )  # the lock in the replica is held by the paused one
    assert left(roots) == before

    paused.signal(signal.SIGCONT)
    code, result = paused.ended()
    assert (code, result["blocked"]["block"]) == (3, "locked")
    assert "lease on the run was lost" in result["blocks"][0]["detail"]
    assert left(roots) == before

    code, result = Host(url, words(roots)).ended()
    assert code == 0, result
    assert [len(there) for there in left(roots)] == [KEPT, KEPT]


def test_a_dead_hosts_work_is_taken_over_after_its_lease_and_not_before(url: str, roots: tuple[Path, Path]) -> None:
    dead = Host(url, words(roots), lease=4, slow=0.2)
    dead.after_batches(2)
    dead.signal(signal.SIGKILL)
    dead.process.wait()
    before = left(roots)

    code, early = Host(url, words(roots)).ended()
    assert (code, early["blocked"]["block"]) == (3, "locked")
    assert "works on it" in early["blocks"][0]["detail"]
    assert left(roots) == before

    code, _ = Host(url, words(roots, "--wait", "30s")).ended()
    assert code == 0
    assert [len(there) for there in left(roots)] == [KEPT, KEPT]
    journal = open_journal(url, write=False)
    assert journal.broken_link() is None
    assert {event.data["ok"] for event in journal.history(kinds=("pass",))} == {True, False}


def test_without_the_database_nothing_is_deleted_and_it_is_told(
    url: str, server: PostgresServer, roots: tuple[Path, Path]
) -> None:
    before = left(roots)
    server.kill()
    code, result = Host(url, words(roots)).ended()
    assert (code, result["blocked"]["block"]) == (3, "locked")
    assert "who works on it cannot be told" in result["blocks"][0]["detail"]
    assert any(note["kind"] == "state" for note in result["attention"])
    assert left(roots) == before
    server.start()
    assert Host(url, words(roots)).ended()[0] == 0
    assert [len(there) for there in left(roots)] == [KEPT, KEPT]


def test_a_database_killed_under_a_pass_ends_it_with_the_lease(
    url: str, server: PostgresServer, roots: tuple[Path, Path]
) -> None:
    host = Host(url, words(roots), lease=2, slow=0.5)
    host.after_batches(1)
    server.kill()
    code, result = host.ended()
    assert (code, result["blocked"]["block"]) == (3, "locked")
    assert len(left(roots)[0]) > KEPT
    server.start()
    assert Host(url, words(roots, "--wait", "10s")).ended()[0] == 0
    assert [len(there) for there in left(roots)] == [KEPT, KEPT]


def test_a_database_that_comes_back_in_time_is_not_missed(
    url: str, server: PostgresServer, roots: tuple[Path, Path]
) -> None:
    host = Host(url, words(roots), slow=0.3)
    host.after_batches(1)
    server.kill()
    host.after_batches(1)
    server.start()
    code, result = host.ended()
    assert code == 0, result
    journal = open_journal(url, write=False)
    assert len(journal.history(kinds=("deleted",))) == 2 * (len(STEPS) - KEPT)
    assert journal.broken_link() is None


@pytest.mark.slow
def test_never_two_deleters_on_one_run_whatever_is_paused_or_killed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_LOG", str(tmp_path / "log"))
    chance = random.Random(5)
    primary = step_files(tmp_path / "P", range(1, 81))
    roots = primary, mirrored(primary, tmp_path / "M")
    hosts: list[Host] = []
    ends: dict[int, int] = {}
    until = time.monotonic() + 40
    while time.monotonic() < until and len(names(primary)) > KEPT:
        hosts = [host for host in hosts if host.process.poll() is None]
        if len(hosts) < 3:
            hosts.append(Host(url, words(roots, "--wait", "20s"), lease=1.0, slow=0.05))
        time.sleep(chance.uniform(0.1, 0.6))
        victim = chance.choice(hosts)
        if victim.process.poll() is not None:
            continue
        if chance.random() < 0.3:
            victim.signal(signal.SIGKILL)
            victim.process.wait()
            ends[victim.process.pid] = time.monotonic_ns()
        else:
            victim.signal(signal.SIGSTOP)
            time.sleep(chance.choice((0.2, 1.5)))
            victim.signal(signal.SIGCONT)
    for host in hosts:
        host.signal(signal.SIGCONT)
        host.ended()

    assert len(names(primary)) < 80
    assert Host(url, words(roots, "--wait", "20s")).ended()[0] == 0
    assert [len(there) for there in left(roots)] == [KEPT, KEPT]
    journal = open_journal(url, write=False)
    assert journal.broken_link() is None
    steps = [event.step for event in journal.history(kinds=("deleted",)) if event.replica == "primary"]
    assert len(steps) == len(set(steps)), "a step was deleted twice"
    at_work: int | None = None
    for line in (tmp_path / "log").read_text().splitlines():
        at, process, _, what = line.split()
        if at_work is not None and at_work != int(process):
            assert ends.get(at_work, 2**63) < int(at), f"{process} began while {at_work} was at work"
        at_work = int(process) if what == "begins" else None


def test_a_run_with_nothing_to_do_needs_no_lease(url: str, server: PostgresServer, tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 3))
    roots = primary, mirrored(primary, tmp_path / "M")
    assert Host(url, words(roots)).ended()[0] == 0  # the first writes who the volumes are
    server.run("DELETE FROM prune_leases", url)
    assert Host(url, words(roots)).ended()[0] == 0
    assert server.run("SELECT count(*) FROM prune_leases", url) == "0"
