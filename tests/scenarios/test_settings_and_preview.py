"""A policy that cannot be meant deletes nothing, and a preview is the deed itself, not carried out."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import prune
from tests.scenarios.asking import apply, plan
from tests.trees.build import HOUR, age, mirrored, names, snapshot, step_dirs, step_files

pytestmark = pytest.mark.usefixtures("alone")

DAY = 24 * HOUR


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    primary = step_files(tmp_path / "P", range(1, 31))
    return [primary, mirrored(primary, tmp_path / "M")]


@pytest.mark.parametrize("last", ["0", "-1", '""', "", '"3x"', '"${KEEP}"', "2.5", "true", "[3]"])
def test_a_number_of_steps_that_cannot_be_meant_is_refused_by_its_key(
    pair: list[Path], tmp_path: Path, last: str
) -> None:
    config = tmp_path / "prune.toml"
    config.write_text(f'[[runs]]\nname = "t"\nprimary = "{pair[0]}"\n[runs.keep]\nlast = {last}\n')
    done = prune("apply", "--yes", "--config", config)
    assert done.code == 2
    assert "last" in done.err or last == "", done.err
    assert str(config) in done.err
    assert len(names(pair[0])) == 30


@pytest.mark.parametrize("last", ["0", "-1", "", "3x", "all", "1e3", "٣"])
def test_a_number_on_the_command_line_that_cannot_be_meant_is_refused(pair: list[Path], last: str) -> None:
    done = prune("apply", "--yes", "--primary", pair[0], f"--keep-last={last}")
    assert done.code == 2
    assert "--keep-last" in done.err
    assert len(names(pair[0])) == 30


def test_a_huge_number_of_steps_is_valid_and_deletes_nothing(pair: list[Path]) -> None:
    assert apply(*pair, keep=1_000_000).deleted == set()


def test_no_age_rule_takes_the_newest_good_step_however_old_it_is(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", (100, 200, 300))
    for path in primary.iterdir():
        age(path, 60 * DAY)
    for rule in ("--keep-within=1h", "--keep-daily=1", "--keep-every-time=1d"):
        assert plan(primary, keep=1, more=[rule]).candidate == 300
    assert 300 not in apply(primary, keep=1, more=["--keep-within=1h"]).deleted
    assert (primary / "step_0300.pt").exists()


@pytest.mark.parametrize("build", [step_files, step_dirs])
def test_what_is_planned_is_what_is_done_to_the_step_and_the_byte(tmp_path: Path, build) -> None:
    primary = build(tmp_path / "P", range(10, 470, 10))
    mirror = mirrored(primary, tmp_path / "M")

    planned, done = plan(primary, mirror, keep=12), apply(primary, mirror, keep=12)

    assert planned.deleted == done.deleted == set(range(10, 350, 10))
    assert planned.run["summary"]["delete"] == 34
    freed = {"primary": 0, "mirror": 0}
    for copy in done.run["deleted"]:
        freed[copy["replica"]] += copy["bytes"]
    assert freed == planned.run["summary"]["bytes_to_free"]
    assert names(primary) == names(mirror)
    assert len(names(primary)) == 12


@pytest.mark.parametrize("verb", ["plan", "status", "verify", "explain"])
def test_looking_changes_nothing_anywhere(pair: list[Path], tmp_path: Path, verb: str) -> None:
    roots = ["--primary", pair[0], "--mirror", pair[1]]
    before = snapshot(tmp_path)
    words = ["25", *roots] if verb == "explain" else [*roots]
    assert prune(verb, *words).code == 0
    after = snapshot(tmp_path)
    for name in ("state.db", "state.db-wal", "state.db-shm", "."):
        after.pop(name, None)
        before.pop(name, None)
    assert after == before


def test_a_preview_works_where_nothing_can_be_written_and_applying_is_blocked(pair: list[Path], tmp_path: Path) -> None:
    for root in pair:
        if subprocess.run(["mount", "--bind", "-o", "ro", root, root], capture_output=True).returncode != 0:
            pytest.skip("a read-only bind mount needs root")
        subprocess.run(["mount", "-o", "remount,ro,bind", root], check=True)
    try:
        planned, done = plan(*pair, keep=3), apply(*pair, keep=3)
    finally:
        for root in pair:
            subprocess.run(["umount", "-l", root], check=True)
    assert (planned.code, planned.blocked) == (3, "read-only")
    assert (done.code, done.blocked, done.deleted) == (3, "read-only", set())
    assert planned.candidate == 30
    assert planned.guards == {step: {"blocked"} for step in range(1, 28)}


def test_the_words_of_a_preview_do_not_claim_that_anything_was_done(pair: list[Path]) -> None:
    done = prune("plan", "--primary", pair[0], "--keep-last", "3")
    assert "27 to delete" in done.out
    assert "deleted" not in done.out.lower()


def reviewed(pair: list[Path], tmp_path: Path) -> Path:
    plan_file = tmp_path / "plan.json"
    assert prune("plan", "--primary", pair[0], "--mirror", pair[1], "--keep-last", "3", "--out", plan_file).code == 0
    return plan_file


def test_a_reviewed_plan_is_never_exceeded_though_a_fresh_one_would_delete_more(
    pair: list[Path], tmp_path: Path
) -> None:
    plan_file = reviewed(pair, tmp_path)
    for root in pair:
        step_files(root, range(31, 41), seconds=HOUR)
    assert prune("apply", plan_file, "--yes").code == 0
    assert names(pair[0]) == names(pair[1]) == {f"step_{step:04d}.pt" for step in range(28, 41)}


def test_a_step_pinned_after_the_review_stays(pair: list[Path], tmp_path: Path) -> None:
    plan_file = reviewed(pair, tmp_path)
    prune("pin", "5", "--primary", pair[0], "--mirror", pair[1])
    done = prune("apply", plan_file, "--yes", "--json")
    assert done.code == 0
    assert {(held["step"], held["guard"]) for held in done.json["runs"][0]["guarded"]} == {(5, "pinned")}
    assert "step_0005.pt" in names(pair[0]) & names(pair[1])


def test_a_plan_made_before_a_mirror_was_added_deletes_nothing_there(pair: list[Path], tmp_path: Path) -> None:
    plan_file = tmp_path / "plan.json"
    prune("plan", "--primary", pair[0], "--keep-last", "3", "--out", plan_file)
    done = prune("apply", plan_file, "--yes", "--primary", pair[0], "--mirror", pair[1], "--keep-last", "3")
    assert done.code == 2
    assert "is for other roots" in done.err
    assert len(names(pair[1])) == 30


def test_the_same_plan_applied_twice_finds_its_steps_gone(pair: list[Path], tmp_path: Path) -> None:
    plan_file = reviewed(pair, tmp_path)
    prune("apply", plan_file, "--yes")
    again = prune("apply", plan_file, "--yes", "--json")
    assert again.code == 0
    assert again.json["runs"][0]["deleted"] == []


def test_json_and_table_speak_of_the_same_steps(pair: list[Path]) -> None:
    words = ("--primary", pair[0], "--mirror", pair[1], "--keep-last", "3")
    table = prune("plan", *words).out
    summary = prune("plan", "--json", *words).json["runs"][0]["summary"]
    assert f"{summary['delete']} to delete and {summary['keep']} to keep" in table


def test_a_plan_is_the_same_however_the_directory_is_ordered(tmp_path: Path) -> None:
    """Entries made in another order are listed in another order."""
    ascending = step_files(tmp_path / "a" / "P", range(1, 30))
    descending = tmp_path / "b" / "P"
    descending.mkdir(parents=True)
    for path in sorted(ascending.iterdir(), reverse=True):
        (descending / path.name).write_bytes(path.read_bytes())
        os.utime(descending / path.name, ns=(path.stat().st_mtime_ns,) * 2)
    plans = [plan(root, keep=5, more=["--keep-every", "7"]) for root in (ascending, descending)]
    assert plans[0].deleted == plans[1].deleted
    assert plans[0].kept == plans[1].kept


RULES = [
    ((), {90, 100}),
    (("--keep-every", "30"), {30, 60, 90, 100}),
    (("--keep-within", "3d"), {70, 80, 90, 100}),
    (("--keep-every-time", "4d"), {10, 30, 70, 90, 100}),
    (("--keep-daily", "3"), {80, 90, 100}),
    (("--keep-weekly", "2"), {10, 40, 90, 100}),
    (("--keep-best", "loss:min"), {20, 90, 100}),
    (("--keep-best", "loss:max:2"), {50, 70, 90, 100}),
    (("--keep-every", "30", "--keep-within", "3d", "--keep-best", "loss:min"), {20, 30, 60, 70, 80, 90, 100}),
]


@pytest.mark.parametrize(("rules", "kept"), RULES, ids=[" ".join(rules) or "last" for rules, _ in RULES])
def test_every_rule_over_the_same_ten_days_keeps_its_own_and_the_union(
    tmp_path: Path, rules: tuple[str, ...], kept: set[int]
) -> None:
    """One step a day at noon UTC from a Monday on; `loss` is lowest at 20, with ties, a NaN and one missing."""
    primary = step_files(tmp_path / "P", range(10, 110, 10))
    losses = {10: 3.0, 20: 0.5, 30: float("nan"), 40: 3.0, 50: 4.0, 60: 2.0, 70: 4.0, 80: 1.0, 90: 1.0}
    (primary / "metrics.json").write_text(json.dumps([{"step": step, "loss": loss} for step, loss in losses.items()]))
    monday = 1_736_164_800  # 2025-01-06; weeks and other periods are counted from 1970, a Thursday
    for place, path in enumerate(sorted(primary.glob("*.pt"))):
        os.utime(path, (monday + place * DAY,) * 2)
    planned = plan(primary, keep=2, more=rules)
    assert planned.kept == kept, {step["step"]: step["reasons"] for step in planned.run["steps"]}


def test_a_metric_that_is_never_a_number_is_never_best(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(10, 60, 10))
    (primary / "metrics.json").write_text(json.dumps([{"step": step, "loss": float("nan")} for step in (10, 20, 30)]))
    assert plan(primary, keep=2, more=["--keep-best", "loss:min"]).kept == {40, 50}


def test_a_metric_that_no_step_has_keeps_them_all_and_is_told(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(10, 60, 10))
    planned = plan(primary, keep=2, more=["--keep-best", "loss:min"])
    assert planned.deleted == set()
    assert "metric-missing" in planned.attention


def test_a_best_step_never_costs_the_newest_ones(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(10, 60, 10))
    (primary / "metrics.json").write_text(json.dumps({str(step): {"loss": step} for step in range(10, 60, 10)}))
    assert plan(primary, keep=2, more=["--keep-best", "loss:min:2"]).kept == {10, 20, 40, 50}
