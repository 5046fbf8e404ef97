"""Real processes at work on one run at a time: writers, mirrors, pruners and resuming jobs, many rounds."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from prune.checking import Means
from prune.model import Health
from prune.verify import verify
from tests.runs import run_of, settings_of
from tests.trees.build import names, step_files, torch_zip

pytestmark = pytest.mark.slow
ROUNDS = 8
WRITER = """
import random, sys, time
from prune.publish import publish
from tests.trees.build import torch_zip
root, first, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
dice = random.Random(seed)
for step in range(first, first + count):
    with publish(f"{root}/step_{step:04d}.pt", step=step) as file:
        data = torch_zip(dice.randrange(1000, 300000), fill=b"%d" % step)
        for at in range(0, len(data), 40000):
            file.write(data[at : at + 40000])
            time.sleep(dice.random() * 0.004)
    time.sleep(dice.random() * 0.05)
"""


@pytest.fixture
def dice() -> random.Random:
    """Printed, so that a round that failed can be had again: PRUNE_TEST_SEED=…"""
    seed = int(os.environ.get("PRUNE_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"PRUNE_TEST_SEED={seed}")
    return random.Random(seed)


class Stage:
    """A primary and a mirror, and processes that work on them."""

    def __init__(self, at: Path) -> None:
        self.at, self.primary, self.mirror = at, at / "P", at / "M"
        self.mirror.mkdir(parents=True)
        step_files(self.primary, range(1, 5), size=200_000)
        repository = str(Path(__file__).parents[2])
        self.environment = {**os.environ, "PRUNE_STATE": f"sqlite:///{at}/state.db", "PYTHONPATH": repository}

    def prune(self, *words: str) -> subprocess.Popen[str]:
        roots = ("--primary", str(self.primary), "--mirror", str(self.mirror), "--keep-last", "3")
        return self._start([sys.executable, "-m", "prune", *words, *roots])

    def write(self, first: int, count: int, seed: int) -> subprocess.Popen[str]:
        return self._start([sys.executable, "-c", WRITER, str(self.primary), str(first), str(count), str(seed)])

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def every_name_is_whole(self) -> None:
        """What shows under a final name anywhere is a checkpoint in full, by its content."""
        run = run_of(self.primary, self.mirror)
        (found,) = verify(settings_of(run, state=self.at / "other.db"), means=Means(again=True))
        assert {copy.health for copy in found.copies} <= {Health.INTACT}, [
            (copy.step, copy.replica, copy.detail) for copy in found.copies if copy.health is not Health.INTACT
        ]

    def settles(self) -> None:
        """One mirror and one pruner after all: both sides hold the same newest three."""
        for verb in (("mirror", "--wait", "30s"), ("apply", "--yes", "--in-flight", "0s", "--wait", "30s")):
            done = self.prune(*verb)
            out, err = done.communicate(timeout=120)
            assert done.returncode == 0, (verb, out, err)
        kept = {name for name in names(self.primary) if name.endswith(".pt")}
        assert kept == {name for name in names(self.mirror) if name.endswith(".pt")}
        assert len(kept) == 3
        self.every_name_is_whole()


def ended(*processes: subprocess.Popen[str]) -> list[tuple[int, str]]:
    found = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert "Traceback" not in err, err
        found.append((process.returncode, out))
    return found


def test_a_writer_and_mirrors_and_pruners_at_once_never_show_half_a_checkpoint(
    tmp_path: Path, dice: random.Random
) -> None:
    stage = Stage(tmp_path)
    for turn in range(ROUNDS):
        writer = stage.write(10 + 10 * turn, 4, dice.randrange(1 << 30))
        others = []
        for _ in range(3):
            time.sleep(dice.random() * 0.2)
            verb = dice.choice((("mirror",), ("apply", "--yes", "--in-flight", "0s")))
            others.append(stage.prune(*verb))
        codes = ended(writer, *others)
        assert codes[0][0] == 0
        assert {code for code, _ in codes[1:]} <= {0, 1, 3}
        stage.every_name_is_whole()
    stage.settles()


def test_two_mirrors_at_once_copy_every_step_once_and_whole(tmp_path: Path, dice: random.Random) -> None:
    for turn in range(ROUNDS):
        stage = Stage(tmp_path / str(turn))
        one = stage.prune("mirror", "--json", "--wait", "20s")
        time.sleep(dice.random() * 0.3)
        two = stage.prune("mirror", "--json", "--wait", "20s")
        copied = [
            copy["step"]
            for code, out in ended(one, two)
            if code in (0, 1, 3)
            for run in json.loads(out)["runs"]
            for copy in run["copied"]
        ]
        assert len(copied) == len(set(copied))
        stage.every_name_is_whole()
        stage.settles()


def test_what_resume_names_while_pruners_are_at_work_is_there_and_loads(tmp_path: Path, dice: random.Random) -> None:
    stage = Stage(tmp_path)
    for turn in range(ROUNDS):
        writer = stage.write(10 + 10 * turn, 4, dice.randrange(1 << 30))
        pruner = stage.prune("apply", "--yes", "--in-flight", "0s")
        time.sleep(dice.random() * 0.2)
        reader = stage.prune("resume", "--hold", "1m")
        ((_, _), (_, _), (code, out)) = ended(writer, pruner, reader)
        assert code == 0
        assert Path(out.strip()).read_bytes()[:2] == torch_zip()[:2]
        stage.every_name_is_whole()
        for lease in [*stage.primary.glob(".prune/leases/*"), *stage.mirror.glob(".prune/leases/*")]:
            lease.unlink()


def test_a_mirror_that_is_killed_again_and_again_gets_there(tmp_path: Path, dice: random.Random) -> None:
    stage = Stage(tmp_path)
    for _ in range(ROUNDS):
        mirror = stage.prune("mirror")
        time.sleep(0.2 + dice.random() * 0.6)
        mirror.kill()
        mirror.communicate()
        stage.every_name_is_whole()
    stage.settles()
