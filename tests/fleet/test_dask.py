"""Runs as tasks on a real cluster of processes, some of which are killed."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from prune import engine
from prune.settings.load import load
from tests.cli.command import prune
from tests.fleet.cluster import REPOSITORY, LocalDask
from tests.trees.build import age, mirrored, names, step_dirs

pytest.importorskip("distributed", reason="pip install 'ckpt-prune[dask]'")
pytestmark = pytest.mark.slow

RUNS = 6


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path}/state.db")


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDask]:
    cluster = LocalDask(tmp_path_factory.mktemp("dask"))
    wait_for_workers(cluster, 2)
    yield cluster
    cluster.close()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    for number in range(RUNS):
        primary = step_dirs(tmp_path / "P" / f"run-{number}", range(1, 7), files=2)
        mirrored(primary, tmp_path / "M" / f"run-{number}")
    path = tmp_path / "prune.toml"
    roots = f'primary = "{tmp_path}/P/{{run}}"\nmirrors = ["{tmp_path}/M/{{run}}"]'
    path.write_text(f'[[runs]]\nname = "{{run}}"\n{roots}\n[runs.keep]\nlast = 2\n')
    return path


def left(config: Path) -> list[set[str]]:
    return [
        names(root / f"run-{number}") for root in (config.parent / "P", config.parent / "M") for number in range(RUNS)
    ]


def test_what_travels_comes_back_as_it_went(config: Path) -> None:
    settings = load(str(config))
    plan = engine.plan(settings)
    for value in (settings.runs, plan.runs, engine.apply(settings).runs):
        assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301  # our own bytes


def test_the_plan_is_the_same_as_without_a_cluster(config: Path, dask: LocalDask) -> None:
    there = prune("plan", "--config", config, "--json", "--dask", dask.address)
    here = prune("plan", "--config", config, "--json")
    assert there.code == 0, there.err
    assert [run["steps"] for run in there.json["runs"]] == [run["steps"] for run in here.json["runs"]]
    assert [run["run"] for run in there.json["runs"]] == [f"run-{number}" for number in range(RUNS)]


def test_apply_verify_and_mirror_do_their_work_there(config: Path, dask: LocalDask) -> None:
    done = prune("apply", "--config", config, "--yes", "--json", "--dask", dask.address)
    assert done.code == 0, done.err
    assert [run["run"] for run in done.json["runs"]] == [f"run-{number}" for number in range(RUNS)]
    assert left(config) == [{"step-5", "step-6"}] * 2 * RUNS
    assert "keeps history where it runs" in done.err

    (config.parent / "M/run-3/step-6/rank_0.pt").write_bytes(b"")
    age(config.parent / "M/run-3/step-6", 3600)
    found = prune("verify", "--config", config, "--json", "--dask", dask.address)
    assert found.code == 5
    broken = [
        (run["run"], copy["step"]) for run in found.json["runs"] for copy in run["copies"] if copy["health"] == "broken"
    ]
    assert broken == [("run-3", 6)]

    mended = prune("mirror", "--config", config, "--json", "--dask", dask.address)
    assert mended.code == 0, mended.err
    assert [len(run["copied"]) for run in mended.json["runs"]] == [0, 0, 0, 1, 0, 0]
    assert prune("verify", "--config", config, "--dask", dask.address).code == 0
    assert prune("verify", "99", "--config", config, "--dask", dask.address).code == 2


def test_a_reviewed_plan_is_carried_out_there_and_no_more(config: Path, dask: LocalDask) -> None:
    plan = config.parent / "plan.json"
    prune("plan", "--config", config, "--out", plan, "--match", "run-[01]")
    done = prune("apply", plan, "--yes", "--json", "--dask", dask.address)
    assert done.code == 0, done.err
    assert done.json["plan"] == json.loads(plan.read_text())["id"]
    assert [len(there) for there in left(config)] == [2, 2, 6, 6, 6, 6] * 2


def test_one_runs_trouble_is_its_own(config: Path, dask: LocalDask) -> None:
    os.rename(config.parent / "M/run-2", config.parent / "away")
    done = prune("apply", "--config", config, "--yes", "--json", "--dask", dask.address)
    assert done.code == 3
    assert [run["blocked"] and run["blocked"]["block"] for run in done.json["runs"]] == [
        None,
        None,
        "replica-unreachable",
        None,
        None,
        None,
    ]
    assert [len(names(config.parent / f"P/run-{number}")) for number in range(RUNS)] == [2, 2, 6, 2, 2, 2]


def test_without_a_scheduler_or_workers_it_is_one_sentence(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prune.fleet import dask as module

    monkeypatch.setattr(module, "CONNECT_SECONDS", 2.0)
    done = prune("plan", "--config", config, "--dask", "tcp://127.0.0.1:9")
    assert done.code == 2
    assert "no scheduler answers" in done.err
    alone = LocalDask(tmp_path, workers=0)
    try:
        done = prune("plan", "--config", config, "--dask", alone.address)
        assert done.code == 2
        assert "has no worker" in done.err
    finally:
        alone.close()


@pytest.mark.parametrize("address", ["nonsense", "http://127.0.0.1:8786", "tcp://127.0.0.1", "tcp://host:abc"])
def test_what_is_no_address_of_a_scheduler_is_refused_at_once_in_one_sentence(config: Path, address: str) -> None:
    done = prune("plan", "--config", config, "--dask", address)
    assert done.code == 2
    assert f"--dask {address}: this is no scheduler's address" in done.err
    assert "Traceback" not in done.err


def test_a_worker_of_another_version_is_refused(config: Path, tmp_path: Path) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "sitecustomize.py").write_text("import prune; prune.__version__ = '0.0.1'\n")
    odd = LocalDask(tmp_path, workers=1, PYTHONPATH=f"{tmp_path}/odd:{REPOSITORY}")
    try:
        wait_for_workers(odd, 1)
        done = prune("plan", "--config", config, "--dask", odd.address)
        assert done.code == 2
        assert "has ckpt-prune 0.0.1" in done.err
    finally:
        odd.close()


def wait_for_workers(dask: LocalDask, count: int) -> None:
    from distributed import Client

    with Client(dask.address, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=60)


class Caught:
    """An apply on a cluster of slow workers, under way."""

    def __init__(self, config: Path, workers: int = 2) -> None:
        self.config, self.log = config, config.parent / "deleted.log"
        self.log.touch()
        preload = {"DASK_DISTRIBUTED__WORKER__PRELOAD": '["tests.fleet.slow_worker"]', "DELETED_LOG": str(self.log)}
        self.dask = LocalDask(config.parent, workers, **preload)
        wait_for_workers(self.dask, workers)
        words = ["apply", "--config", str(config), "--yes", "--json", "--dask", self.dask.address]
        self.process = subprocess.Popen([sys.executable, "-m", "prune", *words], cwd=REPOSITORY, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip

    def until(self, word: str, count: int) -> int:
        """Waits until the workers have said it so often; returns the process that said it last."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            found = [line.split() for line in self.log.read_text().splitlines() if word in line]
            if len(found) >= count:
                return int(found[-1][0])
            time.sleep(0.02)
        raise AssertionError(self.log.read_text() + self.dask.log("worker-0"))

    def ended(self) -> tuple[int, dict]:
        out, err = self.process.communicate(timeout=240)
        assert "Traceback" not in err, err
        return self.process.returncode, json.loads(out)


