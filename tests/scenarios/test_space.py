"""Room is told as it is measured: what an ordinary user may use, what deleting really frees, in the right unit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from prune.stores.local import LocalRoot
from tests.cli.command import prune
from tests.scenarios.asking import apply, plan
from tests.scenarios.small_disks import tmpfs
from tests.trees.build import HOUR, age, mirrored, step_dirs, step_files, torch_zip

pytestmark = pytest.mark.usefixtures("alone")

GIB = 1 << 30
MIB = 1 << 20


def statvfs(**fields: int) -> SimpleNamespace:
    whole = {"f_bavail": 10, "f_bfree": 60, "f_blocks": 100, "f_frsize": 4096, "f_bsize": MIB, "f_favail": 5,
             "f_ffree": 9, "f_files": 100, "f_flag": 0}  # fmt: skip
    return SimpleNamespace(**{**whole, **fields})


def test_room_is_what_an_ordinary_user_may_take_in_units_of_fragments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = GIB // 4096
    monkeypatch.setattr(os, "fstatvfs", lambda _fd: statvfs(f_bavail=10 * blocks, f_bfree=60 * blocks))
    with LocalRoot(str(tmp_path)) as root:
        space = root.space()
    assert (space.free_bytes, space.free_inodes) == (10 * GIB, 5)


def test_inodes_that_are_not_counted_are_not_taken_for_exhausted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    real = os.fstatvfs

    def uncounted(fd: int) -> SimpleNamespace:
        found = real(fd)
        return SimpleNamespace(**{name: getattr(found, name) for name in dir(found) if name.startswith("f_")}
                               | {"f_files": 0, "f_ffree": 0, "f_favail": 0})  # fmt: skip

    monkeypatch.setattr(os, "fstatvfs", uncounted)
    planned = plan(primary, keep=2)
    assert planned.run["replicas"][0]["free_inodes"] is None
    assert apply(primary, keep=2).deleted == {1, 2, 3}


@pytest.mark.parametrize("way", ["refused", "no size at all"])
def test_room_that_cannot_be_read_blocks_unless_it_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))

    def unreadable(_fd: int) -> SimpleNamespace:
        if way == "refused":
            raise OSError(5, "Input/output error")
        return statvfs(f_blocks=0, f_bavail=0, f_bfree=0)

    monkeypatch.setattr(os, "fstatvfs", unreadable)
    done = apply(primary, keep=2)
    assert (done.code, done.blocked, done.deleted) == (3, "free-space-unknown", set())

    config = tmp_path / "prune.toml"
    config.write_text(
        f'[[runs]]\nname = "t"\nprimary = {{root = "{primary}", free_space = "none"}}\n[runs.keep]\nlast = 2\n'
    )
    declared = prune("apply", "--yes", "--config", config, "--json")
    assert declared.code == 0, declared.err
    assert {copy["step"] for copy in declared.json["runs"][0]["deleted"]} == {1, 2, 3}


def test_what_shares_its_bytes_by_hard_link_is_promised_as_nothing_and_the_other_stays_whole(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", (100, 200, 300), size=MIB)
    (primary / "step_0100.pt").unlink()
    os.link(primary / "step_0200.pt", primary / "step_0100.pt")

    planned = plan(primary, keep=2)
    done = apply(primary, keep=2)

    assert planned.deleted == done.deleted == {100}
    assert planned.run["summary"]["bytes_to_free"] == {"primary": 0}
    assert [copy["bytes"] for copy in done.run["deleted"]] == [0]
    assert prune("verify", "200", "--primary", primary).code == 0


def test_files_with_holes_are_promised_by_their_blocks(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(1, 5))
    with open(primary / "step-1" / "extra.bin", "wb") as file:
        file.truncate(GIB)
    age(primary / "step-1", 3 * HOUR)
    assert plan(primary, keep=3).run["summary"]["bytes_to_free"]["primary"] < MIB


def test_what_was_predicted_is_what_the_volume_gains(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", size="64m") as disk:
        primary = step_dirs(disk / "P", range(1, 8), files=3, size=MIB)
        apply(primary, keep=7)  # the control folder takes its own few blocks
        promised = plan(primary, keep=3).run["summary"]["bytes_to_free"]["primary"]
        before = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        done = apply(primary, keep=3)
        after = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    assert promised == sum(copy["bytes"] for copy in done.run["deleted"])
    assert abs(after - before - promised) <= 64 * 1024
    assert done.run["free_after"]["primary"] == after


def test_a_file_that_cannot_be_unlinked_is_told_and_the_others_go(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a file immutable")
    primary = step_dirs(tmp_path / "P", range(1, 6))
    stuck = primary / "step-2" / "rank_1.pt"
    if os.system(f"chattr +i {stuck} 2>/dev/null") != 0:
        pytest.skip("this file system knows no immutable files")
    try:
        done = apply(primary, keep=2)
        named = {path.name for path in primary.glob("step-*")}
    finally:
        subprocess.run(["chattr", "-R", "-i", str(primary)], check=True)

    assert done.code == 1
    assert [(failed["step"], failed["replica"]) for failed in done.run["failed"]] == [(2, "primary")]
    assert done.deleted == {1, 3}
    assert named == {"step-4", "step-5"}, "half of it is under no final name"
    apply(primary, keep=2)
    assert os.listdir(primary / ".prune" / "trash") == []


def test_a_mirror_too_small_for_n_and_one_more_is_told_with_the_mend(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", size="8m") as disk:
        primary = step_files(tmp_path / "P", range(1, 5), size=MIB)
        mirror = mirrored(primary, disk / "M")
        planned = plan(primary, mirror, keep=12)
    assert "keep.last = 12 needs room for 13" in planned.told("mirror-too-small")
    (note,) = [note for note in planned.run["attention"] if note["kind"] == "mirror-too-small"]
    assert note["mend"].startswith("keep.last = ")


def test_if_free_below_looks_at_the_primary_and_lists_nothing_where_there_is_room(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", size="32m") as disk:
        primary = step_files(disk / "P", range(1, 9), size=MIB)
        assert apply(primary, keep=2, more=["--if-free-below", "10%"]).deleted == set()
        assert not (primary / ".prune").exists()
        assert apply(primary, keep=2, more=["--if-free-below", "90%"]).deleted == set(range(1, 7))


def test_a_disk_full_to_the_last_byte_is_freed(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", size="16m") as disk:
        primary = step_files(disk / "P", range(1, 9), size=MIB)
        fill(disk)
        done = apply(primary, keep=2)
        left = {path.name for path in primary.glob("*.pt")}
    assert done.deleted == set(range(1, 7))
    assert left == {"step_0007.pt", "step_0008.pt"}


def fill(disk: Path) -> None:
    """Takes every free byte, down to the last block."""
    with open(disk / "filler", "wb", buffering=0) as file:
        for size in (MIB, 4096):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def test_a_saver_that_finds_no_room_leaves_what_is_told_apart(tmp_path: Path) -> None:
    """A save that died of a full disk is a fragment under a temporary name, never a slot."""
    with tmpfs(tmp_path / "disk", size="16m") as disk:
        primary = step_files(disk / "P", range(1, 9), size=MIB)
        fill(disk)
        with pytest.raises(OSError, match="No space left"):
            (primary / "step_0009.pt.part").write_bytes(torch_zip(MIB))
        done = apply(primary, keep=2)
    assert done.deleted == set(range(1, 7))
    assert 9 not in done.guards
