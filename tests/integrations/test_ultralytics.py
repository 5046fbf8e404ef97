"""ultralytics trains, dies, and goes on from what is left: from the file that it finds by itself, or a given one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ultralytics", reason="needs ultralytics: pip install ultralytics")

from ultralytics.utils.files import get_latest_run

from prune.resume import resume
from tests.integrations.training import told
from tests.runs import Guards, applied, deleted_steps, planned, run_of
from tests.trees.build import names

pytestmark = pytest.mark.slow

AT_ONCE = Guards(in_flight=0)


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YOLO_OFFLINE", "1")
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path / "yolo"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def trained(place: Path, *more: str | Path, state: Path, kill_at: str | None = None) -> dict[str, Any]:
    return told("train_ultralytics", place, "8", *more, state=state, kill_at=kill_at)


def weights(place: Path, name: str = "last.pt") -> Path:
    return place / "run" / "weights" / name


def epochs(*numbers: int) -> set[str]:
    return {f"epoch{number}.pt" for number in numbers} | {"last.pt", "best.pt"}


def test_killed_in_the_middle_of_an_epochs_file_the_candidate_is_what_ultralytics_finds_itself(
    place: Path, state: Path
) -> None:
    trained(place, state=state, kill_at="epoch5.pt")
    plan = planned(run_of(place / "run", last=2, guards=AT_ONCE), state)
    assert [(step.step, step.copies[0].health.restorable) for step in plan.steps] == [
        *((epoch, True) for epoch in range(5)),
        (5, False),
    ]
    assert resume(place / "run").path == get_latest_run(str(place)) == str(weights(place))


def test_between_two_periods_the_last_alone_has_the_epoch_and_is_the_candidate(place: Path, state: Path) -> None:
    trained(place, "--period", "3", state=state, kill_at="epoch6.pt")
    weights(place, "epoch6.pt").unlink()
    found = resume(place / "run")
    assert (found.step, found.path) == (6, get_latest_run(str(place)))
    assert trained(place, "--resume", found.path, state=state) == {"resumed": found.path, "start": 7, "ended": 7}


def test_after_a_prune_ultralytics_goes_on_from_the_file_that_it_finds(place: Path, state: Path) -> None:
    trained(place, state=state, kill_at="epoch5.pt")
    assert deleted_steps(applied(run_of(place / "run", last=2, guards=AT_ONCE), state)) == [0, 1, 2]
    assert names(place / "run" / "weights") == epochs(3, 4, 5)

    told = trained(place, "--resume", state=state)

    assert told == {"resumed": str(weights(place)), "start": 6, "ended": 7}
    assert names(place / "run" / "weights") == epochs(3, 4, 5, 6, 7)


def test_a_last_that_was_cut_short_falls_back_to_an_epoch_that_ultralytics_loads(place: Path, state: Path) -> None:
    """It writes the last one first: what a kill cuts there is older under no other name than an epoch's."""
    trained(place, state=state, kill_at="epoch5.pt")
    for name in ("last.pt", "best.pt"):
        os.truncate(weights(place, name), 1000)
    assert deleted_steps(applied(run_of(place / "run", last=1, guards=AT_ONCE), state)) == [0, 1, 2, 3]

    found = resume(place / "run")

    assert get_latest_run(str(place)) == str(weights(place))
    assert found.path == str(weights(place, "epoch4.pt"))
    assert trained(place, "--resume", found.path, state=state) == {"resumed": found.path, "start": 5, "ended": 7}


def test_what_a_finished_run_stripped_is_no_candidate_and_its_last_epoch_is(place: Path, state: Path) -> None:
    trained(place, state=state)
    assert get_latest_run(str(place)) == str(weights(place))
    assert resume(place / "run").path == str(weights(place, "epoch7.pt"))
    assert deleted_steps(applied(run_of(place / "run", last=2, guards=AT_ONCE), state)) == [0, 1, 2, 3, 4, 5]
