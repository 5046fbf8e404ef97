# ruff: noqa: PT012  (the block is what is tested)
from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import prune
from prune.control import Control
from prune.errors import Busy, Failed, UsageError
from prune.publish import directory, recover_staging
from prune.publish.claim import claim
from prune.publish.target import Target, opaque
from prune.stores.local import LocalRoot
from tests.publish.looking import fits, manifest, manifests, names, staged
from tests.trees.real import unpack


def publish(path: Path, **files: bytes) -> None:
    with prune.publish_directory(path) as folder:
        for name, data in files.items():
            (folder / name).write_bytes(data)


def content(path: Path) -> dict[str, bytes]:
    return {str(found.relative_to(path)): found.read_bytes() for found in path.rglob("*") if found.is_file()}


def recover(root: Path) -> list[str]:
    control = Control.open(str(root / ".prune"))
    with LocalRoot(str(root)) as opened:
        back = recover_staging(control, opened)
    control.close()
    return back


def test_a_directory_appears_only_when_the_block_ends(tmp_path: Path) -> None:
    with prune.publish_directory(tmp_path / "step-10") as folder:
        (folder / "model.pt").write_bytes(b"m")
        assert folder.name == "step-10"
        assert names(tmp_path) == []
    assert content(tmp_path / "step-10") == {"model.pt": b"m"}
    assert staged(tmp_path) == []


def test_the_manifest_names_every_file_relative_to_the_root(tmp_path: Path) -> None:
    with prune.publish_directory(tmp_path / "step-10") as folder:
        (folder / "shards").mkdir()
        (folder / "shards" / "0.bin").write_bytes(os.urandom(5000))
        (folder / ".metadata").write_bytes(b"meta")
        (folder / "link").symlink_to("shards/0.bin")
    found = manifest(tmp_path, "step-10")
    assert [file.path for file in found.files] == ["step-10/.metadata", "step-10/shards/0.bin"]
    assert (found.name, found.step) == ("step-10", 10)
    assert fits(tmp_path, found)


def test_an_older_directory_is_exchanged_for_the_new_one(tmp_path: Path) -> None:
    publish(tmp_path / "step-10", old=b"1", both=b"1")
    publish(tmp_path / "step-10", both=b"2")
    assert content(tmp_path / "step-10") == {"both": b"2"}
    assert fits(tmp_path, manifest(tmp_path, "step-10"))
    assert manifests(tmp_path) == ["step-10.json"]
    assert staged(tmp_path) == []


def test_an_error_in_the_block_leaves_the_old_directory_and_nothing_else(tmp_path: Path) -> None:
    publish(tmp_path / "step-10", old=b"1")
    with pytest.raises(ZeroDivisionError), prune.publish_directory(tmp_path / "step-10") as folder:
        (folder / "new").write_bytes(b"2")
        raise ZeroDivisionError
    assert content(tmp_path / "step-10") == {"old": b"1"}
    assert staged(tmp_path) == []


def test_a_directory_without_files_is_never_published(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no file in it"), prune.publish_directory(tmp_path / "step-10") as folder:
        (folder / "empty").mkdir()
    assert names(tmp_path) == []
    assert staged(tmp_path) == []


def test_what_no_checkpoint_may_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a file"), prune.publish_directory(tmp_path / "step-10") as folder:
        (folder / "file").write_bytes(b"1")
        os.mkfifo(folder / "pipe")
    assert names(tmp_path) == []


def test_a_directory_is_not_published_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "step-10").write_bytes(b"1")
    with pytest.raises(UsageError, match="not a directory"):
        publish(tmp_path / "step-10", new=b"2")
    assert (tmp_path / "step-10").read_bytes() == b"1"


def test_publishing_onto_a_link_replaces_the_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_bytes(b"1")
    (tmp_path / "step-10").symlink_to("elsewhere")
    publish(tmp_path / "step-10", new=b"2")
    assert not (tmp_path / "step-10").is_symlink()
    assert content(tmp_path / "step-10") == {"new": b"2"}
    assert content(tmp_path / "elsewhere") == {"kept": b"1"}


def test_a_second_writer_of_a_name_is_refused(tmp_path: Path) -> None:
    with prune.publish_directory(tmp_path / "step-10") as folder:
        (folder / "file").write_bytes(b"1")
        with pytest.raises(Busy, match="step-10 is already being written"):
            publish(tmp_path / "step-10", file=b"2")
        publish(tmp_path / "step-20", file=b"3")
    assert content(tmp_path / "step-10") == {"file": b"1"}


def test_a_dead_writers_half_is_cleared_and_replaced(tmp_path: Path) -> None:
    killed = f"""
import os, signal, sys, prune
publication = prune.publish_directory(sys.argv[1])
folder = publication.__enter__()
(folder / "half").write_bytes(b"1")
os.kill(os.getpid(), signal.{signal.SIGKILL.name})
"""
    subprocess.run([sys.executable, "-c", killed, str(tmp_path / "step-10")], check=False)
    assert names(tmp_path) == []
    assert staged(tmp_path) != []
    publish(tmp_path / "step-10", whole=b"2")
    assert content(tmp_path / "step-10") == {"whole": b"2"}
    assert staged(tmp_path) == []


