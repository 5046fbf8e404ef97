from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tests.cli.command import prune
from tests.trees import build


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log that tells of a checkpoint that is really cut, by a path relative to the log's own directory."""
    root = build.step_files(tmp_path / "run", [10, 20])
    (root / "step_0020.pt").write_bytes(build.torch_zip()[:700])
    path = tmp_path / "train.log"
    path.write_text(
        "loading run/step_0020.pt\nRuntimeError: PytorchStreamReader failed: failed finding central directory\n"
    )
    return path


def test_it_says_what_broke_how_and_what_to_resume_from_by_which_command(log: Path) -> None:
    done = prune("diagnose", log)
    assert done.code == 0
    for part in (
        "line 2",
        "a ZIP without its end record",
        "most likely",
        "step 10 on primary",
        "prune resume --primary",
    ):
        assert part in done.out


def test_its_json_is_the_whole_of_stdout(log: Path) -> None:
    done = prune("diagnose", log, "--json")
    found = done.json
    assert (found["schema"], found["checkpoint_problem"], found["step"]) == ("prune.diagnosis/1", True, 20)
    assert found["resume"]["step"] == 10
    assert found["health"] == "broken"


def test_it_reads_standard_input(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in ((), ("-",)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"CUDA out of memory\xff\n")))
        done = prune("diagnose", *arguments)
        assert done.code == 0
        assert "not a checkpoint problem" in done.out


def test_the_run_may_be_given(log: Path, tmp_path: Path) -> None:
    done = prune("diagnose", log, "--json", "--primary", tmp_path / "run", cwd=tmp_path)
    assert done.json["resume"]["step"] == 10


def test_the_checkpoint_may_be_given_alone(log: Path, tmp_path: Path) -> None:
    done = prune("diagnose", "--path", tmp_path / "run" / "step_0020.pt", "--json")
    assert done.json["health"] == "broken"


def test_what_cannot_be_read_is_bad_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prune("diagnose", tmp_path / "no.log").code == 2
    assert prune("diagnose", tmp_path).code == 2
    assert prune("diagnose", "/dev/zero").code == 2
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"  \n")))
    done = prune("diagnose")
    assert done.code == 2
    assert "nothing to read" in done.err


def test_of_a_very_long_log_the_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    with log.open("wb") as file:
        file.write(b"zipfile.BadZipFile: File is not a zip file\n")
        file.truncate(100 << 20)
        file.seek(0, 2)
        file.write(b"\nCUDA out of memory\n")
    done = prune("diagnose", log, "--json")
    assert done.json["signature"] == "gpu-memory"
