"""Text files that name a step: there, gone, being rewritten, or nonsense."""

import os
from pathlib import Path

import pytest

from prune.model import PointerState
from tests.layouts.helpers import Seen
from tests.trees.build import age
from tests.trees.stacks import deepspeed, megatron, put


def tracker_of(root: Path) -> object:
    return Seen(root, "megatron-lm").pointers["latest_checkpointed_iteration.txt"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    megatron(tmp_path, 100)
    age(tmp_path, 7200)
    return tmp_path


def test_a_number_with_its_newline_names_the_step(root: Path) -> None:
    put(root / "latest_checkpointed_iteration.txt", "100\n")
    seen = Seen(root, "megatron-lm")
    assert (seen.pick.step, seen.pick.path) == (100, "iter_0000100")
    assert seen.layout.referenced(seen.view) == {100: "latest_checkpointed_iteration.txt names it"}


def test_a_step_that_is_gone_leaves_the_pointer_dangling(root: Path) -> None:
    put(root / "latest_checkpointed_iteration.txt", "200")
    pointer = tracker_of(root)
    assert (pointer.step, pointer.state) == (200, PointerState.DANGLING)
    assert "iter_0000200" in pointer.detail


def test_empty_and_fresh_is_a_write_in_flight(root: Path) -> None:
    put(root / "latest_checkpointed_iteration.txt", "")
    assert tracker_of(root).state is PointerState.UNREADABLE


def test_empty_for_long_is_a_dead_writer_and_names_nothing(root: Path) -> None:
    age(put(root / "latest_checkpointed_iteration.txt", ""), 7200)
    pointer = tracker_of(root)
    assert (pointer.step, pointer.state) == (None, PointerState.DANGLING)


def test_empty_with_an_mtime_that_nobody_set_is_not_old(root: Path) -> None:
    os.utime(put(root / "latest_checkpointed_iteration.txt", ""), (0, 0))
    assert tracker_of(root).state is PointerState.UNREADABLE


@pytest.mark.parametrize("text", ["soon", "-3", "1" * 19, "10 0", "\0", "\xff"])
def test_what_names_no_step_is_unreadable(root: Path, text: str) -> None:
    put(root / "latest_checkpointed_iteration.txt", text.encode("latin-1"))
    assert tracker_of(root).state is PointerState.UNREADABLE


def test_a_directory_in_the_place_of_a_tracker_is_foreign(root: Path) -> None:
    (root / "latest_checkpointed_iteration.txt").mkdir()
    assert Seen(root, "megatron-lm").pointers == {}


@pytest.mark.parametrize("tag", ["../elsewhere", "a\nb", "\0", "x" * 5000])
def test_a_tag_that_is_no_name_in_the_root_is_unreadable_and_leads_nowhere(tmp_path: Path, tag: str) -> None:
    deepspeed(tmp_path, 10)
    put(tmp_path / "latest", tag)
    seen = Seen(tmp_path, "deepspeed")
    assert seen.pointers["latest"].state is PointerState.UNREADABLE
    assert seen.pick is None
