"""Plan and apply on what the frameworks wrote themselves: right steps, right verdicts, nothing else touched."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import prune
from tests.trees.build import mirrored
from tests.trees.real import EXPECTED, unpack

pytestmark = pytest.mark.usefixtures("alone")

KEEP = 2
RESTORABLE = {"intact", "whole", "unverified"}
# Damage inside files of full length: seen by a full read alone, which a plan gives its resume candidate only.
HIDDEN = {"hf_trainer_damaged": {40}}
TREES = sorted(EXPECTED)


def settled(root: Path) -> Path:
    """All times of a tree moved by the same amount, so that whatever clock wrote them the newest is an hour old."""
    everything = [root, *root.rglob("*")]
    newest = max(path.lstat().st_mtime_ns for path in everything)
    shift = time.time_ns() - 3_600_000_000_000 - newest
    for path in everything:
        at = path.lstat().st_mtime_ns + shift
        os.utime(path, ns=(at, at), follow_symlinks=False)
    return root


@pytest.fixture(params=TREES)
def tree(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(tree: str, tmp_path: Path) -> Path:
    return settled(unpack(tree, tmp_path / "real"))


@pytest.fixture(params=["alone", "mirrored"])
def roots(request: pytest.FixtureRequest, root: Path, tmp_path: Path) -> list[Path]:
    return [root] if request.param == "alone" else [root, mirrored(root, tmp_path / "mirror")]


def asked(roots: list[Path]) -> list[str]:
    flags = [part for mirror in roots[1:] for part in ("--mirror", str(mirror))]
    return ["--primary", str(roots[0]), *flags, "--keep-last", str(KEEP), "--json"]


def run_of(done: Any) -> dict[str, Any]:
    assert done.code == 0, (done.code, done.err, done.out)
    return dict(done.json["runs"][0])


def bytes_below(root: Path, relative: str) -> Iterator[tuple[str, str]]:
    """Every file at or below a path with a digest of what it holds; links with where they lead."""
    top = root / relative
    files = [top] if top.is_symlink() or not top.is_dir() else sorted(p for p in top.rglob("*") if not p.is_dir())
    for path in files:
        held = os.readlink(path) if path.is_symlink() else sha256(path.read_bytes()).hexdigest()
        yield str(path.relative_to(root)), held


def unit(expected: dict[str, Any], step: int) -> list[str]:
    return list(expected["units"][str(step)])


def finished(expected: dict[str, Any]) -> set[int]:
    """Steps with a final name: what stands under a temporary one alone is a save that never ended."""
    partial = set(expected["partials"])
    return {int(step) for step, paths in expected["units"].items() if not set(paths) <= partial}


def test_a_plan_sees_every_step_and_says_which_of_them_restore(tree: str, roots: list[Path]) -> None:
    expected = EXPECTED[tree]
    run = run_of(prune("plan", *asked(roots)))
    assert {step["step"] for step in run["steps"]} == finished(expected)
    assert {orphan["path"] for orphan in run["orphans"]} == set(expected["partials"])
    healths = {step["step"]: {copy["health"] for copy in step["copies"]} for step in run["steps"]}
    for step in expected["complete"]:
        assert healths[step] <= RESTORABLE, (step, healths[step])
    for step in set(map(int, expected["damaged"])) & finished(expected) - HIDDEN.get(tree, set()):
        assert not healths[step] & RESTORABLE, (step, healths[step])
    for step in run["steps"]:
        assert len(step["copies"]) == len(roots)


def test_what_would_be_resumed_from_is_the_newest_whole_step(tree: str, roots: list[Path]) -> None:
    expected = EXPECTED[tree]
    candidate = run_of(prune("plan", *asked(roots)))["resume_candidate"]
    assert (candidate["step"], candidate["replica"]) == (expected["resume"], "primary")
    given = os.path.relpath(candidate["path"], roots[0])  # what a loader is given: TensorFlow's is a prefix, no file
    assert any(path == given or path.startswith(f"{given}.") for path in unit(expected, expected["resume"]))


def test_applying_leaves_the_newest_whole_steps_and_all_that_is_not_a_checkpoint(tree: str, roots: list[Path]) -> None:
    expected = EXPECTED[tree]
    before = [{step: dict(bytes_of(root, expected, step)) for step in finished(expected)} for root in roots]
    aside = [dict(bytes_aside(root, expected)) for root in roots]
    planned = run_of(prune("plan", *asked(roots)))

    done = run_of(prune("apply", *asked(roots)))

    deleted = {copy["step"] for copy in done["deleted"]}
    assert deleted <= {step["step"] for step in planned["steps"] if step["decision"] == "delete"}
    assert not deleted & set(expected["complete"][-KEEP:])
    assert not deleted & {step for step in finished(expected) if step >= expected["resume"]}
    for root, was, stood in zip(roots, before, aside, strict=True):
        assert dict(bytes_aside(root, expected)) == stood
        for step in finished(expected):
            assert dict(bytes_of(root, expected, step)) == ({} if step in deleted else was[step]), step
    assert not done["failed"]


# Steps that a trainer's own files name: the best by its metric, and all that Ray's snapshot lists.
SPOKEN_FOR = {"hf_trainer": {30}, "ray_train": {0, 1, 2, 3}}


def test_whole_steps_beyond_the_last_n_go_unless_a_trainers_file_speaks_for_them(tree: str, root: Path) -> None:
    expected = EXPECTED[tree]
    done = run_of(prune("apply", *asked([root])))
    held = {guarded["step"] for guarded in done["guarded"]}
    assert held == SPOKEN_FOR.get(tree, set())
    assert {copy["step"] for copy in done["deleted"]} == set(expected["complete"][:-KEEP]) - held


def test_a_second_pass_finds_nothing_more_to_do(tree: str, roots: list[Path]) -> None:
    run_of(prune("apply", *asked(roots)))
    again = run_of(prune("apply", *asked(roots)))
    assert again["deleted"] == []


def bytes_of(root: Path, expected: dict[str, Any], step: int) -> Iterator[tuple[str, str]]:
    for path in unit(expected, step):
        if os.path.lexists(root / path):
            yield from bytes_below(root, path)


def bytes_aside(root: Path, expected: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Foreign files, pointers and temporaries: nothing a young run's policy may touch."""
    for path in [*expected["foreign"], *expected["pointer_targets"], *expected["partials"]]:
        yield from bytes_below(root, path)
