"""The public tool ckpt-chaos kills a training script at every file event of its run, and resumes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ckpt_chaos", reason="needs the public tool: pip install ckpt-chaos")
pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("train.py")
VERDICTS = "HARD_FAIL,SILENT_DIVERGENCE,LOST_WORK,CONTROL_FAIL"


@pytest.mark.parametrize("keep", [3, pytest.param(100, id="keepsall")])
@pytest.mark.parametrize("mode", ["before", "term"])
def test_a_job_killed_at_any_file_event_resumes_from_its_newest_checkpoint_and_ends_the_same(
    tmp_path: Path, keep: int, mode: str
) -> None:
    """With few kept the tool sees pruning at work; with all kept it knows every checkpoint that there was."""
    training = [sys.executable, str(SCRIPT), "--keep", str(keep), "--out", "{out}"]
    command = [
        sys.executable, "-m", "ckpt_chaos", "run", "--work", str(tmp_path / "work"), "--modes", mode, "--grace", "1",
        "--checkpoint-glob", "{out}/ckpt/step_*.bin", "--step-regex", r"resumed from step (\d+)",
        "--result-file", "{out}/final.json", "--fail-on", VERDICTS, "--", *training,
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=3000)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS" in done.stdout
