"""How a partial save came about, from what is on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from prune.integrity.fingerprint import Evidence, gather, mechanism, spread, zeros_at_end
from prune.model import SECOND
from prune.stores.base import Space
from prune.stores.local import LocalRoot
from tests.integrity.copies import copy_at
from tests.integrity.made import write

GIB = 1 << 30
HOUR = 3600 * SECOND


@pytest.mark.parametrize(
    ("evidence", "name", "told"),
    [
        (Evidence("a.pt", 5 * GIB, 5 * GIB, zeros=2 * GIB), "unsynced", "zero"),
        (Evidence("a.pt", GIB, GIB, zeros=100, allocated=4096), "unsynced", "only 4096"),
        (Evidence("a.pt", 8192, 10_000), "killed", "4 KiB buffers"),
        (Evidence("a.pt", 3 << 20, GIB), "killed", "1 MiB buffers"),
        (Evidence("a.pt", 0, GIB), "killed", "right after opening"),
        (Evidence("a.pt", 77, 100, temporaries=("a.pt.part",)), "killed", "a.pt.part was left behind"),
        (Evidence("a.pt.part", 77, temporaries=("a.pt.part",)), "killed", "before it could rename"),
        (Evidence("a.pt", 77, GIB, free_bytes=4096), "disk-full", "4096 bytes are free"),
        (Evidence("a.pt", 77, 100, free_bytes=GIB, free_inodes=0), "disk-full", "no inode"),
        (Evidence("a.pt", 77, 100, silly_names=(".nfs000123456",)), "network-file-system", ".nfs000123456"),
        (Evidence("a.pt", 77, 100, foreign_writer="python (pid 7)"), "two-writers", "python (pid 7)"),
        (Evidence("a.pt", 77, 100, spread_ns=9 * HOUR, siblings_spread_ns=60 * SECOND), "two-writers", "9.0 hours"),
        (Evidence("a.pt", 77, 100), "interrupted", "77 % of its expected 100 bytes"),
    ],
)
def test_the_evidence_names_its_mechanism(evidence: Evidence, name: str, told: str) -> None:
    found = mechanism(evidence)
    assert found is not None
    assert found.name == name
    assert told in found.sentence


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence("a.pt", 100),
        Evidence("a.pt", 4096),
        Evidence("a.pt", 100, 100, free_bytes=GIB, free_inodes=None),
        Evidence("a.pt", 100, 100, spread_ns=9 * HOUR),
        Evidence("a.pt", 100, 100, spread_ns=HOUR, siblings_spread_ns=SECOND),
    ],
)
def test_where_nothing_tells_nothing_is_claimed(evidence: Evidence) -> None:
    assert mechanism(evidence) is None


def test_evidence_is_gathered_from_the_copy(tmp_path: Path) -> None:
    write(tmp_path, {"s/a.pt": b"w" * 5000 + bytes(9000), "s/b.pt.part": b"x", "s/.nfs00000000deadbeef": b"x"})
    with copy_at(tmp_path, "s") as (members, reader):
        found = gather(members, reader, "s/a.pt", expected=20_000, space=Space(10, 100, 5, 50))
        assert spread(members) >= 0
    assert (found.found, found.expected, found.zeros) == (14_000, 20_000, 9000)
    assert found.temporaries == ("s/b.pt.part",)
    assert found.silly_names == ("s/.nfs00000000deadbeef",)
    assert (found.free_bytes, found.free_inodes) == (10, 5)


def test_a_missing_file_has_length_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"s/a.pt": b"w"})
    with copy_at(tmp_path, "s") as (members, reader):
        assert gather(members, reader, "s/gone.pt", expected=10).found == 0


@pytest.mark.parametrize(
    ("data", "zeros"), [(b"", 0), (b"w", 0), (b"w\0", 1), (bytes(3 << 20), 3 << 20), (b"w" + bytes(2 << 20), 2 << 20)]
)
def test_zeros_are_counted_from_the_end(data: bytes, zeros: int, tmp_path: Path) -> None:
    write(tmp_path, {"a": data})
    with LocalRoot(str(tmp_path)) as reader:
        assert zeros_at_end(reader, "a") == zeros
