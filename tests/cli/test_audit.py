from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import prune


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("import torch\ntorch.save(state, path)\n")
    return tmp_path / "src"


def test_a_writer_is_named_with_file_line_reason_and_the_safe_form(sources: Path) -> None:
    done = prune("audit", sources)
    assert done.code == 5
    for part in (f"{sources}/train.py:2: torch.save", "why:", "grows under its final name", "safe:", "prune.publish"):
        assert part in done.out


def test_clean_sources_end_with_zero(sources: Path) -> None:
    (sources / "train.py").write_text("import prune, torch\nwith prune.publish(path) as f:\n    torch.save(state, f)\n")
    done = prune("audit", sources)
    assert done.code == 0
    assert "no writer in 1 source" in done.out


def test_its_json_is_the_whole_of_stdout(sources: Path) -> None:
    done = prune("audit", sources, "--json")
    assert done.code == 5
    assert done.json["schema"] == "prune.audit/1"
    assert [finding["line"] for finding in done.json["findings"]] == [2]


def test_what_was_passed_over_is_said_beside_the_result(sources: Path) -> None:
    (sources / "test_x.py").write_text("import torch\ntorch.save(state, path)\n")
    (sources / "old.py").write_text("torch.save(a, b) print 1")
    done = prune("audit", sources)
    assert "1 file of tests passed over" in done.err
    assert "not parsed" in done.err


@pytest.mark.parametrize("arguments", [(), ("--for", "5s"), ("src", "--watch", "dir"), ("nothing-there",)])
def test_what_makes_no_sense_is_bad_usage(arguments: tuple[str, ...]) -> None:
    assert prune("audit", *arguments).code == 2


def test_a_watch_that_sees_nothing_ends_with_zero(tmp_path: Path) -> None:
    done = prune("audit", "--watch", tmp_path, "--for", "1s")
    assert (done.code, done.out) == (0, "no file was written under its final name\n")
    assert prune("audit", "--watch", tmp_path, "--for", "soon").code == 2


def test_a_watch_that_sees_a_writer_ends_with_five(tmp_path: Path) -> None:
    script = "import sys, time\ntime.sleep(0.5)\nwith open(sys.argv[1], 'wb') as f:\n    f.write(b'x' * 100)"
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "step_1.pt")]):
        done = prune("audit", "--watch", tmp_path, "--for", "3s", "--json")
    assert done.code == 5
    assert [finding["path"] for finding in done.json["findings"]] == [str(tmp_path / "step_1.pt")]
