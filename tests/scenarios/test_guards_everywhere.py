"""What one command spares, every command spares: guards live below them all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from prune import holds
from prune.model import SECOND
from tests.cli.command import prune
from tests.runs import run_of
from tests.trees.build import HOUR, age, names, step_dirs

pytestmark = pytest.mark.usefixtures("alone")

VICTIM = "step-2"


@contextmanager
def opened(path: Path) -> Iterator[None]:
    code = "import sys; f = open(sys.argv[1], 'rb'); print(flush=True); sys.stdin.read()"
    reader = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert reader.stdout is not None
    reader.stdout.readline()
    try:
        yield
    finally:
        reader.communicate(b"")


def in_flight(root: Path) -> Any:
    age(root / VICTIM / "rank_1.pt", 5)


def unknown_mtime(root: Path) -> Any:
    os.utime(root / VICTIM / "rank_1.pt", (0, 0))


def resume_candidate(root: Path) -> Any:
    (root / "latest").write_text(VICTIM)
    age(root / "latest", HOUR)


def rewound(root: Path) -> Any:
    age(root / VICTIM, HOUR)


def pinned(root: Path) -> Any:
    holds.pin(run_of(root), 2, reason="paper", now_ns=0)


def leased(root: Path) -> Any:
    holds.lease(run_of(root), 2, until_ns=time.time_ns() + 3600 * SECOND)


def busy(root: Path) -> Any:
    return opened(root / VICTIM / "rank_1.pt")


def linked(root: Path) -> Any:
    os.symlink("/usr", root / VICTIM / "data")
    age(root / VICTIM, 3 * HOUR)


GUARDS = {
    "in-flight": in_flight,
    "unknown-mtime": unknown_mtime,
    "resume-candidate": resume_candidate,
    "rewound": rewound,
    "pinned": pinned,
    "leased": leased,
    "busy": busy,
    "linked": linked,
}
FLAGS = ("--keep-last", "2")


def plan_only(root: Path, _at: Path) -> None:
    prune("plan", "--primary", root, *FLAGS)


def apply(root: Path, _at: Path) -> None:
    prune("apply", "--yes", "--primary", root, *FLAGS)


def apply_reviewed(root: Path, at: Path) -> None:
    """With a plan that deletes the step, made by somebody who saw no guard."""
    from prune.report.json import content_id

    prune("plan", "--primary", root, *FLAGS, "--out", at / "plan.json")
    document = json.loads((at / "plan.json").read_text())
    for step in document["runs"][0]["steps"]:
        if step["step"] == 2:
            step.update(decision="delete", guards=[], reasons=[])
    document["id"] = content_id(document)
    (at / "plan.json").write_text(json.dumps(document))
    prune("apply", at / "plan.json", "--yes")


def make_room(root: Path, _at: Path) -> None:
    """As often as there are victims: a step whose room somebody else takes meanwhile ends one call."""
    for _victim in range(4):
        prune("make-room", "900PiB", "--yes", "--primary", root, *FLAGS)


def make_room_to_the_floor(root: Path, at: Path) -> None:
    config = at / "prune.toml"
    policy = "[runs.keep]\nlast = 2\n[runs.pressure]\nkeep_last = 1\n"
    config.write_text(f'[[runs]]\nname = "t"\nprimary = "{root}"\n{policy}')
    for _victim in range(5):
        prune("make-room", "900PiB", "--yes", "--config", config)


def allowed(root: Path, _at: Path) -> None:
    prune("apply", "--yes", "--allow-many", "--primary", root, *FLAGS)


COMMANDS = [plan_only, apply, apply_reviewed, make_room, make_room_to_the_floor, allowed]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
@pytest.mark.parametrize("guard", GUARDS)
def test_a_guarded_step_is_spared(tmp_path: Path, guard: str, command: Callable[[Path, Path], None]) -> None:
    root = step_dirs(tmp_path / "P", range(1, 7))
    held = GUARDS[guard](root) or nullcontext()
    with held:
        told = prune("plan", "--json", "--primary", root, *FLAGS).json["runs"][0]["steps"][1]
        command(root, tmp_path)
    assert guard in {hold["guard"] for hold in told["guards"]}
    assert len(list((root / VICTIM).rglob("*.pt"))) == 4
    assert {VICTIM, "step-6"} <= names(root)


@pytest.mark.parametrize("command", COMMANDS[1:], ids=lambda command: command.__name__)
def test_without_a_guard_the_same_step_goes(tmp_path: Path, command: Callable[[Path, Path], None]) -> None:
    root = step_dirs(tmp_path / "P", range(1, 7))
    command(root, tmp_path)
    assert VICTIM not in names(root)
