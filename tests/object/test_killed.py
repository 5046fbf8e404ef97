"""A pass killed at each of its requests: whatever it left, the next one ends where an undisturbed one would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.object.proxy import Answer, Passing, Proxy, Request
from tests.object.store import keys, put_all, step_prefixes
from tests.trees.build import torch_zip

SURVIVORS = {"step-5", "step-6"}


def config(folder: Path, bucket: str) -> Path:
    path = folder / "prune.toml"
    path.write_text(
        f'state = "sqlite:///{folder}/state.db"\n[[runs]]\nname = "tiny"\nprimary = "{bucket}"\n'
        '[runs.keep]\nlast = 2\n[runs.guards]\nin_flight = "0s"\n'
    )
    return path


def begin(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "prune", "apply", "--yes", "--config", str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def fill(bucket: str) -> None:
    """Six steps, each with two objects that only the second round of deletions takes."""
    big = torch_zip(80 << 10)
    files = step_prefixes(range(1, 7), files=1)
    put_all(bucket, files | {f"step-{step}/big_{number}.pt": big for step in range(1, 7) for number in (0, 1)})


class Killer:
    """Kills a process at its n-th write, before or after the store hears of it."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.at, self.after, self.writes = at, after, 0
        self.process: subprocess.Popen[str] | None = None

    def __call__(self, request: Request, passing: Passing) -> Answer | None:
        self.writes += request.writes
        if not (request.writes and self.writes == self.at and self.process is not None):
            return passing(request)
        if self.after:
            passing(request)
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return None


def killed(proxy: Proxy, path: Path, killer: Killer) -> bool:
    proxy.fault = killer
    killer.process = begin(path)
    killer.process.communicate(timeout=120)
    proxy.forget()
    return killer.process.returncode == -signal.SIGKILL


def settled(bucket: str, path: Path, at: int) -> None:
    """An undisturbed pass after a killed one: it ends well, with what every pass leaves and no trace of the dead."""
    final = begin(path)
    said, _ = final.communicate(timeout=120)
    assert final.returncode == 0, f"after a kill at write {at}: {said}"
    assert {key.partition("/")[0] for key in keys(bucket)} == SURVIVORS, f"after a kill at write {at}"
    assert [key for key in keys(bucket, ours=True) if "withdrawn/" in key] == []


@pytest.mark.parametrize(("at", "after"), [(5, True), (9, False), (12, True)])
def test_killed_in_the_midst_the_next_pass_ends_the_same(
    bucket: str, proxy: Proxy, tmp_path: Path, at: int, after: bool
) -> None:
    path = config(tmp_path, bucket)
    fill(bucket)

    assert killed(proxy, path, Killer(at, after=after))

    settled(bucket, path, at)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_write_the_next_pass_ends_the_same(
    bucket: str, proxy: Proxy, tmp_path: Path, after: bool
) -> None:
    path, at = config(tmp_path, bucket), 0
    while True:
        at += 1
        fill(bucket)
        if not killed(proxy, path, Killer(at, after=after)):
            break
        settled(bucket, path, at)
    assert at > 12
