"""Runs of one name in different places: each answers for its own history alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from prune.journal import Event
from prune.journal.own import of_one_run
from tests.cli.command import prune
from tests.trees.build import step_files

NOW = 10**18


@pytest.fixture
def alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two runs whose directories have one name; the first was pruned down to one step."""
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path}/state.db")
    first, second = (step_files(tmp_path / owner / "checkpoints", (1, 2, 3)) for owner in ("ada", "bob"))
    assert prune("apply", "--yes", "--primary", first, "--keep-last", "1").code == 0
    return first, second


def told(verb: str, primary: Path, *words: str) -> dict:
    return prune(verb, *words, "--primary", primary, "--json").json["runs"][0]


def test_a_step_is_not_explained_by_what_happened_to_another_runs_of_that_number(alike: tuple[Path, Path]) -> None:
    first, second = alike
    assert [event["kind"] for event in told("explain", first, "1")["history"]] == ["deleted"]
    assert told("explain", second, "1")["history"] == []


def test_the_last_pass_of_a_run_is_its_own(alike: tuple[Path, Path]) -> None:
    first, second = alike
    assert told("status", first)["last_success"] is not None
    assert told("status", first)["last_delete"] is not None
    assert (told("status", second)["last_success"], told("status", second)["last_delete"]) == (None, None)


def test_a_run_that_was_moved_still_knows_its_history(alike: tuple[Path, Path], tmp_path: Path) -> None:
    first, _ = alike
    shutil.move(first, tmp_path / "elsewhere" / "checkpoints")
    assert told("explain", tmp_path / "elsewhere" / "checkpoints", "1")["history"] != []


def test_a_run_by_another_path_to_the_same_place_is_the_same(alike: tuple[Path, Path], tmp_path: Path) -> None:
    first, _ = alike
    os.symlink(first, tmp_path / "checkpoints")
    assert told("explain", tmp_path / "checkpoints", "1")["history"] != []


def test_what_was_noted_before_places_were_is_told_by_name_alone() -> None:
    old = Event(NOW, "tiny", "deleted", 1)
    here = Event(NOW, "tiny", "deleted", 1, data={"root": "/data/tiny", "volume": "a"})
    unnamed = Event(NOW, "tiny", "deleted", 1, data={"root": "/data/tiny"})
    events = [old, here, unnamed]
    assert of_one_run(events, "/data/tiny", None) == events
    assert of_one_run(events, "/elsewhere/tiny", "a") == [old, here]
    assert of_one_run(events, "/elsewhere/tiny", None) == [old]
    assert of_one_run(events, "s3://bucket/tiny", "b") == [old]
