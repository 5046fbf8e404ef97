"""Idle runs are not listed again, and whatever might give a pass something to do is noticed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prune import engine
from prune.holds import pin
from prune.service.stillness import LOOK_AGAIN_NS
from prune.settings.schema import HOUR
from tests.service.homes import Home, home
from tests.trees.build import age, step_files


class Idle:
    """A run that policy wants whole, looked at until nothing is looked at any more."""

    def __init__(self, place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self.listed = 0
        self._later = 0
        really = engine.apply

        def counted(*args: Any, **more: Any) -> Any:
            self.listed += 1
            return really(*args, **more)

        monkeypatch.setattr(engine, "apply", counted)
        place.daemon.clock = place.daemon.worker.clock = lambda: time.time_ns() + self._later
        place.daemon.worker._watches.clear()

    def pass_over(self, *, later_ns: int = 0) -> int:
        """How many runs were listed in a pass made so much later."""
        self._later += later_ns
        before = self.listed
        self.place.daemon.worker.pass_over("test", self.place.daemon.source.settings.runs)
        return self.listed - before


@pytest.fixture
def idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Idle:
    place = home(tmp_path, steps=4, last=4)
    idle = Idle(place, monkeypatch)
    for _ in range(4):
        idle.pass_over(later_ns=10 * 10**9)
    assert idle.pass_over() == 0, "the run never came to rest"
    return idle


def test_a_run_at_rest_is_not_listed_and_is_well_all_the_same(idle: Idle) -> None:
    before = idle.place.daemon.board.view("tiny").last_success_ns
    assert idle.pass_over(later_ns=10**9) == 0
    after = idle.place.daemon.board.view("tiny").last_success_ns
    assert before is not None
    assert after is not None
    assert after > before


def test_after_an_hour_it_is_looked_at_in_full_all_the_same(idle: Idle) -> None:
    assert idle.pass_over(later_ns=LOOK_AGAIN_NS) == 1


def test_a_new_save_on_either_side_is_noticed(idle: Idle) -> None:
    step_files(idle.place.mirror, [500], seconds=HOUR / 1e9)
    assert idle.pass_over() == 1
    step_files(idle.place.primary, [500], seconds=HOUR / 1e9)
    assert idle.pass_over() == 1
    assert idle.place.steps() == [f"step_0{n}.pt" for n in (200, 300, 400, 500)]


def write_in_place(place: Home) -> None:
    with (place.primary / "step_0400.pt").open("r+b") as file:
        file.write(b"PK")


def pin_one(place: Home) -> None:
    pin(place.run, 100, reason="x", now_ns=time.time_ns())


CHANGES: dict[str, Callable[[Home], Any]] = {
    "a temporary appears": lambda place: (place.primary / "step_0500.pt.part").touch(),
    "a step goes by other hands": lambda place: (place.mirror / "step_0100.pt").unlink(),
    "the newest is written in place": write_in_place,
    "the newest is touched": lambda place: age(place.primary / "step_0400.pt", 5),
    "a step is pinned": pin_one,
    "the mirror goes": lambda place: place.mirror.rename(place.mirror.with_name("gone")),
    "the primary is swapped": lambda place: (
        place.primary.rename(place.primary.with_name("gone")), os.mkdir(place.primary)
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_might_matter_is_noticed_at_the_next_pass(idle: Idle, change: Callable[[Home], Any]) -> None:
    change(idle.place)
    assert idle.pass_over() == 1


def test_other_settings_are_looked_at_anew(idle: Idle) -> None:
    from dataclasses import replace

    from prune.settings.schema import Keep

    settings = idle.place.daemon.source.settings
    run = replace(idle.place.run, keep=Keep(last=2))
    idle.place.daemon.source.settings = replace(settings, runs=(run,))
    assert idle.pass_over() == 1
    assert len(idle.place.steps()) == 2


def test_a_run_with_something_waiting_for_time_is_never_at_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = home(tmp_path, steps=4, last=4)
    part = place.primary / "step_0500.pt.part"
    part.touch()
    age(part, 3600)
    idle = Idle(place, monkeypatch)
    assert [idle.pass_over(later_ns=10 * 10**9) for _ in range(5)] == [1] * 5


def test_a_blocked_run_is_tried_at_every_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = home(tmp_path, steps=4, last=4)
    place.mirror.rename(tmp_path / "gone")
    idle = Idle(place, monkeypatch)
    assert [idle.pass_over(later_ns=10 * 10**9) for _ in range(5)] == [1] * 5
