"""A primary and its mirror: one policy, one set, and no delete that leans on what one side may not have."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.command import prune
from tests.scenarios.asking import apply, plan
from tests.trees.build import HOUR, age, mirrored, names, step_dirs, step_files, torch_zip

pytestmark = pytest.mark.usefixtures("alone")


def step_names(*steps: int) -> set[str]:
    return {f"step-{step}" for step in steps}


def copied(primary: Path, mirror: Path, *steps: int) -> None:
    for step in steps:
        shutil.copytree(primary / f"step-{step}", mirror / f"step-{step}", symlinks=True)


def test_a_mirror_that_was_away_is_waited_for_and_the_newest_common_step_goes_last(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(100, 700, 100))
    mirror = tmp_path / "M"

    away = apply(primary, mirror, keep=2)
    assert (away.code, away.blocked, away.deleted) == (3, "replica-unreachable", set())

    mirror.mkdir()
    copied(primary, mirror, 100, 200, 300)
    assert apply(primary, mirror, keep=2).deleted == {100}, "200 and 300 are the last two on both sides"
    copied(primary, mirror, 500)
    assert apply(primary, mirror, keep=2).deleted == {200}
    assert names(primary) >= step_names(300, 500)
    copied(primary, mirror, 600)
    assert apply(primary, mirror, keep=2).deleted == {300, 400}
    assert names(primary) == names(mirror) == step_names(500, 600)


def test_a_mirror_that_stays_away_stops_every_delete_and_is_named(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(100, 700, 100))
    planned = plan(primary, tmp_path / "M", keep=2)
    assert planned.code == 3
    assert planned.deleted == set()
    (block,) = planned.run["blocks"]
    assert (block["replica"], block["detail"]) == ("mirror", f"{tmp_path}/M: No such file or directory")


def test_the_number_decides_and_not_the_time_at_which_a_copier_wrote(tmp_path: Path) -> None:
    mirror = step_dirs(tmp_path / "M", range(100, 700, 100))
    primary = tmp_path / "P"
    primary.mkdir()
    copied(mirror, primary, 500, 600)
    age(mirror, 120)

    young = plan(primary, mirror, keep=2)
    assert young.guards == {step: {"in-flight"} for step in (100, 200, 300, 400)}
    assert "modified 2m" in young.run["steps"][0]["guards"][0]["detail"]
    assert apply(primary, mirror, keep=2).deleted == set()

    age(mirror, 480)  # six minutes later
    assert apply(primary, mirror, keep=2).deleted == {100, 200, 300, 400}
    assert names(primary) == names(mirror) == step_names(500, 600)
    assert plan(primary, mirror, keep=2).attention <= {"trainer-rotates"}


def test_a_guard_on_one_copy_keeps_the_step_on_every_replica(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(100, 700, 100))
    mirror = mirrored(primary, tmp_path / "M")
    age(mirror / "step-200" / "optim" / "state.pt", 3)

    done = apply(primary, mirror, keep=2)

    assert done.deleted == {100, 300, 400}
    assert "step-200" in names(primary) & names(mirror)


def test_of_three_replicas_the_slowest_sets_the_cutoff(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(100, 700, 100))
    near, far = mirrored(primary, tmp_path / "M1"), mirrored(primary, tmp_path / "M2")
    for step in (500, 600):
        shutil.rmtree(far / f"step-{step}")

    done = apply(primary, near, far, keep=2)

    assert done.deleted == {100, 200}
    assert names(primary) == names(near) == step_names(300, 400, 500, 600)
    assert names(far) == step_names(300, 400)


CONFIG = """
[[runs]]
name = "tiny"
primary = "{root}/P"
mirrors = [{{root = "{root}/M", name = "cloud", optional = true, max_lag = 200}}]
[runs.keep]
last = 2
"""


def test_an_optional_mirror_holds_nothing_back_keeps_its_own_newest_and_alarms_when_it_lags(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(100, 900, 100))
    mirror = tmp_path / "M"
    mirror.mkdir()
    copied(primary, mirror, 100, 200, 300, 400)
    config = tmp_path / "prune.toml"
    config.write_text(CONFIG.format(root=tmp_path))

    done = prune("apply", "--yes", "--config", config, "--json")

    run = done.json["runs"][0]
    assert done.code == 0
    assert {copy["step"] for copy in run["deleted"]} == {100, 200, 500, 600}
    assert names(primary) == step_names(300, 400, 700, 800)
    assert names(mirror) == step_names(300, 400), "no pass takes a replica's own newest"
    assert "mirror-behind" in {note["kind"] for note in run["attention"]}


def test_an_optional_mirror_that_is_away_is_told_and_blocks_nothing(tmp_path: Path) -> None:
    step_dirs(tmp_path / "P", range(100, 700, 100))
    config = tmp_path / "prune.toml"
    config.write_text(CONFIG.format(root=tmp_path))
    done = prune("apply", "--yes", "--config", config, "--json")
    assert done.code == 0
    assert {copy["step"] for copy in done.json["runs"][0]["deleted"]} == {100, 200, 300, 400}
    assert "replica-unreachable" in {note["kind"] for note in done.json["runs"][0]["attention"]}


def test_copies_of_a_step_that_differ_fill_no_slot(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 7))
    mirror = mirrored(primary, tmp_path / "M")
    path = mirror / "step_0006.pt"
    path.write_bytes(torch_zip(9000))
    age(path, 2 * HOUR)

    planned, done = plan(primary, mirror, keep=2), apply(primary, mirror, keep=2)

    assert "6" in planned.told("differs")
    assert done.deleted == {1, 2, 3}
    assert path.stat().st_size == len(torch_zip(9000)), "neither is overwritten"


def test_what_was_pruned_leaves_a_tombstone_on_every_replica(tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(1, 6))
    mirror = mirrored(primary, tmp_path / "M")
    apply(primary, mirror, keep=2)
    for root in (primary, mirror):
        text = (root / ".prune" / "tombstones").read_text()
        assert all(f'"step-{step}"' in text for step in (1, 2, 3))


def test_one_failing_copy_does_not_stop_the_others(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a file immutable")
    primary = step_files(tmp_path / "P", range(1, 7))
    mirror = mirrored(primary, tmp_path / "M")
    if os.system(f"chattr +i {mirror}/step_0002.pt 2>/dev/null") != 0:
        pytest.skip("this file system knows no immutable files")
    try:
        done = apply(primary, mirror, keep=2)
    finally:
        os.system(f"chattr -i {mirror}/step_0002.pt")

    assert done.code == 1
    assert [(failed["step"], failed["replica"]) for failed in done.run["failed"]] == [(2, "mirror")]
    assert "Operation not permitted" in done.run["failed"][0]["error"]
    assert done.deleted == {1, 2, 3, 4}, "the other copies are gone"
    assert "step_0002.pt" in names(mirror)
    assert apply(primary, mirror, keep=2).deleted == {2}, "the next pass takes what was left"
