"""Any call on the disk may fail, anywhere: an answer comes all the same, and it costs nothing that is kept."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import prune
from tests.faults import filesystems
from tests.trees.build import mirrored, names, step_dirs, torch_zip

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("alone")]

LOOKING = ("getattr", "readdir", "open", "read", "statfs")
WRITING = ("create", "write", "flush", "fsync", "fsyncdir", "truncate", "unlink", "rmdir", "mkdir", "rename", "utimens")
PLACES = ("/P", "/M", "/P/step-2", "/M/step-2/", "/P/step-6", "/M/step-5/rank_0.pt", "/P/latest", "/P/.prune",
          "/M/.prune", "/P/.prune/record", "/M/.prune/tombstones", "/M/.prune/volume.json", "/P/.prune/lock",
          "/M/.prune/trash", "/P/.prune/manifests", "/P/.prune/pins", "/M/.prune/leases")  # fmt: skip
ERRORS = ("EIO", "EACCES", "ESTALE", "ENOSPC", "ETIMEDOUT", "ENOENT")
KEPT = {"step-5", "step-6"}
EVERY = list(itertools.product((*LOOKING, *WRITING), PLACES))


def some(number: int) -> list[tuple[str, str, str]]:
    seed = int(os.environ.get("PRUNE_TEST_SEED", time.time_ns() % 10**6))
    print(f"seed {seed}: PRUNE_TEST_SEED={seed} repeats it")
    chance = random.Random(seed)
    return [(*chance.choice(EVERY), chance.choice(ERRORS)) for _ in range(number)]


def all_of_them() -> list[tuple[str, str, str]]:
    return [(op, place, error) for (op, place), error in zip(EVERY, itertools.cycle(ERRORS), strict=False)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[filesystems.Fuse]:
    with filesystems.fuse(tmp_path / "fuse") as found:
        yield found


def built(disk: filesystems.Fuse, number: int) -> tuple[Path, Path, dict[str, set[str]]]:
    """A run with its mirror, pruned before, with something to prune again."""
    primary = step_dirs(disk.below / str(number) / "P", range(1, 7), files=2)
    (primary / "latest").write_text("step-6")
    os.utime(primary / "latest", (1_700_000_000, 1_700_000_000))
    mirrored(primary, disk.below / str(number) / "M")
    roots = disk.root / str(number) / "P", disk.root / str(number) / "M"
    assert prune("apply", "--yes", *asked(*roots, keep=5)).code == 0
    return *roots, {name: inside(primary / name) for name in names(primary)}


def asked(primary: Path, mirror: Path, keep: int = 2) -> tuple[object, ...]:
    return "--primary", primary, "--mirror", mirror, "--keep-last", keep


def inside(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "faults", [pytest.param(some, id="some"), pytest.param(all_of_them, id="every", marks=pytest.mark.slow)]
)
def test_whatever_call_fails_wherever_it_is_told_and_nothing_kept_is_lost(disk: filesystems.Fuse, faults) -> None:
    for number, (op, place, error) in enumerate(faults(12) if faults is some else faults()):
        primary, mirror, whole = built(disk, number)
        where = f"{error} from {op} at {place}"
        disk.faults(fail={op: [error, f"/{number}{place}"]})

        planned, done = (
            prune("plan", "--json", *asked(primary, mirror)),
            prune("apply", "--yes", *asked(primary, mirror)),
        )

        disk.faults()
        assert planned.code in (0, 3), (where, planned.err)
        assert done.code in (0, 1, 3), (where, done.err)
        for root in (disk.below / str(number) / "P", disk.below / str(number) / "M"):
            for name in names(root) - {"latest"}:
                assert inside(root / name) == whole[name], (where, name)
            assert names(root) >= KEPT, where
            for name in KEPT:
                assert (root / name / "rank_0.pt").read_bytes() == torch_zip(512, fill=name[5:].encode()), where
        after = prune("apply", "--yes", *asked(primary, mirror))
        assert after.code == 0, (where, after.err, after.out)
        for root in (primary, mirror):
            assert names(root) - {"latest"} == KEPT, where
            assert os.listdir(root / ".prune" / "trash") == [], where
