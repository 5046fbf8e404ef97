"""Two hosts in a network that share a run and the database: one is paused, or cut off, and comes back too late.

Each host mounts the run's volumes by itself, so that no lock of the kernel reaches the other one.
"""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from prune.journal import open_journal
from tests.faults import filesystems
from tests.journal.host import Host
from tests.journal.network import DATABASE, SUBNET, Network, Node, network
from tests.journal.server import PostgresServer, needs_postgres, started
from tests.trees.build import mirrored, names, step_files

pytestmark = [needs_postgres, pytest.mark.slow]

STEPS = range(1, 15)
KEPT = 2
LEASE = 3.0


@pytest.fixture(scope="module")
def cables() -> Iterator[Network]:
    with network() as made:
        yield made


@pytest.fixture(scope="module")
def database(cables: Network) -> Iterator[PostgresServer]:
    yield from started(listen=DATABASE, network=SUBNET, within=cables.within)


@pytest.fixture(scope="module")
def volumes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's directory: what both hosts mount."""
    return tmp_path_factory.mktemp("volumes")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each host sees them."""
    return tmp_path_factory.mktemp("seen")


@pytest.fixture(scope="module")
def hosts(
    cables: Network, volumes: Path, place: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Node, Node]]:
    """Two, each with a mount of its own of the volumes."""
    home = tmp_path_factory.mktemp("hosts")
    with ExitStack() as mounted:
        roots = [mounted.enter_context(filesystems.fuse(home / f"at-{n}", below=volumes)).root for n in (1, 2)]
        nodes = [cables.host(n, home, [(root, place)]) for n, root in enumerate(roots, 1)]
        yield nodes[0], nodes[1]


@pytest.fixture
def run(volumes: Path) -> str:
    """A run's name: its primary and its mirror stand on the volumes."""
    name = f"run-{uuid.uuid4().hex[:8]}"
    mirrored(step_files(volumes / "P" / name, STEPS), volumes / "M" / name)
    return name


class Fleet:
    """Who works where on one run."""

    def __init__(self, url: str, far: str, hosts: tuple[Node, Node], volumes: Path, place: Path, run: str) -> None:
        self.url, self.far, self.hosts, self.volumes, self.place, self.run = url, far, hosts, volumes, place, run

    def apply(self, number: int, *more: str, slow: float = 0.0) -> Host:
        words = ["apply", "--yes", "--json", "--primary", f"{self.place}/P/{self.run}", "--mirror",
                 f"{self.place}/M/{self.run}", "--keep-last", str(KEPT), *more]  # fmt: skip
        return Host(self.far, words, lease=LEASE, slow=slow, within=self.hosts[number].within)

    def left(self) -> tuple[set[str], set[str]]:
        return names(self.volumes / "P" / self.run), names(self.volumes / "M" / self.run)

    def deleted(self) -> list[int]:
        """Steps of the primary that history says were deleted, as often as it says so."""
        journal = open_journal(self.url, write=False)
        assert journal.broken_link() is None
        return [e.step for e in journal.history(kinds=("deleted",)) if e.replica == "primary" and e.step is not None]


@pytest.fixture
def fleet(database: PostgresServer, hosts: tuple[Node, Node], volumes: Path, place: Path, run: str) -> Fleet:
    url = database.new_database()
    return Fleet(url, database.from_afar(url), hosts, volumes, place, run)


def test_a_host_paused_past_its_lease_deletes_nothing_once_another_took_over(fleet: Fleet) -> None:
    paused = fleet.apply(0, slow=0.2)
    paused.after_batches(3)
    paused.signal(signal.SIGSTOP)
    before = fleet.left()

    other = fleet.apply(1, "--wait", "60s", slow=0.5)
    other.after_batches(2)
    paused.signal(signal.SIGCONT)
    code, result = paused.ended()
    assert (code, result["blocked"]["block"]) == (3, "locked"), result
    mine = {copy["step"] for copy in result["deleted"]}

    code, result = other.ended()
    assert code == 0, result
    theirs = {copy["step"] for copy in result["deleted"]}
    assert not mine & theirs
    assert f"step_{max(mine):04d}.pt" not in before[0], "deleted after it woke"
    assert [len(there) for there in fleet.left()] == [KEPT, KEPT]
    assert sorted(fleet.deleted()) == sorted(mine | theirs) == list(STEPS)[:-KEPT]


def test_a_host_cut_off_ends_with_its_lease_and_the_other_takes_over(fleet: Fleet, cables: Network) -> None:
    alone = fleet.apply(0, slow=0.4)
    alone.after_batches(2)
    cables.cut(fleet.hosts[0])
    try:
        code, result = alone.ended()
        assert (code, result["blocked"]["block"]) == (3, "locked"), result
        assert "lease on the run was lost" in result["blocks"][0]["detail"]
        before = fleet.left()
        assert len(before[0]) > KEPT

        code, refused = fleet.apply(0).ended()
        assert (code, refused["blocked"]["block"]) == (3, "locked"), "who works on it cannot be told from here"
        assert fleet.left() == before

        other = fleet.apply(1, "--wait", "60s", slow=0.5)
        other.after_batches(1)
    finally:
        cables.mend(fleet.hosts[0])
    code, back = fleet.apply(0).ended()
    assert (code, back["blocked"]["block"]) == (3, "locked"), back
    assert back["deleted"] == []

    code, result = other.ended()
    assert code == 0, result
    assert [len(there) for there in fleet.left()] == [KEPT, KEPT]
    assert len(set(fleet.deleted())) == len(fleet.deleted()), "history tells a step twice"


def test_a_host_paused_and_cut_off_wakes_alone_and_deletes_nothing(fleet: Fleet, cables: Network) -> None:
    paused = fleet.apply(0, slow=0.2)
    paused.after_batches(2)
    paused.signal(signal.SIGSTOP)
    cables.cut(fleet.hosts[0])
    try:
        other = fleet.apply(1, "--wait", "60s", slow=0.4)
        other.after_batches(1)
        paused.signal(signal.SIGCONT)
        code, result = paused.ended()
    finally:
        cables.mend(fleet.hosts[0])
    assert (code, result["blocked"]["block"]) == (3, "locked"), result
    mine = {copy["step"] for copy in result["deleted"]}
    code, result = other.ended()
    assert code == 0, result
    assert not mine & {copy["step"] for copy in result["deleted"]}
    assert [len(there) for there in fleet.left()] == [KEPT, KEPT]


def test_where_nobody_reaches_the_database_nothing_is_deleted_until_it_is_back(fleet: Fleet, cables: Network) -> None:
    before = fleet.left()
    for host in fleet.hosts:
        cables.cut(host)
    try:
        for number in (0, 1):
            code, result = fleet.apply(number).ended()
            assert (code, result["blocked"]["block"]) == (3, "locked")
            assert "cannot be told" in result["blocks"][0]["detail"]
        assert fleet.left() == before
    finally:
        for host in fleet.hosts:
            cables.mend(host)
    assert fleet.apply(0, "--wait", "30s").ended()[0] == 0
    assert [len(there) for there in fleet.left()] == [KEPT, KEPT]
