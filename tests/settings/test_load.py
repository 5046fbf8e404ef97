"""Settings from a file, variables and flags: later wins, and what cannot be meant is refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prune.errors import Blocked, UsageError
from prune.settings import policies
from prune.settings.load import RunFlags, load
from prune.settings.schema import DAY, HOUR, MINUTE, Best, Keep, Share


@pytest.fixture(autouse=True)
def _only_here(tmp_path, monkeypatch):
    """No configuration of this machine and no variable of ours is seen, and the current directory is empty."""
    for name in [name for name in os.environ if name.upper().startswith("PRUNE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "system"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def roots(tmp_path) -> Path:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    return tmp_path


def written(text: str, path: str = "prune.toml") -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    return path


def run_table(roots: Path, more: str = "") -> str:
    return f'[[runs]]\nname = "tiny"\nprimary = "{roots}/a"\nmirrors = ["{roots}/b"]\n{more}'


def refused(*args, **kwargs) -> str:
    with pytest.raises(UsageError) as caught:
        load(*args, **kwargs)
    assert caught.value.exit_code == 2
    return str(caught.value)


# --- what is read -------------------------------------------------------------------------------------------


def test_every_key_of_a_file_is_understood(roots):
    written(
        f"""
        state = "sqlite:////tmp/state.db"
        [service]
        schedule = "10m"
        timezone = "Europe/Berlin"
        pressure_check = "15s"
        listen = ""
        token = "letmein"
        mirror = "0 3 * * *"
        scrub_period = "14d"
        [service.notify]
        webhook = "https://example.org/hook"
        apprise = ["mailto://me@example.org"]
        every = "2h"
        [fleet]
        budget = "50TB"
        [[runs]]
        name = "tiny"
        primary = {{root = "{roots}/a", mountpoint = true, free_space = "none", control = "{roots}/ctl"}}
        mirrors = [
            "{roots}/b",
            {{root = "s3://bucket/tiny", name = "cloud", optional = true, max_lag = "12h", capacity = "10TB"}},
        ]
        layout = "step-file"
        grace = "1h"
        finished_after = "7d"
        [runs.keep]
        last = 12
        every = 1000
        every_time = "1d"
        hourly = 24
        daily = 7
        weekly = 4
        within = "24h"
        best = {{metric = "eval_loss", mode = "min", count = 2}}
        full = 3
        [runs.guards]
        in_flight = "10m"
        orphans = "PT12H"
        verify = "off"
        unknown_mtime = "observe"
        repaired = "3d"
        max_delete = "75%"
        [runs.pressure]
        free_below = "10%"
        free_target = "20%"
        keep_last = 4
        [runs.final]
        last = 1
        best = 1
        """
    )
    settings = load()
    run = settings.runs[0]
    assert (settings.state, settings.source) == ("sqlite:////tmp/state.db", f"{roots}/here/prune.toml")
    assert settings.fleet_budget == 50 * 10**12
    assert settings.service.listen == ""
    assert settings.service.notify.apprise == ("mailto://me@example.org",)
    assert (settings.service.scrub_period, settings.service.notify.every) == (14 * DAY, 2 * HOUR)
    assert run.primary.mountpoint
    assert (run.primary.free_space, run.primary.control) == ("none", f"{roots}/ctl")
    assert [mirror.name for mirror in run.mirrors] == ["mirror", "cloud"]
    cloud = run.mirrors[1]
    assert (cloud.optional, cloud.max_lag_ns, cloud.max_lag_steps, cloud.capacity) == (True, 12 * HOUR, None, 10**13)
    assert (run.grace, run.finished_after) == (HOUR, 7 * DAY)
    assert (run.keep.last, run.keep.every, run.keep.every_time, run.keep.within) == (12, 1000, DAY, DAY)
    assert (run.keep.hourly, run.keep.daily, run.keep.weekly, run.keep.full) == (24, 7, 4, 3)
    assert run.keep.best == Best("eval_loss", "min", 2)
    assert (run.guards.in_flight, run.guards.orphans, run.guards.repaired) == (10 * MINUTE, 12 * HOUR, 3 * DAY)
    assert (run.guards.verify, run.guards.unknown_mtime, run.guards.max_delete) == ("off", "observe", Share(75.0))
    assert (run.pressure.free_below, run.pressure.free_target, run.pressure.keep_last) == (Share(10.0), Share(20.0), 4)
    assert run.final is not None
    assert (run.final.last, run.final.best) == (1, Best("eval_loss", "min", 1))


FINISHING = 'finished_after = "7d"\n[runs.keep]\nlast = 9\n[runs.final]\nlast = 1\n'


def test_the_final_policy_of_the_file_holds_on_the_command_line_too_unless_that_says_what_is_kept(roots):
    written(run_table(roots) + FINISHING)
    for flags in (None, RunFlags(), RunFlags(in_flight="1m")):
        run = load(None, flags).runs[0]
        assert run.final is not None
        assert run.final.last == 1
    assert load(None, RunFlags(keep_last=5)).runs[0].final is None
    assert load(None, RunFlags(policy="step-file")).runs[0].final is None


def test_a_final_policy_is_laid_over_that_of_the_named_policy_key_by_key(roots, tmp_path):
    (tmp_path / "house.toml").write_text("[final]\nlast = 3\nevery = 100\n")
    written(run_table(roots) + f'policy = "{tmp_path}/house.toml"\n')
    assert load().runs[0].final == Keep(last=3, every=100)
    written(run_table(roots) + f'policy = "{tmp_path}/house.toml"\n[runs.final]\nlast = 1\n')
    assert load().runs[0].final == Keep(last=1, every=100)


def test_a_named_pipe_that_nobody_writes_to_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    assert "there is no run in it" in refused(str(tmp_path / "pipe.toml"))


def test_a_pipe_that_is_written_to_is_read_to_its_end(roots):
    reader, writer = os.pipe()
    with open(writer, "w") as file:
        file.write(run_table(roots))
    assert load(f"/dev/fd/{reader}").runs[0].name == "tiny"
    os.close(reader)


def test_a_file_without_an_end_is_refused(roots):
    assert "is no configuration" in refused("/dev/zero")


def test_without_policy_and_rules_the_last_twelve_are_kept(roots):
    written(run_table(roots))
    assert load().runs[0].keep.last == 12
    assert load(None, RunFlags(primary=str(roots / "a"))).runs[0].keep.last == 12


def test_mirrors_are_named_by_their_place(roots):
    flags = RunFlags(primary=str(roots / "a"), mirrors=(str(roots / "b"), str(roots / "c")))
    assert [replica.name for replica in load(None, flags).runs[0].replicas] == ["primary", "mirror", "mirror-2"]


def test_a_bare_number_of_lag_is_steps_and_anything_else_time(roots):
    text = f'[[runs]]\nprimary = "{roots}/a"\nmirrors = [{{root = "{roots}/b", max_lag = %s}}]'
    written(text % "500")
    assert load().runs[0].mirrors[0].max_lag_steps == 500
    written(text % '"500s"')
    assert load().runs[0].mirrors[0].max_lag_ns == 500 * 10**9


def test_a_run_without_a_name_is_called_by_its_last_path_part(roots):
    written(f'[[runs]]\nprimary = "{roots}/a/"')
    assert load().runs[0].name == "a"


# --- where it is looked for ---------------------------------------------------------------------------------


def test_the_first_file_on_the_way_is_read(roots, monkeypatch):
    written(run_table(roots).replace("tiny", "system"), str(roots / "system/prune/prune.toml"))
    assert load().runs[0].name == "system"
    written(run_table(roots).replace("tiny", "user"), str(roots / "user/prune/prune.toml"))
    assert load().runs[0].name == "user"
    written(run_table(roots).replace("tiny", "here"))
    assert load().runs[0].name == "here"
    monkeypatch.setenv("PRUNE_CONFIG", written(run_table(roots).replace("tiny", "variable"), str(roots / "v.toml")))
    assert load().runs[0].name == "variable"
    assert load(written(run_table(roots).replace("tiny", "option"), str(roots / "o.toml"))).runs[0].name == "option"


def test_without_any_configuration_it_says_where_it_looked():
    said = refused()
    assert "prune.toml" in said
    assert "--primary" in said


def test_a_named_file_that_is_not_there_is_refused(monkeypatch):
    assert "nowhere.toml" in refused("nowhere.toml")
    monkeypatch.setenv("PRUNE_CONFIG", "")
    assert "PRUNE_CONFIG is empty" in refused()


# --- later wins ---------------------------------------------------------------------------------------------


def test_variables_lie_over_the_file_and_flags_over_both(roots, monkeypatch):
    written(run_table(roots, "[runs.keep]\nlast = 5\ndaily = 3\n"))
    assert load().runs[0].keep.last == 5
    monkeypatch.setenv("PRUNE_RUNS__0__KEEP__LAST", "6")
    assert load().runs[0].keep.last == 6
    monkeypatch.delenv("PRUNE_RUNS__0__KEEP__LAST")
    monkeypatch.setenv("PRUNE_RUNS__TINY__KEEP__LAST", "7")
    assert (load().runs[0].keep.last, load().runs[0].keep.daily) == (7, 3)
    overridden = load(None, RunFlags(keep_last="8", in_flight="1m")).runs[0]
    assert (overridden.keep.last, overridden.keep.daily, overridden.guards.in_flight) == (8, 3, MINUTE)


def test_variables_alone_are_a_configuration(roots, monkeypatch):
    monkeypatch.setenv("PRUNE_RUNS", f'[{{"primary": "{roots}/a", "keep": {{"last": 3}}}}]')
    monkeypatch.setenv("PRUNE_SERVICE__TOKEN", "1e5")
    settings = load()
    assert (settings.runs[0].keep.last, settings.service.token) == (3, "1e5")


def test_a_variable_that_is_wrong_is_named(roots, monkeypatch):
    written(run_table(roots))
    monkeypatch.setenv("PRUNE_RUNS__0__KEEP__LAST", "3x")
    assert "PRUNE_RUNS__0__KEEP__LAST" in refused()
    monkeypatch.delenv("PRUNE_RUNS__0__KEEP__LAST")
    monkeypatch.setenv("PRUNE_SERVICE__TOKN", "x")
    assert "'token'" in refused()


@pytest.mark.parametrize(
    "layout",
    ['"custom:model-{step}.pt"', '{name = "custom", pattern = "model-{step}.pt"}', '{pattern = "model-{step}.pt"}'],
)
def test_names_of_ones_own_are_described_by_a_pattern(roots, layout):
    written(run_table(roots, f"layout = {layout}\n"))
    run = load().runs[0]
    assert (run.layout, run.layout_options) == ("custom", {"pattern": "model-{step}.pt"})


def test_a_policy_lies_below_the_runs_own_tables(roots):
    written('layout = "step-dir"\n[keep]\nlast = 3\nevery = 100\n[guards]\nin_flight = "1h"\n', "mine.toml")
    written(run_table(roots, 'policy = "mine.toml"\n[runs.keep]\nlast = 4\n'))
    run = load().runs[0]
    assert (run.keep.last, run.keep.every, run.guards.in_flight, run.layout) == (4, 100, HOUR, "step-dir")
    assert run.policy == "mine.toml"


def test_keeping_less_than_a_policy_lowers_what_pressure_may_take_too(roots):
    marks = '[pressure]\nfree_below = "10%"\nfree_target = "20%"\nkeep_last = 4\n'
    written(f"[keep]\nlast = 12\n{marks}", "mine.toml")
    written(run_table(roots, 'policy = "mine.toml"\n'))
    pressure = load(None, RunFlags(keep_last="3")).runs[0].pressure
    assert (pressure.free_below, pressure.free_target, pressure.keep_last) == (Share(10.0), Share(20.0), 3)
    written(run_table(roots, 'policy = "mine.toml"\n[runs.pressure]\nfree_below = "30%"\n'))
    assert load().runs[0].pressure.free_target == Share(30.0)


def test_every_ready_policy_can_be_used(roots):
    for name in policies.ready():
        assert load(None, RunFlags(primary=str(roots / "a"), policy=name)).runs[0].policy == name
    assert {"step-file", "step-dir", "hf-trainer", "dcp", "torchtitan"} <= set(policies.ready())


def test_a_policy_flag_lies_over_the_file(roots):
    written("[keep]\nlast = 3\n", "mine.toml")
    written(run_table(roots, "[runs.keep]\nlast = 4\ndaily = 2\n"))
    run = load(None, RunFlags(policy="mine.toml")).runs[0]
    assert (run.keep.last, run.keep.daily) == (3, 2)


def test_a_run_is_chosen_by_name(roots):
    written(run_table(roots) + f'[[runs]]\nname = "other"\nprimary = "{roots}/c"\n')
    assert [run.name for run in load(None, None, ["other"]).runs] == ["other"]
    assert "Did you mean 'tiny'?" in refused(None, None, ["tinny"])


def test_roots_given_beside_a_configuration_replace_those_of_the_one_chosen_run(roots):
    config = written(run_table(roots, "[runs.keep]\nlast = 5\n"))
    run = load(config, RunFlags(primary=str(roots / "c"))).runs[0]
    assert [replica.root for replica in run.replicas] == [f"{roots}/c"]
    assert run.keep.last == 5
    written(run_table(roots) + f'[[runs]]\nname = "other"\nprimary = "{roots}/c"\n')
    assert "Choose one by --run" in refused(config, RunFlags(primary=str(roots / "a")))


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["0", "-1", '""', '"3x"', "1.5", "true", '"${KEEP}"', "[3]"])
def test_a_number_of_steps_to_keep_that_cannot_be_is_refused_by_key(roots, value):
    written(run_table(roots, f"[runs.keep]\nlast = {value}\n"))
    said = refused()
    assert "prune.toml" in said
    assert "keep.last" in said
    assert "tiny" in said


def test_a_huge_number_of_steps_to_keep_is_fine(roots):
    written(run_table(roots, "[runs.keep]\nlast = 1000000\n"))
    assert load().runs[0].keep.last == 1_000_000


def test_variables_are_put_into_strings_and_an_unset_one_is_named(roots, monkeypatch):
    written(f'[[runs]]\nprimary = "{roots}/${{WHERE}}"\n[runs.keep]\nlast = "${{KEEP}}"\n')
    monkeypatch.setenv("WHERE", "a")
    monkeypatch.setenv("KEEP", "3")
    assert (load().runs[0].primary.root, load().runs[0].keep.last) == (f"{roots}/a", 3)
    monkeypatch.setenv("WHERE", "")
    assert "${WHERE} is empty" in refused()
    monkeypatch.delenv("WHERE")
    assert "${WHERE} is not set" in refused()


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("[runs.keep]\nlst = 3\n", "'last'"),
        ("[runs.keep]\nevery-time = '1d'\n", "'every_time'"),
        ("[runs.guards]\nin_fligth = '5m'\n", "'in_flight'"),
        ("mirors = []\n", "'mirrors'"),
        ("daily = 3\n", "[runs.keep]"),
        ("keep_last = 3\n", "Write 'last' in [runs.keep]"),
        ("[service]\ntokne = 'x'\n", "'token'"),
        ("[fleet]\nbugdet = '1TB'\n", "'budget'"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(roots, text, mend):
    written(run_table(roots, text))
    said = refused()
    assert "there is no such key" in said
    assert mend in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('layout = "hf-traner"\n', "'hf-trainer'"),
        ('layout = "custom"\n', "pattern"),
        ('layout = "custom:no-number.pt"\n', "layout"),
        ('layout = {name = "step-file", patern = "x"}\n', "layout"),
        ('policy = "nowhere.toml"\n', "nowhere.toml"),
        ('grace = "soon"\n', "grace"),
        ("[runs.keep]\nbest = 'loss'\n", "keep.best"),
        ("[runs.keep]\nbest = {metric = 'loss'}\n", "mode"),
        ("[runs.guards]\nmax_delete = 0\n", "max_delete"),
        ("[runs.guards]\nverify = 'all'\n", '"newest"'),
        ("[runs.pressure]\nfree_below = '20%'\nfree_target = '10%'\n", "swapped"),
        ("[runs.pressure]\nfree_target = '10%'\n", "free_below"),
        ("[runs.pressure]\nfree_below = '0%'\n", "free_below"),
        ("[runs.pressure]\nfree_below = '10%'\nkeep_last = 40\n", "keep_last"),
        ("[runs.final]\nlast = 1\nbest = 1\n", "keep.best"),
        ("[service]\nschedule = 'often'\n", "schedule"),
        ("[service]\ntimezone = 'Mars/Olympus'\n", "timezone"),
        ("[service]\nlisten = '9469'\n", "listen"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_key_with_the_mend(roots, text, words):
    written(run_table(roots, text))
    assert words in refused()


def test_a_secret_is_not_repeated_in_a_refusal(roots):
    written(run_table(roots, "[service]\ntoken = 123456\n"))
    said = refused()
    assert "token" in said
    assert "123456" not in said


def test_a_syntax_error_gives_the_line():
    written('[[runs]]\nname = "tiny"\nprimary = /data\n')
    assert "line 3" in refused()


def test_a_file_as_windows_editors_write_it_is_read(roots):
    text = run_table(roots, "keep = {last = 3}\n").replace("\n", "\r\n")
    Path("prune.toml").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert load().runs[0].keep.last == 3


def test_bytes_that_are_not_utf8_are_refused_with_a_sentence():
    Path("prune.toml").write_bytes(b'name = "\xff"\n')
    assert "UTF-8" in refused()


def test_a_file_without_a_run_says_so():
    written("state = 'sqlite:///x'\n")
    assert "[[runs]]" in refused()


def test_two_runs_of_one_name_are_refused(roots):
    written(run_table(roots) + f'[[runs]]\nname = "tiny"\nprimary = "{roots}/c"\n')
    assert "two runs are called 'tiny'" in refused()


# --- roots --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", ["", " ", "/", "//", "/tmp/..", "ckpt", "./ckpt", "~/ckpt", "ftp://host/x", "s3://"])
def test_a_root_that_cannot_be_one_is_refused_in_a_file(root):
    written(f'[[runs]]\nprimary = "{root}"\n')
    assert "primary" in refused()


@pytest.mark.parametrize("root", ["", "/", "/tmp/.."])
def test_a_root_that_cannot_be_one_is_refused_on_the_command_line(root):
    assert "--primary" in refused(None, RunFlags(primary=root))


def test_a_relative_root_on_the_command_line_starts_from_the_current_directory(tmp_path):
    (tmp_path / "here/ckpt").mkdir()
    run = load(None, RunFlags(primary="ckpt")).runs[0]
    assert (run.primary.root, run.name) == (str(tmp_path / "here/ckpt"), "ckpt")
    assert load(None, RunFlags(primary=".")).runs[0].name == "here"


def test_a_root_that_is_a_file_is_refused_with_a_sentence(roots):
    (roots / "file").write_text("x")
    assert "is a file, not a directory" in refused(None, RunFlags(primary=str(roots / "file")))


def test_a_root_that_is_not_there_is_not_refused(roots):
    run = load(None, RunFlags(primary=str(roots / "a"), mirrors=(str(roots / "unmounted"),))).runs[0]
    assert run.mirrors[0].root == f"{roots}/unmounted"


def test_equal_nested_and_surrounding_roots_are_refused(roots):
    (roots / "a/inner").mkdir()
    for mirror in (roots / "a", roots / "a/inner", roots):
        assert "Every replica" in refused(None, RunFlags(primary=str(roots / "a"), mirrors=(str(mirror),)))


def test_a_root_that_only_begins_alike_is_another_root(roots):
    (roots / "a2").mkdir()
    assert load(None, RunFlags(primary=str(roots / "a"), mirrors=(str(roots / "a2"),)))


def test_one_directory_under_two_names_is_one_root(roots):
    (roots / "link").symlink_to(roots / "a")
    assert "same place" in refused(None, RunFlags(primary=str(roots / "a"), mirrors=(str(roots / "link"),)))


def test_a_missing_root_inside_a_linked_one_is_found_too(roots):
    (roots / "link").symlink_to(roots / "a")
    assert "lies inside" in refused(None, RunFlags(primary=str(roots / "a"), mirrors=(str(roots / "link/later"),)))


def test_two_runs_may_not_share_a_root(roots):
    written(run_table(roots) + f'[[runs]]\nname = "other"\nprimary = "{roots}/c"\nmirrors = ["{roots}/b"]\n')
    said = refused(None, None, ["tiny"])
    assert "'tiny'" in said
    assert "'other'" in said


def test_keys_of_one_bucket_are_nested_by_their_parts():
    written('[[runs]]\nprimary = "s3://bucket/a"\nmirrors = ["s3://bucket/a/b"]\n')
    assert "lies inside" in refused()
    written('[[runs]]\nprimary = "s3://bucket/a"\nmirrors = ["s3://bucket/ab"]\n')
    assert load()


def test_credentials_in_a_url_are_refused():
    written('[[runs]]\nprimary = "s3://key:secret@bucket/a"\n')
    assert "credentials" in refused()


# --- templates ----------------------------------------------------------------------------------------------


def test_every_directory_that_fits_a_template_is_a_run(roots):
    for name in ("one", "two", ".hidden"):
        (roots / "a" / name).mkdir()
    (roots / "a/file").write_text("x")
    (roots / "a/latest").symlink_to("two")
    written(f'[[runs]]\nprimary = "{roots}/a/{{run}}"\nmirrors = ["{roots}/b/{{run}}"]\n[runs.keep]\nlast = 3\n')
    runs = load().runs
    assert [run.name for run in runs] == ["one", "two"]
    assert [run.mirrors[0].root for run in runs] == [f"{roots}/b/one", f"{roots}/b/two"]
    assert {run.keep.last for run in runs} == {3}


def test_a_template_may_stand_inside_a_name_and_above_a_folder(roots):
    (roots / "a/exp-one/ckpt").mkdir(parents=True)
    (roots / "a/exp-two").mkdir()
    (roots / "a/other/ckpt").mkdir(parents=True)
    written(f'[[runs]]\nname = "fleet"\nprimary = "{roots}/a/exp-{{run}}/ckpt"\n')
    assert [(run.name, run.primary.root) for run in load().runs] == [("fleet-one", f"{roots}/a/exp-one/ckpt")]


def test_a_template_without_a_match_is_said(roots):
    template = f'[[runs]]\nprimary = "{roots}/a/{{run}}"\n'
    written(template)
    assert "there is no run of this template" in refused()
    written(template + f'[[runs]]\nname = "tiny"\nprimary = "{roots}/c"\n')
    settings = load()
    assert [run.name for run in settings.runs] == ["tiny"]
    assert settings.notices[0].kind == "no-run"


def test_a_template_whose_directory_cannot_be_listed_blocks(roots):
    written(f'[[runs]]\nprimary = "{roots}/nowhere/{{run}}"\n')
    with pytest.raises(Blocked):
        load()


def test_a_template_must_stand_on_both_sides(roots):
    written(f'[[runs]]\nprimary = "{roots}/a/{{run}}"\nmirrors = ["{roots}/b"]\n')
    assert "{run}" in refused()


# --- what it costs ------------------------------------------------------------------------------------------


def test_a_run_given_on_the_command_line_imports_no_pydantic(roots):
    code = (
        "import sys; from prune.settings.load import load, RunFlags; "
        f"load(None, RunFlags(primary={str(roots / 'a')!r})); "
        "print([name for name in sys.modules if name.startswith(('pydantic', 'loguru', 'rich'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
