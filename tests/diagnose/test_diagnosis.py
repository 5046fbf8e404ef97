from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from prune.diagnose import diagnose
from prune.diagnose.result import sentences, to_json
from prune.model import Health
from prune.settings.schema import ReplicaSettings, RunSettings
from tests.trees import build
from tests.trees.real import EXPECTED, unpack

DAMAGED = [
    (tree, step, detail)
    for tree in sorted(EXPECTED)
    for step, detail in sorted((EXPECTED[tree].get("damage_detail") or {}).items())
    if detail.get("file") and "loader_says" in detail
]


@pytest.mark.parametrize(("tree", "step", "detail"), DAMAGED, ids=[f"{tree}-{step}" for tree, step, _ in DAMAGED])
def test_what_the_loader_said_of_a_really_damaged_step_leads_to_it_and_past_it(
    tree: str, step: str, detail: dict[str, str], tmp_path: Path
) -> None:
    root = unpack(tree, tmp_path)
    call = f"  load_checkpoint({str(root / detail['file'])!r})"
    log = f"Traceback (most recent call last):\n{call}\n{detail['loader_says']}\n"
    found = diagnose(log, beside=[str(tmp_path)])
    assert found.is_checkpoint_problem
    assert found.look is not None
    assert found.home is not None
    assert (found.home.root, found.home.step) == (str(root), int(step))
    assert found.look.path.startswith(str(root / detail["file"].split("/")[0]))
    assert found.resume is not None
    assert found.resume.step == EXPECTED[tree]["resume"]
    assert found.command == f"prune resume --primary {root}"


def test_a_file_that_is_gone_is_told_and_its_run_is_found(tmp_path: Path) -> None:
    root = build.step_dirs(tmp_path / "run", [10, 20])
    (root / "step-20" / "rank_1.pt").unlink()
    log = "FileNotFoundError: [Errno 2] No such file or directory: 'run/step-20/rank_1.pt'"
    found = diagnose(log, beside=[str(tmp_path)])
    assert found.look is not None
    assert not found.look.exists
    assert found.home is not None
    assert found.home.step == 20
    assert found.resume is not None
    assert found.resume.step == 10


def test_where_the_log_ends_with_a_file_that_need_not_be_there_the_damaged_one_of_its_step_is_told(
    tmp_path: Path,
) -> None:
    """Each rank of a distributed load looks for metadata of its own once the common ones cannot be read."""
    root = unpack("dcp_newest_metadata_truncated", tmp_path)
    log = (
        "Traceback (most recent call last):\nAssertionError: global metadata read failed: pickle data was truncated; "
        f"rank local metadata read failed: No such file or directory: '{root}/step-100/__0.metadata'"
    )
    found = diagnose(log)
    assert found.look is not None
    assert str(found.look.detail).startswith("step-100/.metadata")
    assert found.resume is not None
    assert found.resume.step == 90


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "killed at its start"),
        (bytes(5000), "no content"),
        (build.torch_zip()[:1000], "killed or ran out of room"),
        (build.torch_zip(), "complete now"),
    ],
)
def test_the_mechanism_follows_what_stands_on_the_disk(data: bytes, expected: str, tmp_path: Path) -> None:
    root = build.step_files(tmp_path / "run", [10, 20])
    (root / "step_0020.pt").write_bytes(data)
    build.age(root / "step_0020.pt", 7200)
    found = diagnose(f"zipfile.BadZipFile: File is not a zip file: {root}/step_0020.pt")
    assert found.mechanism is not None
    assert expected in found.mechanism
    assert found.resume is not None
    assert found.resume.step == 10


def test_a_file_with_no_blocks_behind_its_length_was_never_written(tmp_path: Path) -> None:
    root = build.step_files(tmp_path / "run", [10])
    with (root / "step_0020.pt").open("wb") as file:
        file.write(b"PK\x03\x04")
        file.truncate(64 << 20)
    found = diagnose(
        f"failed finding central directory: PytorchStreamReader failed: {root}/step_0020.pt central directory"
    )
    assert found.mechanism is not None
    assert "were ever written" in found.mechanism


