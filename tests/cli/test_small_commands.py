"""Commands that do one thing: pins, the trash, history, explanations, a beginning."""

from __future__ import annotations

import json
import tomllib

import pytest

from prune.cli.files import write_whole
from tests.cli.command import prune
from tests.faults.filesystems import read_only
from tests.trees import build


@pytest.fixture
def on_pair(pair):
    return ("--primary", pair[0], "--mirror", pair[1], "--keep-last", "3")


# --- pins --------------------------------------------------------------------------------------------------------


def test_a_pinned_step_stays_on_every_replica_until_it_is_unpinned(pair, on_pair):
    assert prune("pin", "20", *on_pair, "--reason", "for the paper").code == 0
    pins = prune("pins", *on_pair, "--json").json["pins"]
    assert [(pin["step"], pin["reason"]) for pin in pins] == [(20, "for the paper")]
    assert pins[0]["replicas"] == ["primary", "mirror"]
    prune("apply", *on_pair)
    assert all("step_0020.pt" in build.names(root) for root in pair)
    assert prune("unpin", "step_0020.pt", *on_pair).code == 0
    prune("apply", *on_pair)
    assert not any("step_0020.pt" in build.names(root) for root in pair)
    assert prune("unpin", "20", *on_pair).code == 2


def test_a_pin_that_a_read_only_mirror_never_had_is_taken_off(pair, on_pair):
    assert prune("apply", *on_pair).code == 0
    with read_only(pair[1]):
        assert prune("pin", "80", *on_pair).code == 0
        assert prune("unpin", "80", *on_pair).code == 0
    assert prune("pins", *on_pair, "--json").json["pins"] == []


def test_a_pin_that_cannot_be_taken_off_on_one_replica_is_told_with_where_it_is_off(pair, on_pair):
    assert prune("pin", "80", *on_pair).code == 0
    with read_only(pair[1]):
        done = prune("unpin", "80", *on_pair)
    assert done.code == 1
    assert f"the pin of step 80 stays: {pair[1]}/.prune/pins: Read-only file system; it is off primary" in done.err
    assert prune("unpin", "80", *on_pair).code == 0


def test_a_pin_on_a_step_that_nobody_holds_is_set_and_said(pair, on_pair):
    done = prune("pin", "2000", *on_pair)
    assert done.code == 0
    assert "holds step 2000 now" in done.err
    assert "holds step" not in prune("pin", "20", *on_pair).err
    assert prune("pin", "2000", *on_pair, "--strict").code == 7


@pytest.mark.parametrize("verb", ["pin", "unpin", "explain"])
def test_a_number_too_long_for_any_step_is_refused_before_anything_is_written(pair, on_pair, verb):
    done = prune(verb, "9" * 23, *on_pair)
    assert done.code == 2
    assert "is no step" in done.err
    assert "is no step" in prune("history", "--step", "9" * 23).err
    assert "nothing is pinned" in prune("pins", *on_pair).out


def test_pins_of_nothing_say_so(on_pair):
    assert "nothing is pinned" in prune("pins", *on_pair).out


# --- the trash ---------------------------------------------------------------------------------------------------


def test_undo_puts_back_what_waits_in_the_trash_and_pins_it(pair, on_pair):
    plan = prune("apply", *on_pair, "--grace", "1d", "--json").json["plan"]
    assert len(build.names(pair[0])) == 3
    done = prune("undo", plan, *on_pair, "--json")
    assert done.code == 0
    assert len(done.json["runs"][0]["restored"]) == 14
    assert all(len(build.names(root)) == 10 for root in pair)
    assert len(prune("pins", *on_pair, "--json").json["pins"]) == 7
    assert prune("undo", "no-such-plan", *on_pair).code == 2


def test_a_pin_on_a_step_in_the_trash_says_where_it_is_and_keeps_it_from_being_purged(pair, on_pair):
    prune("apply", *on_pair, "--grace", "1d")
    pinned = prune("pin", "20", *on_pair)
    assert "step 20 of ckpt is in the trash of primary and mirror" in pinned.err
    assert prune("purge", *on_pair).code != 0
    prune("undo", *on_pair)
    assert all("step_0020.pt" in build.names(root) for root in pair)


def test_purge_empties_the_trash(pair, on_pair):
    prune("apply", *on_pair, "--grace", "1d")
    done = prune("purge", *on_pair, "--json")
    assert done.code == 0
    assert len(done.json["runs"][0]["purged"]) == 14
    assert prune("plan", *on_pair, "--json").json["runs"][0]["replicas"][0]["trash_bytes"] == 0


@pytest.mark.parametrize("verb", ["purge", "undo"])
def test_a_replica_that_is_away_keeps_its_trash_and_that_is_said(pair, on_pair, verb):
    prune("apply", *on_pair, "--grace", "1d")
    away = pair[1].rename(pair[1].with_name("away"))
    done = prune(verb, *on_pair)
    away.rename(pair[1])
    assert "the trash of mirror was left as it is" in done.err
    assert any((pair[1] / ".prune" / "trash").iterdir())
    assert not any((pair[0] / ".prune" / "trash").iterdir())


# --- what is known -------------------------------------------------------------------------------------------------


