"""The doctor tells what a file system keeps of its promises, and leaves nothing behind."""

from __future__ import annotations

import fcntl
import os

import pytest

from prune.doctor import examine, probes
from prune.settings.schema import ReplicaSettings
from prune.stores.local import LocalRoot
from tests.trees import build


def replica(root, **more) -> ReplicaSettings:
    return ReplicaSettings("primary", str(root), "primary", **more)


def states(root, *, stand_beside: bool = False, **more) -> dict[str, str]:
    return {found.check: found.state for found in examine(replica(root, **more), stand_beside=stand_beside)}


@pytest.fixture
def root(tmp_path):
    return build.step_files(tmp_path / "ckpt", range(10, 60, 10))


def test_a_healthy_volume_passes_every_check_and_nothing_is_left(root):
    before = {path: path.lstat().st_mtime_ns for path in root.iterdir()}
    found = examine(replica(root), stand_beside=False)
    checks = {"mount", "free-space", "inodes", "names", "control", "write", "mtime", "clock", "rename", "no-replace"}
    assert checks | {"exchange", "fsync", "lock", "hard-links"} == {one.check for one in found}
    assert "bad" not in {one.state for one in found}
    assert {path: path.lstat().st_mtime_ns for path in root.iterdir()} == before


def test_where_a_stack_reads_every_entry_it_is_probed_beside_the_root(root, monkeypatch):
    seen = []
    monkeypatch.setattr(probes.Ground, "__init__", _watched(seen))
    states(root, stand_beside=True)
    assert all(os.path.dirname(path) == str(root.parent) for path in seen)
    assert os.listdir(root.parent) == ["ckpt"]


def test_a_replica_that_is_not_there_is_bad_in_one_line(tmp_path):
    assert states(tmp_path / "unmounted") == {"reach": "bad"}


def test_a_place_that_cannot_be_written_is_told():
    assert states("/sys/kernel")["write"] == "bad"


def test_a_declared_mount_point_that_is_none_is_told(root):
    assert states(root, mountpoint=True)["mount"] == "bad"


def test_names_without_a_believable_time_are_counted(root):
    os.utime(root / "step_0010.pt", (0, 0))
    found = {one.check: one for one in examine(replica(root), stand_beside=False)}
    assert found["names"].state == "attention"
    assert found["names"].found.startswith("1 of 5")


def test_times_that_are_not_kept_are_told(root, monkeypatch):
    monkeypatch.setattr(os, "utime", lambda *args, **kwargs: None)
    assert states(root)["mtime"] == "bad"


def test_a_lock_that_is_granted_twice_is_told(root, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *args: None)
    assert states(root)["lock"] == "bad"


def test_a_rename_that_would_replace_is_told(root, monkeypatch):
    monkeypatch.setattr(LocalRoot, "rename_new", LocalRoot.rename)
    assert states(root)["no-replace"] == "bad"


def test_a_call_that_fails_becomes_a_finding(root, monkeypatch):
    def refused(self, *args, **kwargs):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(LocalRoot, "rename", refused)
    found = states(root)
    assert found["rename"] == "bad"
    assert found["fsync"] == "ok"
    assert not [name for name in os.listdir(root) if name.startswith(".")]


def _watched(seen):
    original = probes.Ground.__init__

    def watched(self, folder, file_system):
        seen.append(folder.root)
        original(self, folder, file_system)

    return watched