def test_a_file_that_is_open_elsewhere_may_still_be_written(tmp_path: Path) -> None:
    root = build.step_files(tmp_path / "run", [10])
    script = (
        "import sys, time; file = open(sys.argv[1], 'wb'); file.write(b'PK'); file.flush(); print(1, flush=True); "
        "time.sleep(99)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(root / "step_0020.pt")], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        found = diagnose(f"zipfile.BadZipFile: File is not a zip file: {root}/step_0020.pt")
        writer.kill()
    assert found.mechanism is not None
    assert f"process {writer.pid}" in found.mechanism


def test_the_log_that_tells_of_a_kill_is_repeated(tmp_path: Path) -> None:
    root = build.step_files(tmp_path / "run", [10, 20])
    (root / "step_0020.pt").write_bytes(b"PK\x03\x04")
    log = f"oom-kill: Killed process 7\nzipfile.BadZipFile: File is not a zip file: {root}/step_0020.pt"
    assert "oom-kill: Killed process 7" in str(diagnose(log).mechanism)


def test_a_full_disk_tells_the_room_there_is_now(tmp_path: Path) -> None:
    root = build.step_files(tmp_path / "run", [10, 20])
    found = diagnose(f"OSError: [Errno 28] No space left on device: '{root}/step_0030.pt.part'")
    assert found.mechanism is not None
    assert "are free there now" in found.mechanism
    assert found.resume is not None
    assert found.resume.step == 20


def test_a_mirrors_good_copy_of_the_same_step_is_offered(tmp_path: Path) -> None:
    root = build.step_files(tmp_path / "run", [10, 20])
    mirror = Path(shutil.copytree(root, tmp_path / "mirror", copy_function=shutil.copy2))
    (root / "step_0020.pt").write_bytes(b"")
    run = RunSettings(
        "run", (ReplicaSettings("primary", str(root), "primary"), ReplicaSettings("mirror", str(mirror), "mirror"))
    )
    found = diagnose(f"Traceback\nEOFError: Ran out of input: {root}/step_0020.pt", runs=[run])
    assert found.resume is not None
    assert (found.resume.step, found.resume.replica) == (20, "mirror")
    assert found.command == f"prune resume --primary {root} --mirror {mirror}"


def test_the_checkpoint_may_be_named_where_the_log_does_not(tmp_path: Path) -> None:
    root = build.step_files(tmp_path / "run", [10, 20])
    (root / "step_0020.pt").write_bytes(b"PK\x03\x04")
    found = diagnose("zipfile.BadZipFile: File is not a zip file", path=str(root / "step_0020.pt"))
    assert found.look is not None
    assert found.look.health is Health.BROKEN
    alone = diagnose("", path=str(root / "step_0020.pt"))
    assert alone.is_checkpoint_problem
    whole = diagnose("", path=str(root / "step_0010.pt"))
    assert not whole.is_checkpoint_problem


def test_without_a_path_the_log_alone_is_diagnosed() -> None:
    found = diagnose("zipfile.BadZipFile: File is not a zip file")
    assert found.is_checkpoint_problem
    assert (found.look, found.resume, found.command) == (None, None, None)
    assert "say where it is" in dict(sentences(found))["resume from"]


def test_what_is_no_checkpoint_problem_says_so() -> None:
    for log in ("CUDA out of memory", "KeyError: 'x'", "all is well", "Received SIGTERM"):
        found = diagnose(log)
        assert dict(sentences(found))["diagnosis"] == "not a checkpoint problem"
        assert to_json(found)["checkpoint_problem"] is False


def test_a_pickle_that_would_run_is_not_run(tmp_path: Path) -> None:
    root = build.step_files(tmp_path / "run", [10])
    trap = b"cos\nsystem\n(S'touch " + os.fsencode(tmp_path / "ran") + b"'\ntR."
    (root / "step_0020.pt").write_bytes(trap)
    diagnose(f"_pickle.UnpicklingError: pickle data was truncated: {root}/step_0020.pt")
    assert not (tmp_path / "ran").exists()


def test_nothing_is_written_where_the_checkpoints_are(tmp_path: Path) -> None:
    root = build.step_files(tmp_path / "run", [10, 20])
    before = sorted((entry.name, entry.stat().st_mtime_ns) for entry in os.scandir(root))
    diagnose(f"zipfile.BadZipFile: File is not a zip file: {root}/step_0020.pt")
    assert sorted((entry.name, entry.stat().st_mtime_ns) for entry in os.scandir(root)) == before
