"""Budgets on real trees: shown before anything is done, and never past floors and guards."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from prune.settings.load import load
from tests.cli.command import prune
from tests.trees.build import mirrored, names, step_files

SIZE = 64 * 1024  # of a step, and a little more


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path}/state.db")


def fleet(tmp_path: Path, fleet_table: str, **runs: str) -> Path:
    """Runs of eight steps that keep six, three where a budget asks for it; the older ones stood still longer."""
    text = f"[fleet]\n{fleet_table}\n"
    for number, (name, more) in enumerate(runs.items()):
        step_files(tmp_path / name, range(1, 9), size=SIZE, seconds=7200 + 1000 * (len(runs) - number))
        text += f'[[runs]]\nname = "{name}"\nprimary = "{tmp_path}/{name}"\n{more}\n[runs.keep]\nlast = 6\n'
        text += "[runs.pressure]\nkeep_last = 3\n" if "no-floor" not in name else ""
    path = tmp_path / "prune.toml"
    path.write_text(text)
    return path


def budget(steps: float) -> str:
    return f'"{int(steps * (SIZE + 4096))}"'


def test_the_preview_shows_what_a_budget_takes_before_it_is_applied(tmp_path: Path) -> None:
    config = fleet(tmp_path, f"budget = {budget(10.5)}", old="", new="")
    done = prune("plan", "--config", config, "--json")
    old, new = done.json["runs"]
    assert (old["keep"]["last"], new["keep"]["last"]) == (4, 6)
    assert old["notes"][0].startswith("budget: the fleet keeps to")
    assert "keep.last is 4 here" in old["notes"][0]
    assert len(names(tmp_path / "old")) == 8
    applied = prune("apply", "--config", config, "--yes", "--json")
    assert applied.code == 0, applied.err
    assert [len(names(tmp_path / name)) for name in ("old", "new")] == [4, 6]


def test_a_fleet_within_its_budget_gives_nothing(tmp_path: Path) -> None:
    config = fleet(tmp_path, 'budget = "1GB"', old="", new="")
    assert [run["keep"]["last"] for run in prune("plan", "--config", config, "--json").json["runs"]] == [6, 6]


def test_priority_comes_before_age(tmp_path: Path) -> None:
    config = fleet(tmp_path, f"budget = {budget(10.5)}", old="priority = 5", new="")
    assert [run["keep"]["last"] for run in prune("plan", "--config", config, "--json").json["runs"]] == [6, 4]


def test_nobody_gives_below_its_floor_and_the_rest_is_said_loudly(tmp_path: Path) -> None:
    config = fleet(tmp_path, f"budget = {budget(4)}", old="", new="", **{"no-floor": ""})
    done = prune("apply", "--config", config, "--yes", "--json")
    assert [len(names(tmp_path / name)) for name in ("old", "new", "no-floor")] == [3, 3, 6]
    kinds = [note["kind"] for run in done.json["runs"] for note in run["attention"]]
    assert kinds == ["over-budget"]
    assert "no run may give more: 1 of its 3 runs has no pressure.keep_last" in str(done.json)


def test_a_guard_holds_whatever_the_budget(tmp_path: Path) -> None:
    config = fleet(tmp_path, f"budget = {budget(4)}", old="", new="")
    assert prune("pin", "4", "--config", config, "--run", "old").code == 0
    assert prune("apply", "--config", config, "--yes").code == 0
    assert "step_0004.pt" in names(tmp_path / "old")


def test_a_group_shares_its_own_budget_and_others_are_left_alone(tmp_path: Path) -> None:
    groups = f"groups = {{vision = {budget(3.5)}}}"
    config = fleet(tmp_path, groups, a='group = "vision"', b="", c='group = "speech"')
    assert [run["keep"]["last"] for run in prune("plan", "--config", config, "--json").json["runs"]] == [3, 6, 6]


def test_a_group_of_nobody_is_refused(tmp_path: Path) -> None:
    config = fleet(tmp_path, 'groups = {vison = "1GB"}', a='group = "vision"')
    done = prune("plan", "--config", config)
    assert done.code == 2
    assert "Did you mean 'vision'?" in done.err


def test_one_run_alone_is_still_measured_against_the_whole_fleet(tmp_path: Path) -> None:
    config = fleet(tmp_path, f"budget = {budget(10.5)}", old="", new="")
    assert len(load(str(config), None, ["old"]).fleet) == 2
    (run,) = prune("plan", "--config", config, "--run", "old", "--json").json["runs"]
    assert run["keep"]["last"] == 4
    assert prune("apply", "--config", config, "--run", "old", "--yes").code == 0
    assert len(names(tmp_path / "old")) == 4


def test_a_reviewed_plan_is_carried_out_as_it_was_shown(tmp_path: Path) -> None:
    config = fleet(tmp_path, f"budget = {budget(10.5)}", old="", new="")
    assert prune("plan", "--config", config, "--out", tmp_path / "plan.json").code == 0
    done = prune("apply", tmp_path / "plan.json", "--yes", "--json")
    assert done.code == 0, done.err
    assert [len(names(tmp_path / name)) for name in ("old", "new")] == [4, 6]


def test_mirrors_count_on_the_volume_they_lie_on(tmp_path: Path) -> None:
    config = fleet(tmp_path, f"budget = {budget(10.5)}", old=f'mirrors = ["{tmp_path}/M"]')
    mirrored(tmp_path / "old", tmp_path / "M")
    assert prune("plan", "--config", config, "--json").json["runs"][0]["keep"]["last"] == 5


def test_the_table_of_a_run_names_its_group_and_priority_again(tmp_path: Path) -> None:
    from prune.settings.plain import run_table

    config = fleet(tmp_path, 'budget = "1GB"', a='group = "vision"\npriority = -2')
    table = run_table(load(str(config)).runs[0])
    assert (table["group"], table["priority"]) == ("vision", -2)


def test_a_daemon_looks_the_fleet_up_once_for_all_its_runs_and_anew_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prune.fleet import allowance

    config = fleet(tmp_path, f"budget = {budget(10.5)}", old="", new="")
    looks: list[int] = []
    real = allowance.allowances
    monkeypatch.setattr(allowance, "allowances", lambda *a, **k: (looks.append(1), real(*a, **k))[1])
    now = [time.time_ns()]
    allowing = allowance.Allowing(lambda: now[0])
    assert [allowing.of(load(str(config))).lowered for _ in range(3)] == [{"old": 4}] * 3
    assert len(looks) == 1
    now[0] += allowance.KEPT_FOR_NS
    allowing.of(load(str(config)))
    assert len(looks) == 2
    config.write_text(config.read_text().replace('budget = "', 'budget = "1'))
    assert allowing.of(load(str(config))).lowered == {}
    assert len(looks) == 3
