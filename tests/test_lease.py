"""A reader's lease on one checkpoint."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import prune
from prune import holds
from prune.control import Control
from prune.errors import UsageError
from prune.model import Lease
from tests.faults.filesystems import read_only
from tests.runs import applied, run_of
from tests.trees.build import age, mirrored, names, step_dirs, step_files
from tests.trees.real import unpack


@pytest.fixture(autouse=True)
def _state_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path}/state/prune.db")


def leases(root: Path) -> list[Lease]:
    return Control.open(str(root / ".prune")).leases("primary")


def test_what_is_leased_on_one_replica_stays_on_all_until_the_block_ends(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20, 30, 40])
    mirror = mirrored(primary, tmp_path / "M")
    run = run_of(primary, mirror, last=1)

    with prune.lease(mirror / "step_0010.pt"):
        outcome = applied(run, tmp_path / "state" / "prune.db")
        assert (10, "leased") in {(held.step, held.guard) for held in outcome.guarded}
    assert leases(mirror) == []

    applied(run, tmp_path / "state" / "prune.db")
    assert names(primary) == names(mirror) == {"step_0040.pt"}


def test_a_lease_on_a_run_with_a_read_only_mirror_ends_quietly(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20, 30, 40])
    mirror = mirrored(primary, tmp_path / "M")
    run = run_of(primary, mirror, last=1)
    applied(run, tmp_path / "state" / "prune.db")
    with read_only(mirror):
        name = holds.lease(run, 40, until_ns=time.time_ns() + 60 * 10**9)
        assert len(leases(primary)) == 1
        holds.release(run, name)
    assert leases(primary) == []


def test_a_file_inside_a_checkpoint_leases_the_whole_of_it(tmp_path: Path) -> None:
    root = step_dirs(tmp_path / "P", [10, 20])

    with prune.lease(root / "step-10" / "optim" / "state.pt"):
        assert [lease.step for lease in leases(root)] == [10]


def test_the_root_is_found_above_a_nested_checkpoint(tmp_path: Path) -> None:
    root = unpack("lightning_last_link", tmp_path)
    applied(run_of(root), tmp_path / "state" / "prune.db")

    with prune.lease(root / "lightning_logs" / "version_0" / "checkpoints" / "epoch=0-step=20.ckpt"):
        assert [lease.step for lease in leases(root)] == [20]


def test_a_lease_ends_by_itself_when_its_holder_dies_and_is_renewed_while_it_lives(tmp_path: Path) -> None:
    root = step_files(tmp_path / "P", [10])

    with prune.lease(root / "step_0010.pt", seconds=0.3):
        first = leases(root)[0].until_ns
        while leases(root)[0].until_ns == first:
            time.sleep(0.01)
        assert leases(root)[0].until_ns > first


def test_a_lease_that_ran_out_holds_nothing(tmp_path: Path) -> None:
    root = step_files(tmp_path / "P", [10, 20])
    control = Control.make(str(root / ".prune"))
    control.write_lease(Lease(10, "somebody", time.time_ns() - 1), "old")

    applied(run_of(root, last=1), tmp_path / "state" / "prune.db")

    assert names(root) == {"step_0020.pt"}


def test_what_is_no_checkpoint_cannot_be_leased(tmp_path: Path) -> None:
    root = step_files(tmp_path / "P", [10])
    (root / "config.json").write_text("{}")
    age(root / "config.json", 7200)

    with pytest.raises(UsageError, match="no checkpoint"), prune.lease(root / "config.json"):
        pass
    with pytest.raises(UsageError), prune.lease(root / "step_0099.pt"):
        pass
