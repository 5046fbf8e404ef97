"""Commands over more runs than anybody reads one by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prune.settings.schema import MANY_RUNS
from tests.cli.command import prune
from tests.trees.build import step_files

RUNS = MANY_RUNS + 2


@pytest.fixture
def config(tmp_path: Path) -> Path:
    for number in range(RUNS):
        step_files(tmp_path / "ckpt" / f"run-{number:02}", range(1, 6 if number == 7 else 3))
    path = tmp_path / "prune.toml"
    path.write_text(f'[[runs]]\nname = "{{run}}"\nprimary = "{tmp_path}/ckpt/{{run}}"\n[runs.keep]\nlast = 2\n')
    return path


def test_the_preview_of_a_fleet_tells_the_runs_that_matter_and_the_sums(config: Path) -> None:
    done = prune("plan", "--config", config)
    assert done.code == 0
    assert f"{RUNS} runs: 3 steps of 1 runs would go" in done.out
    assert "run-07" in done.out
    assert "run-08" not in done.out
    assert f"{config.parent}/ckpt: {RUNS} runs" in done.out


def test_the_document_of_a_fleet_can_be_reviewed_and_applied(config: Path) -> None:
    done = prune("plan", "--config", config, "--json", "--out", config.parent / "plan.json")
    assert done.json == json.loads((config.parent / "plan.json").read_text())
    assert len(done.json["runs"]) == RUNS
    applied = prune("apply", config.parent / "plan.json", "--yes", "--json")
    assert applied.code == 0, applied.err
    assert applied.json["plan"] == done.json["id"]
    assert {run["run"] for run in applied.json["runs"] if run["deleted"]} == {"run-07"}


def test_an_edited_document_of_a_fleet_is_refused(config: Path) -> None:
    plan = config.parent / "plan.json"
    prune("plan", "--config", config, "--out", plan)
    plan.write_text(plan.read_text().replace('"decision": "keep"', '"decision": "delete"', 1))
    assert prune("apply", plan, "--yes").code == 2


def test_status_of_a_fleet_is_worst_first_with_sums_by_volume(config: Path) -> None:
    (config.parent / "ckpt" / "run-31" / "step_0002.pt").write_bytes(b"")
    done = prune("status", "--config", config)
    lines = [line.split()[0] for line in done.out.splitlines() if line.startswith("run-")]
    assert lines == ["run-31", "run-07"]
    document = prune("status", "--config", config, "--json").json
    assert len(document["runs"]) == RUNS
    (volume,) = document["volumes"]
    assert volume["runs"] == RUNS
    assert volume["bytes_to_free"] > 0
    assert volume["place"] == f"{config.parent}/ckpt"


def test_runs_can_be_chosen_by_a_pattern(config: Path) -> None:
    assert [
        run["run"] for run in prune("status", "--config", config, "--match", "run-0[78]", "--json").json["runs"]
    ] == [
        "run-07",
        "run-08",
    ]
    assert "run-07 (step-file)" in prune("plan", "--config", config, "--match", "*-07").out
    refused = prune("plan", "--config", config, "--match", "nothing-*")
    assert refused.code == 2
    assert "none of 52 runs" in refused.err


def test_shards_of_a_fleet_share_it_out(config: Path) -> None:
    told = [prune("apply", "--config", config, "--yes", "--json", "--shard", f"{index}/3").json for index in (1, 2, 3)]
    names = [run["run"] for shard in told for run in shard["runs"]]
    assert sorted(names) == [f"run-{number:02}" for number in range(RUNS)]
    assert sum(len(run["deleted"]) for shard in told for run in shard["runs"]) == 3


@pytest.mark.parametrize("verb", ["plan", "verify"])
def test_what_a_shards_task_would_do_can_be_previewed_and_verified(config: Path, verb: str) -> None:
    told = [prune(verb, "--config", config, "--json", "--shard", f"{index}/3").json for index in (1, 2, 3)]
    assert sorted(run["run"] for shard in told for run in shard["runs"]) == [f"run-{n:02}" for n in range(RUNS)]
    assert prune(verb, "--config", config, "--shard", "4/3").code == 2


def test_a_shard_without_runs_or_without_mirrors_is_done_at_once(tmp_path: Path) -> None:
    tables = ""
    for number in (1, 2, 3):
        step_files(tmp_path / f"P{number}", range(1, 4))
        mirrors = f'mirrors = ["{tmp_path}/M"]' if number == 3 else ""
        tables += f'[[runs]]\nname = "run-{number}"\nprimary = "{tmp_path}/P{number}"\n{mirrors}\n'
    (tmp_path / "M").mkdir()
    (tmp_path / "prune.toml").write_text(tables)
    for verb, count in (("plan", 3), ("verify", 3), ("mirror", 1)):
        told = [prune(verb, "--config", tmp_path / "prune.toml", "--json", "--shard", f"{n}/5") for n in range(1, 6)]
        assert [done.code for done in told] == [0] * 5, verb
        assert sum(len(done.json["runs"]) for done in told) == count


def test_a_fleet_that_stands_still_costs_few_writes_of_history(config: Path) -> None:
    from prune.journal import open_journal
    from prune.journal.sqlite import SqliteJournal

    prune("apply", "--config", config, "--yes")
    writes = []
    add = SqliteJournal.add
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteJournal, "add", lambda self, events: (writes.append(len(events)), add(self, events)))
        prune("apply", "--config", config, "--yes")
    assert sum(writes) == RUNS
    assert len(writes) < 5
    journal = open_journal(f"sqlite:///{config.parent}/state.db", write=False)
    assert len(journal.history(kinds=("pass",))) == 2 * RUNS
    assert journal.broken_link() is None


def test_a_finished_run_falls_to_its_final_policy_in_the_preview_and_when_the_plan_is_carried_out(
    tmp_path: Path,
) -> None:
    root = step_files(tmp_path / "done", range(1, 6), seconds=30 * 86_400)
    config = tmp_path / "final.toml"
    config.write_text(
        f'state = "sqlite:///{tmp_path}/s.db"\n[[runs]]\nname = "done"\nprimary = "{root}"\nfinished_after = "7d"\n'
        "[runs.keep]\nlast = 4\n[runs.final]\nlast = 1\n"
    )
    seen = prune("plan", "--config", config, "--out", tmp_path / "plan.json")
    assert "finished: no new step for" in seen.out
    assert prune("apply", tmp_path / "plan.json", "--yes").code == 0
    assert sorted(path.name for path in root.glob("*.pt")) == ["step_0005.pt"]
