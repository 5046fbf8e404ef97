"""Two processes on one run: two passes, a pass and a trainer, a pass that is stopped, and one that wakes too late."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults import filesystems
from tests.trees.build import mirrored, names, step_dirs, torch_zip

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("alone")]

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("PRUNE_TEST_SEED", time.time_ns() % 10**6))
    print(f"seed {seed}: PRUNE_TEST_SEED={seed} repeats it")
    return random.Random(seed)


rounds = pytest.mark.parametrize(
    "rounds", [pytest.param(4, id="some"), pytest.param(60, id="many", marks=pytest.mark.slow)]
)


@dataclass
class Ended:
    code: int
    out: str
    err: str

    @property
    def run(self) -> dict[str, Any]:
        return dict(json.loads(self.out)["runs"][0])

    @property
    def deleted(self) -> list[tuple[int, str]]:
        return [(copy["step"], copy["replica"]) for copy in self.run["deleted"]]


def begin(roots: Sequence[Path], *more: str, before: str = "") -> subprocess.Popen[str]:
    """``prune apply`` in a process of its own; ``before`` is Python that it runs first."""
    mirrors = [part for mirror in roots[1:] for part in ("--mirror", str(mirror))]
    words = ["apply", "--yes", "--json", "--primary", str(roots[0]), *mirrors, *more]
    code = f"{before}\nimport sys\nfrom prune.cli import main\nmain({words!r})\n"
    return subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip


def end(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err, err
    return Ended(process.returncode, out, err)


def pair(at: Path, steps: Sequence[int], files: int = 2) -> list[Path]:
    primary = step_dirs(at / "P", steps, files=files)
    return [primary, mirrored(primary, at / "M")]


def trash(root: Path) -> list[str]:
    return os.listdir(root / ".prune" / "trash")


# --- two passes ----------------------------------------------------------------------------------------------------


@rounds
def test_of_two_passes_at_once_one_works_and_the_other_says_so(
    tmp_path: Path, chance: random.Random, rounds: int
) -> None:
    for number in range(rounds):
        roots = pair(tmp_path / str(number), range(1, 21))
        first = begin(roots, "--keep-last", "5")
        time.sleep(chance.uniform(0, 0.4))
        ended = [end(process) for process in (begin(roots, "--keep-last", "5"), first)]

        assert {each.code for each in ended} <= {0, 3}
        assert 0 in {each.code for each in ended}
        for each in ended:
            assert each.code == 0 or (each.run["blocked"]["block"], each.deleted) == ("locked", [])
        both = sorted(ended[0].deleted + ended[1].deleted)
        assert both == [(step, name) for step in range(1, 16) for name in ("mirror", "primary")]
        for root in roots:
            assert names(root) == {f"step-{step}" for step in range(16, 21)}
            assert trash(root) == []


@rounds
def test_who_waits_for_the_lock_finds_the_work_done(tmp_path: Path, rounds: int) -> None:
    for number in range(rounds):
        roots = pair(tmp_path / str(number), range(1, 13))
        ended = [end(each) for each in [begin(roots, "--keep-last", "5", "--wait", "60s") for _ in range(3)]]
        assert [each.code for each in ended] == [0, 0, 0], [each.run for each in ended]
        deleted = [key for each in ended for key in each.deleted]
        assert sorted(deleted) == [(step, name) for step in range(1, 8) for name in ("mirror", "primary")]


def test_the_two_sides_named_the_other_way_round_never_wait_for_each_other(tmp_path: Path) -> None:
    roots = pair(tmp_path, range(1, 13))
    ended = [end(each) for each in (begin(roots, "--keep-last", "5", "--wait", "60s"),
                                    begin(roots[::-1], "--keep-last", "5", "--wait", "60s"))]  # fmt: skip
    assert {each.code for each in ended} <= {0, 3}, [each.run for each in ended]
    assert len(names(roots[0])) == len(names(roots[1])) >= 5


# --- a pass and a trainer ------------------------------------------------------------------------------------------

TRAINER = """
import os, shutil, sys, time
from pathlib import Path
from tests.trees.build import torch_zip
roots, keep = [Path(root) for root in sys.argv[3:]], int(sys.argv[2])
for step in range(100, 100 + int(sys.argv[1])):
    for root in roots:
        work = root / f"tmp-step-{step}"
        work.mkdir()
        for rank in range(3):
            (work / f"rank_{rank}.pt").write_bytes(torch_zip(512))
        os.rename(work, root / f"step-{step}")
    newest = range(max(100, step - keep + 1), step + 1)
    missing = [(str(root), s) for root in roots for s in newest if len(list((root / f"step-{s}").glob("*.pt"))) != 3]
    if missing:
        sys.exit(f"lost {missing} at step {step}")
    time.sleep(0.03)