def test_the_control_folder_beside_the_root_builds_it_too(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    root.mkdir()
    (tmp_path / ".checkpoints.prune").mkdir()
    publish(root / "checkpoint_3", file=b"1")
    assert os.listdir(root) == ["checkpoint_3"]


def test_where_the_stack_reads_every_entry_the_control_folder_is_made_beside(tmp_path: Path) -> None:
    root = tmp_path / "project" / "checkpoints"
    root.mkdir(parents=True)
    publish(root / "checkpoint_0", file=b"1")
    publish(root / "checkpoint_1", file=b"2")
    assert sorted(os.listdir(root)) == ["checkpoint_0", "checkpoint_1"]
    assert (tmp_path / "project" / ".checkpoints.prune" / "manifests" / "checkpoint_1.json").exists()
    other = unpack("accelerate_auto", tmp_path)
    (base,) = other.rglob("checkpoints")
    before = len(os.listdir(base))
    publish(base / "checkpoint_99", file=b"3")
    assert len(os.listdir(base)) == before + 1


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    def renameat2(*_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(directory, "renameat2", renameat2)


def test_where_the_file_system_cannot_exchange_the_old_one_steps_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_exchange(monkeypatch)
    publish(tmp_path / "step-10", old=b"1")
    publish(tmp_path / "step-10", new=b"2")
    assert content(tmp_path / "step-10") == {"new": b"2"}
    assert staged(tmp_path) == []


def test_what_stepped_aside_comes_back_when_the_new_one_cannot_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path / "step-10", old=b"1")
    without_exchange(monkeypatch)
    real, calls = os.rename, []

    def rename(*args: object, **where: object) -> None:
        calls.append(args)
        if len(calls) == 3:  # the name note, the old one aside, the new one to its name
            raise OSError(errno.EIO, "Input/output error")
        real(*args, **where)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(Failed, match="Input/output error"):
        publish(tmp_path / "step-10", new=b"2")
    assert content(tmp_path / "step-10") == {"old": b"1"}
    assert staged(tmp_path) == []


def test_recovery_puts_back_what_stepped_aside_for_a_writer_that_died(tmp_path: Path) -> None:
    publish(tmp_path / "step-10", old=b"1")
    _die_between_the_renames(tmp_path / "step-10")
    assert names(tmp_path) == []
    assert recover(tmp_path) == ["step-10"]
    assert content(tmp_path / "step-10") == {"old": b"1"}
    assert staged(tmp_path) == []


def test_recovery_clears_the_claim_of_a_writer_that_died_before_it_built_anything(tmp_path: Path) -> None:
    publish(tmp_path / "step-10", old=b"1")
    child = os.fork()
    if child == 0:
        staging = LocalRoot(str(tmp_path / ".prune" / "staging"))
        claim(Target(staging, opaque("step-20"), str(tmp_path)))
        os._exit(0)
    os.waitpid(child, 0)
    assert staged(tmp_path) == [f"{opaque('step-20')}.part"]

    assert recover(tmp_path) == []
    assert staged(tmp_path) == []


def test_the_next_writer_of_the_name_puts_it_back_first(tmp_path: Path) -> None:
    publish(tmp_path / "step-10", old=b"1")
    _die_between_the_renames(tmp_path / "step-10")
    with pytest.raises(ZeroDivisionError), prune.publish_directory(tmp_path / "step-10"):
        assert content(tmp_path / "step-10") == {"old": b"1"}
        raise ZeroDivisionError
    assert content(tmp_path / "step-10") == {"old": b"1"}


def test_recovery_never_replaces_what_has_the_name_by_now(tmp_path: Path) -> None:
    publish(tmp_path / "step-10", old=b"1")
    _die_between_the_renames(tmp_path / "step-10")
    (tmp_path / "step-10").mkdir()
    (tmp_path / "step-10" / "newer").write_bytes(b"3")
    assert recover(tmp_path) == []
    assert content(tmp_path / "step-10") == {"newer": b"3"}
    assert staged(tmp_path) == []


def test_a_stage_that_was_cleared_under_its_writer_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="taken for dead"), prune.publish_directory(tmp_path / "step-10") as folder:
        (folder / "first").write_bytes(b"1")
        shutil.rmtree(folder.parent.parent)
        folder.mkdir(parents=True)
        (folder / "second").write_bytes(b"2")
    assert names(tmp_path) == []


def test_recovery_leaves_what_others_build_alone(tmp_path: Path) -> None:
    publish(tmp_path / "step-10", file=b"1")
    (tmp_path / ".prune" / "staging" / "copying.something").mkdir()
    assert recover(tmp_path) == []
    assert staged(tmp_path) == ["copying.something"]


def test_recovery_leaves_a_living_writer_alone(tmp_path: Path) -> None:
    with prune.publish_directory(tmp_path / "step-10") as folder:
        (folder / "file").write_bytes(b"1")
        assert recover(tmp_path) == []
    assert content(tmp_path / "step-10") == {"file": b"1"}


def _die_between_the_renames(path: Path) -> None:
    script = """
import errno, os, signal, sys, prune
from prune.publish import directory
def cannot(*_): raise OSError(errno.EINVAL, "Invalid argument")
directory.renameat2 = cannot
real, calls = os.rename, []
def rename(*args, **where):
    calls.append(args)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*args, **where)
os.rename = rename
with prune.publish_directory(sys.argv[1]) as folder:
    (folder / "new").write_bytes(b"2")
"""
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == -signal.SIGKILL
