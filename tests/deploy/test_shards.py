"""The job array and the indexed job share a fleet out so that each run has exactly one task."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture
def prune(tmp_path: Path) -> dict[str, str]:
    """An environment in which ``prune`` only says what it was asked."""
    fake = tmp_path / "prune"
    fake.write_text('#!/bin/sh\necho "$@"\n')
    fake.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


def shard_of(said: str) -> tuple[int, int]:
    found = re.search(r"--shard (\d+)/(\d+)", said)
    assert found, said
    return int(found[1]), int(found[2])


def test_every_task_of_the_array_takes_its_own_share_also_when_run_again_alone(prune: dict[str, str]) -> None:
    script = DEPLOY / "slurm/array.sbatch"
    first, last = map(int, re.findall(r"#SBATCH --array=(\d+)-(\d+)", script.read_text())[0])
    shards = []
    for task in range(first, last + 1):
        environment = {**prune, "SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_TASK_COUNT": "1"}
        done = subprocess.run(["bash", str(script)], env=environment, capture_output=True, text=True, check=True)
        shards.append(shard_of(done.stdout))
    assert shards == [(index, last) for index in range(1, last + 1)]


def test_every_pod_of_the_indexed_job_takes_its_own_share(prune: dict[str, str]) -> None:
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((DEPLOY / "kubernetes/indexed-job.yaml").read_text())["spec"]
    container = job["template"]["spec"]["containers"][0]
    assert job["completionMode"] == "Indexed"
    shards = []
    for index in range(job["completions"]):
        environment = {**prune, "JOB_COMPLETION_INDEX": str(index)}
        words = [*container["command"], *container["args"]]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        shards.append(shard_of(done.stdout))
    assert shards == [(index, job["completions"]) for index in range(1, job["completions"] + 1)]