"""


@rounds
def test_while_a_trainer_saves_its_newest_steps_are_always_there(tmp_path: Path, rounds: int) -> None:
    roots = pair(tmp_path, range(1, 20))
    trainer = subprocess.Popen([sys.executable, "-c", TRAINER, str(40 * rounds), "4", *map(str, roots)],
                               cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)  # fmt: skip
    passes = 0
    while trainer.poll() is None:
        done = end(begin(roots, "--keep-last", "4", "--in-flight", "300ms"))
        assert done.code == 0, done.run
        passes += 1
    assert trainer.returncode == 0, trainer.stderr.read() if trainer.stderr else ""
    assert passes > 1
    time.sleep(0.4)
    assert end(begin(roots, "--keep-last", "4", "--in-flight", "300ms")).code == 0
    newest = 100 + 40 * rounds
    for root in roots:
        assert names(root) == {f"step-{step}" for step in range(newest - 4, newest)}
        assert trash(root) == []


ROTATION = """
import os, shutil, sys, time
from pathlib import Path
root, steps, pause = Path(sys.argv[1]), range(1, int(sys.argv[2])), float(sys.argv[3])
for step in steps:
    shutil.rmtree(root / f"step-{step}", ignore_errors=True)
    time.sleep(pause)
"""


@rounds
def test_a_trainer_s_own_rotation_of_the_same_steps_breaks_neither(
    tmp_path: Path, chance: random.Random, rounds: int
) -> None:
    for number in range(rounds):
        roots = pair(tmp_path / str(number), range(1, 31), files=12)
        rotation = [sys.executable, "-c", ROTATION, str(roots[0]), "26", str(chance.uniform(0.001, 0.02))]
        process = begin(roots, "--keep-last", "5")
        time.sleep(chance.uniform(0, 0.5))
        subprocess.run(rotation, check=True)
        done = end(process)

        assert done.code == 0, done.run
        gone = {(each["step"], each["replica"]) for each in done.run["gone"]}
        held = {each["step"] for each in done.run["guarded"]}
        assert not gone & set(done.deleted)
        for root in roots:
            assert {f"step-{step}" for step in range(26, 31)} <= names(root)
            assert names(root) <= {f"step-{step}" for step in {*range(26, 31), *held}}
            assert trash(root) == []
        end_of_all = end(begin(roots, "--keep-last", "5", "--in-flight", "0s"))
        assert end_of_all.code == 0, end_of_all.run


# --- a pass that is stopped ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def slow_pass(at: Path, *more: str, before: str = "", steps: int = 90) -> Iterator[tuple[Any, Any, Any]]:
    """A pass on a disk whose renames take their time, in the middle of its first batch."""
    with filesystems.fuse(at / "fuse") as disk:
        pair(disk.below, range(1, steps + 1))
        roots = [disk.root / "P", disk.root / "M"]
        disk.faults(slow={"rename": 0.05})
        process = begin(roots, "--keep-last", "5", *more, before=before)
        until = time.monotonic() + 60
        while len(names(disk.below / "P")) == steps:
            assert process.poll() is None, end(process)
            assert time.monotonic() < until
            time.sleep(0.005)
        yield disk, roots, process


def below(disk: filesystems.Fuse) -> list[set[str]]:
    return [names(disk.below / name) for name in ("P", "M")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_steps_in_hand_be_finished_and_no_more_begun(tmp_path: Path, number: signal.Signals) -> None:
    with slow_pass(tmp_path) as (disk, roots, process):
        process.send_signal(number)
        done = end(process)
        left = below(disk)
        assert done.code == 128 + number
        assert "finishing the step in hand" in done.err
        assert left[0] == left[1]
        assert 5 < len(left[0]) < 90
        assert {step for step, _ in done.deleted} == {s for s in range(1, 91) if f"step-{s}" not in left[0]}
        assert trash(roots[0]) == trash(roots[1]) == []
        disk.faults()
        assert end(begin(roots, "--keep-last", "5")).code == 0
        assert below(disk) == [{f"step-{step}" for step in range(86, 91)}] * 2


def test_two_signals_end_no_more_than_one(tmp_path: Path) -> None:
    with slow_pass(tmp_path) as (disk, roots, process):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        done = end(process)
        assert done.code == 130
        left = below(disk)
        assert left[0] == left[1]
        assert trash(roots[0]) == []


# --- a pass that is paused and wakes -------------------------------------------------------------------------------

LEASE = 6  # seconds; the real one is longer, and a busy machine must not lose it
SHORT = f"import prune.control.lock as lock; lock.LEASE_NS = {LEASE} * 10**9"
ELSEWHERE = SHORT + "; lock.boot_id = lambda: 'another host'"


def test_paused_past_its_lease_and_woken_it_deletes_nothing_more(tmp_path: Path) -> None:
    with slow_pass(tmp_path, before=SHORT) as (disk, roots, process):
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.3)  # what the disk was doing is done
        paused = below(disk)
        time.sleep(LEASE + 0.5)
        process.send_signal(signal.SIGCONT)
        done = end(process)

        assert (done.code, done.run["blocked"]["block"]) == (3, "locked")
        assert [now >= then for now, then in zip(below(disk), paused, strict=True)] == [True, True]
        disk.faults()
        after = end(begin(roots, "--keep-last", "5"))
        assert after.code in (0, 1), after.run
        assert [len(left & {f"step-{step}" for step in range(86, 91)}) for left in below(disk)] == [5, 5]


@pytest.mark.slow
def test_a_pass_elsewhere_takes_over_and_the_woken_one_gets_in_nobody_s_way(tmp_path: Path) -> None:
    """Two mounts of one directory, as on two hosts: the kernel's lock of one means nothing to the other."""
    with slow_pass(tmp_path, before=SHORT) as (disk, _, process), second_host(tmp_path, disk) as there:
        process.send_signal(signal.SIGSTOP)
        early = end(begin(there, "--keep-last", "5", before=ELSEWHERE))
        assert (early.code, early.run["blocked"]["block"]) == (3, "locked")
        assert "leased by process" in str(early.run["blocks"])
        time.sleep(LEASE + 0.5)
        other = begin(there, "--keep-last", "5", "--wait", "10s", before=ELSEWHERE)
        time.sleep(1.0)
        process.send_signal(signal.SIGCONT)
        woken, other_done = end(process), end(other)

        assert (woken.code, woken.run["blocked"]["block"]) == (3, "locked")
        assert other_done.code in (0, 1), other_done.run
        assert not set(woken.deleted) & set(other_done.deleted), "no copy has two deleters"
        kept = {f"step-{step}" for step in range(86, 91)}
        assert [left & kept for left in below(disk)] == [kept, kept]
        for root in ("P", "M"):
            for name in kept:
                assert (disk.below / root / name / "rank_0.pt").read_bytes() == torch_zip(512, fill=name[5:].encode())


@contextlib.contextmanager
def second_host(at: Path, disk: filesystems.Fuse) -> Iterator[list[Path]]:
    folder = at / "second"
    folder.mkdir()
    server = subprocess.Popen([sys.executable, "-m", "tests.faults.fuse", disk.below, folder, disk.place],
                              cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        while not os.path.ismount(folder):
            assert server.poll() is None
            time.sleep(0.02)
        yield [folder / "P", folder / "M"]
    finally:
        filesystems.unmount(folder)
        server.wait(10)