@pytest.fixture
def caught(config: Path) -> Iterator[Caught]:
    found = Caught(config)
    yield found
    found.dask.close()
    if found.process.poll() is None:
        found.process.kill()
        found.process.wait()


def inside(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_worker_killed_in_the_middle_of_a_delete_leaves_nothing_half_and_the_retry_ends_it(
    config: Path, caught: Caught
) -> None:
    whole = inside(config.parent / "P/run-0/step-1")
    process = caught.until("withdrawn", 2)
    (worker,) = [worker for worker in caught.dask.workers if worker.pid == process]
    caught.dask.kill(worker)
    for root in ("P", "M"):
        for number in range(RUNS):
            for step in names(config.parent / root / f"run-{number}"):
                assert inside(config.parent / root / f"run-{number}" / step) == whole
    caught.dask.add_worker()
    code, result = caught.ended()
    assert code == 0, result
    assert [run["blocked"] for run in result["runs"]] == [None] * RUNS
    assert left(config) == [{"step-5", "step-6"}] * 2 * RUNS
    for root in ("P", "M"):
        for number in range(RUNS):
            assert os.listdir(config.parent / root / f"run-{number}" / ".prune/trash") == []


def test_a_stop_ends_the_steps_in_hand_and_begins_no_run(config: Path, caught: Caught) -> None:
    caught.until("run-", 2)
    caught.process.send_signal(signal.SIGTERM)
    code, result = caught.ended()
    assert code == 143
    assert len(result["runs"]) < RUNS
    assert sum(len(there) for there in left(config)) > 2 * 2 * RUNS
    assert prune("apply", "--config", config, "--yes").code == 0
    assert left(config) == [{"step-5", "step-6"}] * 2 * RUNS


def test_a_scheduler_that_is_lost_is_told_and_the_next_pass_ends_it(config: Path, caught: Caught) -> None:
    caught.until("run-", 1)
    caught.dask.scheduler.kill()
    code, result = caught.ended()
    assert code == 3
    lost = [run for run in result["runs"] if run["blocked"] is not None and run["blocked"]["block"] == "failed"]
    assert lost
    assert len(result["runs"]) == RUNS
    caught.dask.close()
    assert prune("apply", "--config", config, "--yes").code == 0
    assert left(config) == [{"step-5", "step-6"}] * 2 * RUNS
