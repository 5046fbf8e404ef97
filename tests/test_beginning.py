"""A beginning: which stack, how big, does it fit, and a file that says so."""

from __future__ import annotations

import tomllib

import pytest

from prune import beginning
from prune.errors import UsageError
from prune.settings.keys import Where
from prune.settings.runs import Source, read_run
from tests.trees import build


def test_the_directory_that_holds_the_steps_is_found_below_the_one_named(tmp_path):
    build.step_files(tmp_path / "project/checkpoints", range(10, 60, 10))
    found = beginning.look_at(str(tmp_path / "project"))
    assert (found.primary, found.layout) == (f"{tmp_path}/project/checkpoints", "step-file")
    assert (found.steps, found.policy) == (5, "step-file")
    assert found.checkpoint_bytes is not None
    assert found.checkpoint_bytes > 4096


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