def test_history_and_explain_tell_why_a_step_is_gone(on_pair):
    plan = prune("apply", *on_pair, "--json").json["plan"]
    events = prune("history", "--json").json["events"]
    assert {event["plan"] for event in events if event["kind"] == "deleted"} == {plan}
    assert {event["step"] for event in prune("history", "--step", "20", "--json").json["events"]} == {20}
    explained = prune("explain", "20", *on_pair, "--json").json["runs"][0]
    assert explained["here"] is False
    assert {stone["replica"] for stone in explained["tombstones"]} == {"primary", "mirror"}
    assert any(event["kind"] == "deleted" for event in explained["history"])
    assert "is gone" in prune("explain", "20", *on_pair).out


def test_explain_tells_why_a_step_stays(on_pair):
    assert "stays (last), and training would resume from it" in prune("explain", "step_0100.pt", *on_pair).out
    assert "was never seen here" in prune("explain", "7", *on_pair).out


def test_status_tells_why_nothing_is_freed(on_pair, pair):
    wanted = prune("status", *on_pair, "--json").json
    assert wanted["schema"] == "prune.status/1"
    run = wanted["runs"][0]
    assert run["why_nothing_freed"] is None
    assert {replica: sum(counts.values()) for replica, counts in run["steps"].items()} == {"primary": 10, "mirror": 10}
    assert set(run["forecast"]) == {"next_save_bytes", "next_save_at", "seconds_to_full"}
    prune("apply", *on_pair)
    run = prune("status", *on_pair, "--json").json["runs"][0]
    assert "the policy wants all 3 steps" in run["why_nothing_freed"]
    assert run["last_success"] is not None
    assert run["last_delete"] is not None


def test_status_changes_nothing(on_pair, pair):
    before = [build.snapshot(root) for root in pair]
    for verb in (("status",), ("explain", "10"), ("pins",), ("plan",)):
        prune(*verb, *on_pair)
    assert [build.snapshot(root) for root in pair] == before


def test_a_replaced_mirror_is_adopted_by_name(on_pair, pair):
    prune("apply", *on_pair)
    done = prune("adopt", "mirror", *on_pair, "--json")
    assert done.code == 0
    assert done.json["identity"]
    assert prune("adopt", "mirrror", *on_pair).code == 2


# --- beginning -------------------------------------------------------------------------------------------------------


def test_init_writes_a_file_that_plans(tmp_path):
    build.step_files(tmp_path / "here/ckpt", range(10, 110, 10))
    done = prune("init", "ckpt", "--keep-last", "3")
    assert done.code == 0
    said = tomllib.loads((tmp_path / "here/prune.toml").read_text())["runs"][0]
    assert (said["primary"], said["layout"], said["keep"]) == (f"{tmp_path}/here/ckpt", "step-file", {"last": 3})
    assert prune("plan", "--json").json["runs"][0]["summary"]["delete"] == 7


def test_init_never_writes_over_a_file_unasked(tmp_path):
    build.step_files(tmp_path / "here/ckpt", range(10, 50, 10))
    write_whole(str(tmp_path / "here/prune.toml"), "mine")
    assert prune("init", "ckpt").code == 2
    assert (tmp_path / "here/prune.toml").read_text() == "mine"
    assert prune("init", "ckpt", "--force").code == 0


def test_init_writes_nothing_among_checkpoints(tmp_path):
    root = build.step_files(tmp_path / "here/ckpt", range(10, 50, 10))
    before = build.snapshot(root)
    assert prune("init", cwd=root).code == 0
    assert build.snapshot(root) == before
    assert (tmp_path / "here/prune.toml").exists()


def test_init_of_a_directory_without_checkpoints_is_refused(tmp_path):
    (tmp_path / "here/notes.txt").write_text("x")
    done = prune("init")
    assert done.code == 2
    assert "--stack" in done.err


def test_init_says_when_one_more_does_not_fit(tmp_path):
    build.step_files(tmp_path / "here/ckpt", [10, 20])
    done = prune("init", "ckpt", "--keep-last", "1000000000000", "--strict", "--json")
    assert done.code == 7
    assert done.json["attention"][0]["kind"] == "primary-too-small"


def test_policies_lists_what_is_ready():
    document = prune("policies", "--json").json
    assert "step-file" in [layout["name"] for layout in document["layouts"]]
    assert "step-file" in prune("policies").out


def test_doctor_probes_and_leaves_nothing_behind(on_pair, pair):
    before = {name for root in pair for name in root.iterdir()}
    done = prune("doctor", *on_pair, "--json")
    checks = done.json["runs"][0]["replicas"][0]["checks"]
    assert {"mtime", "clock", "rename", "fsync", "lock", "free-space", "mount"} <= {
        check["check"] for check in checks
    } | {"mtime"}
    assert all(check["means"] for check in checks)
    assert {name for root in pair for name in root.iterdir()} == before


def test_doctor_says_what_a_missing_replica_means(pair, tmp_path):
    done = prune("doctor", "--primary", pair[0], "--mirror", tmp_path / "unmounted")
    assert done.code == 1
    assert "blocks every delete" in done.out


def test_the_demo_prunes_a_run_of_its_own_and_cleans_up(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "here"))
    monkeypatch.setattr("tempfile.tempdir", None)
    done = prune("demo")
    assert done.code == 0
    assert "14 to delete and 6 to keep" in done.out
    assert "deleted 14 steps" in done.out
    assert list((tmp_path / "here").iterdir()) == []
    json.dumps(prune("demo", "--json").json["plan"])
