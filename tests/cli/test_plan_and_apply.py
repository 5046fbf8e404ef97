"""The preview and the deed: one plan, previewed, reviewed, carried out."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from prune import engine
from prune.model import Outcome
from tests.cli.command import prune
from tests.trees import build

KEPT = {"step_0080.pt", "step_0090.pt", "step_0100.pt"}


@pytest.fixture
def on_pair(pair):
    return ("--primary", pair[0], "--mirror", pair[1], "--keep-last", "3")


def test_a_plan_says_what_would_go_and_changes_nothing(pair, on_pair, tmp_path):
    before = [build.snapshot(root) for root in pair]
    done = prune("plan", *on_pair)
    assert done.code == 0
    assert "keep the last 3 steps aligned on primary and mirror" in done.out
    assert "7 to delete and 3 to keep" in done.out
    assert [build.snapshot(root) for root in pair] == before
    assert not (tmp_path / "state.db").exists()


def test_the_json_of_a_plan_is_alone_on_stdout_and_to_the_letter(on_pair, pair):
    done = prune("plan", *on_pair, "--json")
    document = done.json
    assert (document["schema"], done.err) == ("prune.plan/1", "")
    run = document["runs"][0]
    assert (run["run"], run["layout"], run["keep"], run["cutoff"]) == ("ckpt", "step-file", {"last": 3}, 80)
    assert (run["blocked"], run["blocks"], run["orphans"], run["foreign"]) == (None, [], [], 0)
    assert [replica["name"] for replica in run["replicas"]] == ["primary", "mirror"]
    assert (run["resume_candidate"]["step"], run["resume_candidate"]["replica"]) == (100, "primary")
    assert [step["step"] for step in run["steps"]] == list(range(10, 110, 10))
    assert run["summary"]["delete"] == 7
    first = run["steps"][0]
    assert (first["decision"], first["copies"][0]["paths"]) == ("delete", ["step_0010.pt"])
    assert set(first["copies"][0]["identity"]) == {"dev", "ino", "size", "mtime_ns", "ctime_ns", "files"}
    assert first["copies"][0]["mtime"].endswith("Z")


def test_apply_deletes_the_same_set_on_both_sides(on_pair, pair):
    planned = prune("plan", *on_pair, "--json").json["runs"][0]["summary"]
    done = prune("apply", *on_pair, "--json")
    run = done.json["runs"][0]
    assert done.code == 0
    assert [build.names(root) for root in pair] == [KEPT, KEPT]
    assert len(run["deleted"]) == 2 * planned["delete"]
    freed = {"primary": 0, "mirror": 0}
    for copy in run["deleted"]:
        freed[copy["replica"]] += copy["bytes"]
    assert freed == planned["bytes_to_free"]
    assert all(copy["purged"] for copy in run["deleted"])


def test_a_reviewed_plan_needs_no_other_option(on_pair, pair, tmp_path):
    assert prune("plan", *on_pair, "--out", tmp_path / "plan.json").code == 0
    done = prune("apply", tmp_path / "plan.json", "--json")
    assert done.code == 0
    assert done.json["plan"] == json.loads((tmp_path / "plan.json").read_text())["id"]
    assert [build.names(root) for root in pair] == [KEPT, KEPT]


def test_a_reviewed_plan_beside_options_that_no_run_is_named_for_says_that_it_needs_none(
    on_pair, pair, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    prune("plan", *on_pair, "--out", tmp_path / "plan.json")
    done = prune("apply", tmp_path / "plan.json", "--keep-last", "1")
    assert done.code == 2
    assert "A plan file brings its own settings" in done.err
    assert len(build.names(pair[0])) == 10


def test_what_holds_a_step_on_several_replicas_is_told_once_and_by_their_names(on_pair, pair):
    os.symlink("step_0010.pt", pair[1] / "step_0005.pt")
    prune("pin", "20", *on_pair, "--reason", "paper")
    told = prune("apply", *on_pair).out.splitlines()
    assert [line.strip() for line in told if "held step 20" in line] == [
        f"held step 20 on mirror and primary: pinned: paper ({told_by(on_pair)})"
    ]
    assert any("held step 5 on mirror: linked" in line for line in told)


def told_by(on_pair):
    return prune("pins", *on_pair, "--json").json["pins"][0]["by"]


def test_a_reviewed_plan_deletes_at_most_what_it_says(on_pair, pair, tmp_path):
    prune("plan", *on_pair, "--out", tmp_path / "plan.json")
    for root in pair:
        build.step_files(root, [110], seconds=600)
    prune("apply", tmp_path / "plan.json")
    assert build.names(pair[0]) == {*KEPT, "step_0110.pt"}


@pytest.fixture
def configured(pair, tmp_path):
    """Writes a configuration that keeps so many, as if so many seconds from now."""

    def write(last, seconds=0.0):
        config = tmp_path / "prune.toml"
        config.write_text(
            f'[[runs]]\nname = "r"\nprimary = "{pair[0]}"\nmirrors = ["{pair[1]}"]\nkeep = {{last = {last}}}\n'
        )
        os.utime(config, (time.time() + seconds,) * 2)
        return ("--config", config)

    return write


def test_what_a_configuration_changed_after_the_review_keeps_stays(configured, pair, tmp_path):
    prune("plan", *configured(2), "--out", tmp_path / "plan.json")
    configured(8, seconds=5)
    done = prune("apply", tmp_path / "plan.json")
    assert f"{tmp_path / 'prune.toml'} was changed after {tmp_path / 'plan.json'} was made" in done.err
    assert build.names(pair[0]) == {f"step_{step:04}.pt" for step in range(30, 110, 10)}


def test_what_a_policy_file_changed_after_the_review_keeps_stays(pair, tmp_path):
    policy, config = tmp_path / "ours.toml", tmp_path / "prune.toml"
    policy.write_text("[keep]\nlast = 2\n")
    config.write_text(f'[[runs]]\nname = "r"\nprimary = "{pair[0]}"\nmirrors = ["{pair[1]}"]\npolicy = "./ours.toml"\n')
    prune("plan", "--config", config, "--out", tmp_path / "plan.json")
    policy.write_text("[keep]\nlast = 8\n")
    os.utime(policy, (time.time() + 5,) * 2)
    done = prune("apply", tmp_path / "plan.json")
    assert f"{policy} was changed after" in done.err.replace("/./", "/")
    assert build.names(pair[0]) == {f"step_{step:04}.pt" for step in range(30, 110, 10)}


def test_a_configuration_written_before_the_review_and_put_in_its_place_after_it_counts(configured, pair, tmp_path):
    prune("plan", *configured(2), "--out", tmp_path / "plan.json")
    config, spare = tmp_path / "prune.toml", tmp_path / "next.toml"
    spare.write_text(config.read_text().replace("last = 2", "last = 8"))
    os.utime(spare, (time.time() - 3600,) * 2)
    spare.rename(config)
    prune("apply", tmp_path / "plan.json")
    assert len(build.names(pair[0])) == 8


def test_a_configuration_changed_after_the_review_to_keep_less_deletes_no_more(configured, pair, tmp_path):
    prune("plan", *configured(8), "--out", tmp_path / "plan.json")
    configured(2, seconds=5)
    assert prune("apply", tmp_path / "plan.json").code == 0
    assert len(build.names(pair[0])) == 8


def test_a_reviewed_plan_keeps_what_its_own_options_say_over_an_older_configuration(configured, pair, tmp_path):
    prune("plan", *configured(8, seconds=-5), "--keep-last", "3", "--out", tmp_path / "plan.json")
    done = prune("apply", tmp_path / "plan.json")
    assert (done.code, "was changed" in done.err) == (0, False)
    assert build.names(pair[0]) == KEPT


def test_a_reviewed_plan_whose_configuration_went_since_is_carried_out(configured, pair, tmp_path):
    prune("plan", *configured(3, seconds=-5), "--out", tmp_path / "plan.json")
    (tmp_path / "prune.toml").unlink()
    assert prune("apply", tmp_path / "plan.json").code == 0
    assert build.names(pair[0]) == KEPT


def test_a_configuration_broken_since_the_review_deletes_nothing(configured, pair, tmp_path):
    prune("plan", *configured(3), "--out", tmp_path / "plan.json")
    configured('"x', seconds=5)
    done = prune("apply", tmp_path / "plan.json")
    assert (done.code, str(tmp_path / "prune.toml") in done.err) == (2, True)
    assert len(build.names(pair[0])) == 10


def test_a_named_pipe_that_nobody_writes_a_plan_to_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = prune("apply", tmp_path / "pipe")
    assert (done.code, "is no plan" in done.err) == (2, True)


def test_a_plan_that_was_edited_by_hand_is_refused(on_pair, pair, tmp_path):
    prune("plan", *on_pair, "--out", tmp_path / "plan.json")
    text = (tmp_path / "plan.json").read_text().replace('"decision": "keep"', '"decision": "delete"')
    (tmp_path / "plan.json").write_text(text)
    done = prune("apply", tmp_path / "plan.json")
    assert done.code == 2
    assert "was changed after it was made" in done.err
    assert len(build.names(pair[0])) == 10


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"schema": "prune.plan/2", "id": "x"}', "prune.plan/2"),
        ('{"schema": "prune.result/1"}', "prune.result/1"),
        ("{}", "names no schema"),
        ("[1]", "names no schema"),
        ("not json", "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_plan_of_this_version_is_refused(tmp_path, text, words):
    (tmp_path / "plan.json").write_text(text)
    done = prune("apply", tmp_path / "plan.json")
    assert done.code == 2
    assert words in done.err


def test_a_plan_for_other_roots_is_refused(on_pair, pair, tmp_path):
    prune("plan", *on_pair, "--out", tmp_path / "plan.json")
    other = build.step_files(tmp_path / "other/ckpt", range(10, 110, 10))
    done = prune("apply", tmp_path / "plan.json", "--primary", other, "--keep-last", "3")
    assert done.code == 2
    assert "is for other roots" in done.err


def test_a_plan_file_is_never_written_among_checkpoints(on_pair, pair):
    done = prune("plan", *on_pair, "--out", pair[0] / "plan.json")
    assert done.code == 2
    assert "lies in the root" in done.err


def test_a_mirror_that_is_not_there_blocks(pair, tmp_path):
    args = ("--primary", pair[0], "--mirror", tmp_path / "unmounted", "--keep-last", "3")
    plan, apply = prune("plan", *args, "--json"), prune("apply", *args)
    assert (plan.code, apply.code) == (3, 3)
    assert plan.json["runs"][0]["blocked"]["block"] == "replica-unreachable"
    assert {step["decision"] for step in plan.json["runs"][0]["steps"]} <= {"keep", "guarded"}
    assert "BLOCKED replica-unreachable" in apply.out
    assert len(build.names(pair[0])) == 10


def test_a_block_is_told_in_full_once_and_not_at_every_step(pair, on_pair, tmp_path):
    prune("apply", *on_pair)
    build.step_files(pair[0], range(110, 150, 10))
    build.step_files(pair[1], range(110, 150, 10))
    pair[1].joinpath(".prune").rename(tmp_path / "lost")
    for done in (prune("plan", *on_pair), prune("apply", *on_pair)):
        assert done.code == 3
        assert done.out.count("has lost its identity") == 1
    assert "guarded   blocked: volume-changed" in prune("plan", *on_pair).out
    assert "held 4 steps that the policy would delete" in done.out


def test_attention_alone_is_told_by_seven_only_when_strict(pair):
    args = ("--primary", pair[0], "--mirror", pair[1], "--keep-last", "30")
    assert prune("plan", *args).code == 0
    done = prune("plan", *args, "--strict")
    assert done.code == 7
    assert "not-aligned" in done.out


def test_quiet_says_nothing(on_pair):
    done = prune("plan", *on_pair, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_apply_spares_a_primary_with_room_enough(on_pair, pair):
    done = prune("apply", *on_pair, "--if-free-below", "1KB", "--json")
    assert done.code == 0
    assert done.json["runs"][0]["deleted"] == []
    assert len(build.names(pair[0])) == 10
    assert "left alone, since 1KB or more is free on the primary: ckpt" in done.err
    prune("apply", *on_pair, "--if-free-below", "99.9%")
    assert build.names(pair[0]) == KEPT


def test_every_run_belongs_to_exactly_one_shard(pair, tmp_path):
    config = tmp_path / "prune.toml"
    roots = [build.step_files(tmp_path / "fleet" / name, range(10, 60, 10)) for name in ("a", "b", "c", "d", "e")]
    config.write_text(f'[[runs]]\nprimary = "{tmp_path}/fleet/{{run}}"\n[runs.keep]\nlast = 2\n')
    first = prune("apply", "--config", config, "--shard", "1/2", "--json").json
    second = prune("apply", "--config", config, "--shard", "2/2", "--json").json
    names = [run["run"] for run in (*first["runs"], *second["runs"])]
    assert sorted(names) == ["a", "b", "c", "d", "e"]
    assert all(len(build.names(root)) == 2 for root in roots)
    assert prune("apply", "--config", config, "--shard", "3/2").code == 2


def test_a_signal_ends_with_its_code_after_the_step_in_hand(on_pair, monkeypatch):
    def interrupted(settings, *, reviewed, conduct):
        os.kill(os.getpid(), signal.SIGTERM)
        assert conduct.stop
        return Outcome("some-plan", ())

    monkeypatch.setattr(engine, "apply", interrupted)
    assert prune("apply", *on_pair).code == 143


def test_metrics_of_a_pass_are_written_for_a_textfile_collector(on_pair, tmp_path):
    prune("apply", *on_pair, "--metrics-file", tmp_path / "prune.prom")
    text = (tmp_path / "prune.prom").read_text()
    assert 'prune_deleted_steps_total{run="ckpt"} 7.0' in text
    assert 'prune_resume_candidate_step{run="ckpt"} 100.0' in text


def test_names_that_no_terminal_can_show_are_escaped(tmp_path):
    root = tmp_path / "a\nb"
    build.step_files(root, range(10, 60, 10))
    done = prune("plan", "--primary", root, "--keep-last", "3")
    assert done.code == 0
    assert "a\\nb" in done.out


@pytest.mark.parametrize(("answer", "left"), [("n", 10), ("y", 3)])
def test_a_person_at_a_terminal_is_shown_the_plan_and_asked(pair, on_pair, answer, left):
    words = [sys.executable, "-c", "from prune.cli import main; main()", "apply", *map(str, on_pair)]
    line = shlex.join(words)
    done = subprocess.run(["script", "-qec", line, "/dev/null"], input=f"{answer}\n", capture_output=True, text=True)
    assert "Delete 7 steps? [y/N]" in done.stdout
    assert done.stdout.index("to delete") < done.stdout.index("[y/N]")
    assert len(build.names(pair[0])) == left


def test_without_a_terminal_or_with_yes_nobody_is_asked(pair, on_pair):
    assert "[y/N]" not in prune("apply", *on_pair, "--yes").err
    assert build.names(pair[0]) == KEPT
