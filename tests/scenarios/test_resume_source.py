"""What somebody resumes from, points at, reads or pinned stays, whatever the policy says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from prune import holds
from prune.model import SECOND
from tests.cli.command import prune
from tests.runs import run_of
from tests.scenarios.asking import apply, plan
from tests.trees.build import HOUR, age, mirrored, names, step_dirs, step_files, torch_zip
from tests.trees.stacks import put

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def source(tmp_path: Path) -> list[Path]:
    """A run whose newest step is damaged: another run began from the one before."""
    primary = step_files(tmp_path / "run1", (800, 900, 1000))
    path = primary / "step_1000.pt"
    path.write_bytes(path.read_bytes()[:-40])
    age(path, 2 * HOUR)
    return [primary, mirrored(primary, tmp_path / "mirror1")]


def made_good(roots: list[Path]) -> None:
    for root in roots:
        (root / "step_1000.pt").write_bytes(torch_zip())
        age(root / "step_1000.pt", HOUR)


def test_a_step_that_another_run_resumes_from_and_leases_stays_on_every_replica(source: list[Path]) -> None:
    primary, mirror = source
    resumed = prune("resume", "--primary", primary, "--hold", "2h")
    assert resumed.out == f"{primary}/step_0900.pt\n"
    made_good(source)

    planned, done = plan(*source, keep=1), apply(*source, keep=1)

    assert planned.guards == {900: {"leased"}}
    assert done.deleted == {800}
    assert names(primary) == names(mirror) == {"step_0900.pt", "step_1000.pt"}


def test_a_lease_told_to_one_replica_alone_holds_the_step_on_all(source: list[Path]) -> None:
    primary, mirror = source
    made_good(source)
    holds.lease(run_of(mirror), 900, until_ns=time.time_ns() + 3600 * SECOND)
    assert apply(primary, mirror, keep=1).deleted == {800}


def test_once_the_lease_is_over_the_step_goes(source: list[Path]) -> None:
    made_good(source)
    holds.lease(run_of(*source), 900, until_ns=time.time_ns() - SECOND)
    assert apply(*source, keep=1).deleted == {800, 900}


def test_a_pin_holds_a_step_under_every_command_that_deletes(source: list[Path]) -> None:
    primary, mirror = source
    made_good(source)
    roots = ("--primary", primary, "--mirror", mirror)
    assert prune("pin", "900", *roots, "--reason", "run2 began from it").code == 0

    assert apply(*source, keep=1).guards == {900: {"pinned"}}
    assert prune("make-room", "900PiB", "--yes", *roots, "--keep-last", "1").code == 4
    assert prune("purge", "--yes", *roots).code == 0
    assert names(primary) == names(mirror) == {"step_0900.pt", "step_1000.pt"}

    prune("unpin", "900", *roots)
    assert apply(*source, keep=1).deleted == {900}


def test_while_a_reader_holds_a_lease_in_python_no_prune_takes_the_step(source: list[Path]) -> None:
    primary, mirror = source
    made_good(source)
    code = f"""
import prune, sys
with prune.lease({str(primary / "step_0900.pt")!r}):
    print(flush=True)
    sys.stdin.read()
"""
    reader = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert reader.stdout is not None
    reader.stdout.readline()
    held = apply(primary, mirror, keep=1)
    reader.communicate(b"")

    assert held.guards == {900: {"leased"}}
    assert reader.returncode == 0
    assert apply(primary, mirror, keep=1).deleted == {900}


def pointing(root: Path, name: str) -> None:
    put(root / "latest", name)
    age(root / "latest", HOUR)


def test_a_lagging_pointer_keeps_what_it_names_and_does_not_hide_what_is_newer(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (400, 500, 600, 700))
    pointing(primary, "step-600")
    mirror = mirrored(primary, tmp_path / "M")

    planned, done = plan(primary, mirror, keep=1), apply(primary, mirror, keep=1)

    assert planned.candidate == 700
    assert planned.guards == {600: {"resume-candidate"}}
    assert done.deleted == {400, 500}


def test_a_pointer_moved_after_the_review_saves_what_it_names_now(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300, 400, 500, 600))
    pointing(primary, "step-600")
    asked = ("--primary", primary, "--keep-last", "3")
    assert prune("plan", *asked, "--out", tmp_path / "plan.json").code == 0
    pointing(primary, "step-300")
    step_dirs(primary, [700], seconds=HOUR)

    done = prune("apply", tmp_path / "plan.json", "--yes", "--json")

    run = done.json["runs"][0]
    assert done.code == 0
    assert [copy["step"] for copy in run["deleted"]] == [100, 200]
    assert (300, "resume-candidate") in [(held["step"], held["guard"]) for held in run["guarded"]]
    assert names(primary) == {"step-300", "step-400", "step-500", "step-600", "step-700", "latest"}


@pytest.mark.parametrize("seconds", [5, 10 * HOUR])
def test_an_empty_pointer_blocks_while_it_may_be_in_writing_and_is_told_later(tmp_path: Path, seconds: float) -> None:
    primary = step_dirs(tmp_path / "P", range(1, 6))
    put(primary / "latest", "")
    age(primary / "latest", seconds)

    done = apply(primary, keep=2)

    if seconds == 5:
        assert (done.code, done.blocked, done.deleted) == (3, "pointer-unreadable", set())
    else:
        assert (done.code, done.deleted) == (0, {1, 2, 3})
        assert "pointer-dangling" in done.attention


def test_a_pointer_that_says_nothing_readable_blocks(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(1, 6))
    put(primary / "latest", b"\xff\xfe garbage")
    age(primary / "latest", HOUR)
    done = apply(primary, keep=2)
    assert (done.code, done.blocked, done.deleted) == (3, "pointer-unreadable", set())


def test_without_a_pointer_the_newest_whole_step_is_resumed_from(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (300, 400, 500))
    assert plan(primary, keep=1).candidate == 500


def test_a_link_by_which_a_step_is_named_keeps_it_and_is_never_followed(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    os.symlink("step_0002.pt", primary / "last.pt")

    done = apply(primary, keep=2)

    assert done.deleted == {1, 3}
    assert os.readlink(primary / "last.pt") == "step_0002.pt"


def test_while_a_pointer_is_swapped_all_the_time_no_look_at_it_fails(tmp_path: Path) -> None:
    """A trainer that replaces its pointer by rename is seen at one step or the other, never without one."""
    primary = step_dirs(tmp_path / "P", (300, 400, 500, 600))
    pointing(primary, "step-500")
    code = """
import os, sys, itertools
os.chdir(sys.argv[1])
print(flush=True)
for step in itertools.cycle((500, 600)):
    with open(".latest.new", "w") as file:
        file.write(f"step-{step}")
    os.rename(".latest.new", "latest")
"""
    trainer = subprocess.Popen([sys.executable, "-c", code, str(primary)], stdout=subprocess.PIPE)
    assert trainer.stdout is not None
    trainer.stdout.readline()
    try:
        seen = [plan(primary, keep=1) for _ in range(30)]
    finally:
        trainer.kill()
        trainer.wait()
    assert {answer.code for answer in seen} == {0}
    assert all(answer.deleted <= {300, 400, 500} and 300 in answer.deleted for answer in seen)
