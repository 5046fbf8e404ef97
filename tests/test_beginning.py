"""A beginning: which stack, how big, does it fit, and a file that says so."""

from __future__ import annotations

import tomllib

import pytest

from prune import beginning
from prune.errors import UsageError
from prune.settings.keys import Where
from prune.settings.load import load
from prune.settings.runs import Source, read_run
from tests.trees import build


def test_the_directory_that_holds_the_steps_is_found_below_the_one_named(tmp_path):
    build.step_files(tmp_path / "project/checkpoints", range(10, 60, 10))
    found = beginning.look_at(str(tmp_path / "project"))
    assert (found.primary, found.layout) == (f"{tmp_path}/project/checkpoints", "step-file")
    assert (found.steps, found.policy) == (5, "step-file")
    assert found.checkpoint_bytes is not None
    assert found.checkpoint_bytes > 4096


def test_several_runs_become_one_table_whose_template_each_of_them_and_tomorrows_fits(tmp_path):
    logs = tmp_path / "project/lightning_logs"
    for version in (0, 3, 12):
        (logs / f"version_{version}/checkpoints").mkdir(parents=True)
        for step in (10, 20):
            (logs / f"version_{version}/checkpoints/epoch=0-step={step}.ckpt").write_bytes(b"x" * 9000)

    found = beginning.look_at(str(tmp_path / "project"))

    assert (found.layout, found.policy, found.steps) == ("lightning", "lightning", 6)
    assert found.primary == f"{logs}/version_{{run}}/checkpoints"
    path = tmp_path / "prune.toml"
    path.write_text(beginning.document(found, name="project", last=7, mirrors=()))
    (logs / "version_13/checkpoints").mkdir(parents=True)
    assert {run.name for run in load(str(path)).runs} == {f"project-{version}" for version in (0, 3, 12, 13)}


def test_runs_of_several_stacks_are_told_apart_by_each_pass(tmp_path):
    build.step_files(tmp_path / "a/checkpoints", [10, 20])
    build.step_dirs(tmp_path / "b/checkpoints", [10, 20])
    found = beginning.look_at(str(tmp_path))
    assert (found.primary, found.layout, found.policy) == (f"{tmp_path}/{{run}}/checkpoints", "auto", None)


def test_runs_that_no_one_template_stands_for_are_told_by_name(tmp_path):
    build.step_files(tmp_path / "a/checkpoints", [10, 20])
    build.step_files(tmp_path / "b/models", [10, 20])
    with pytest.raises(UsageError, match=f"lie in {tmp_path}/a/checkpoints, {tmp_path}/b/models"):
        beginning.look_at(str(tmp_path))


def test_a_mirror_that_several_runs_would_share_is_refused(tmp_path):
    for run in "ab":
        build.step_files(tmp_path / run / "checkpoints", [10, 20])
    found = beginning.look_at(str(tmp_path))
    with pytest.raises(UsageError, match=r"must both hold \{run\}"):
        beginning.document(found, name="all", last=7, mirrors=("/mnt/mirror",))


def test_a_stack_that_is_named_is_believed(tmp_path):
    root = build.step_dirs(tmp_path / "ckpt", [10, 20])
    assert beginning.look_at(str(root), stack="step-dir").layout == "step-dir"
    with pytest.raises(UsageError, match="no such layout"):
        beginning.look_at(str(root), stack="step-dri")


def test_an_empty_directory_is_refused_and_a_missing_one_too(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError):
            beginning.look_at(str(place))


@pytest.mark.parametrize("name", ["tiny", 'odd "name" \\ ü', "{braces}"])
def test_the_file_is_read_back_as_it_was_meant(tmp_path, name):
    root = build.step_files(tmp_path / "a {b} c", range(10, 60, 10))
    found = beginning.look_at(str(root))
    text = beginning.document(found, name=name, last=7, mirrors=("/mnt/mirror/ü",))
    run = read_run(tomllib.loads(text)["runs"][0], Source(Where("prune.toml"), str(tmp_path)))
    assert (run.name, run.primary.root, run.keep.last, run.layout) == (name, str(root), 7, "step-file")
    assert [mirror.root for mirror in run.mirrors] == ["/mnt/mirror/ü"]


def test_room_for_one_more_than_is_kept_is_asked_for(tmp_path):
    found = beginning.look_at(str(build.step_files(tmp_path / "ckpt", [10, 20])))
    assert beginning.room_for(found, 3) is None
    short = beginning.room_for(found, 10**12)
    assert short is not None
    assert "one being saved" in short.detail
