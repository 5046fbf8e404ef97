"""The daemon's jobs on real small runs."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prune import checking, engine
from prune.journal import open_journal
from prune.model import SECOND, Attention
from prune.pressure.relief import Means, Pressed
from prune.resume import Terms, find
from prune.service.clockwatch import ClockWatch
from prune.service.scrub import Scrubber, slice_of
from prune.service.showing import Showing
from prune.service.worker import OUT_OF_TURN
from prune.settings.schema import DAY, HOUR, MINUTE, Pressure, RunSettings, Settings, Share
from prune.stop import Stop
from prune.stores.base import Space
from prune.stores.mounts import Mount
from tests.runs import run_of
from tests.service.homes import Home, home
from tests.trees.build import step_files


@pytest.fixture
def place(tmp_path: Path) -> Home:
    return home(tmp_path)


def another(place: Home, tmp_path: Path, name: str = "broken") -> RunSettings:
    """A second run, whose primary is not there."""
    run = run_of(tmp_path / "gone", name=name, last=3)
    use(place, replace(place.daemon.source.settings, runs=(run, place.run)))
    return run


def use(place: Home, settings: Settings) -> None:
    place.daemon.source.settings = settings
    place.daemon.worker.meet(settings.runs)


# --- passes ----------------------------------------------------------------------------------------------------------


def test_a_pass_deletes_by_policy_on_both_sides_and_shows_what_is_left(place: Home) -> None:
    place.pass_over()
    assert place.steps() == ["step_0400.pt", "step_0500.pt", "step_0600.pt"]
    view = place.daemon.board.view("tiny")
    assert view.plan is not None
    assert [step.step for step in view.plan.steps] == [400, 500, 600]
    assert (view.deleted_steps, view.failed_steps) == (3, 0)
    assert view.last_success_ns is not None


def test_a_run_whose_directory_is_gone_stops_no_other(place: Home, tmp_path: Path) -> None:
    another(place, tmp_path)
    place.pass_over()
    assert len(place.steps()) == 3
    assert place.daemon.board.view("broken").blocks[0].block == "replica-unreachable"


def test_a_run_that_makes_the_engine_raise_stops_no_other_and_is_told_of(
    place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another(place, tmp_path)
    really = engine.apply

    def raising(settings: Settings, **more: Any) -> Any:
        if settings.runs[0].name == "broken":
            raise ZeroDivisionError("nobody thought of this")
        return really(settings, **more)

    monkeypatch.setattr(engine, "apply", raising)
    place.pass_over()
    assert len(place.steps()) == 3
    view = place.daemon.board.view("broken")
    assert view.error == "ZeroDivisionError: nobody thought of this"
    assert view.attention[0].kind == "failed"


def test_a_mirror_that_was_gone_and_is_back_is_pruned_again(place: Home) -> None:
    aside = place.mirror.with_name("unplugged")
    place.mirror.rename(aside)
    place.pass_over()
    assert len(place.steps()) == 6
    assert place.daemon.board.view("tiny").blocks
    aside.rename(place.mirror)
    place.pass_over()
    assert len(place.steps()) == 3
    assert not place.daemon.board.view("tiny").blocks


def test_a_directory_deleted_between_passes_deletes_nothing_on_the_mirror(place: Home) -> None:
    place.pass_over()
    shutil.rmtree(place.primary)
    place.pass_over()
    assert len(list(place.mirror.glob("*.pt"))) == 3
    place.primary.mkdir()
    place.pass_over()
    assert len(list(place.mirror.glob("*.pt"))) == 3
    assert place.daemon.board.view("tiny").blocks[0].block == "replica-vanished"


def test_without_a_state_that_can_be_written_it_prunes_all_the_same(place: Home, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    use(place, replace(place.daemon.source.settings, state=f"sqlite:///{tmp_path}/file/state.db"))
    place.pass_over()
    assert len(place.steps()) == 3
    assert "state" in {note.kind for note in place.daemon.board.view("tiny").attention}


def test_a_clock_that_jumped_blocks_one_pass_and_no_more(place: Home) -> None:
    wall, uptime = [10**18], [HOUR]
    place.daemon.worker.clocks = lambda: ClockWatch(lambda: wall[0], lambda: uptime[0])
    place.daemon.worker._watches["test"] = place.daemon.worker.clocks()
    wall[0] += 30 * DAY
    uptime[0] += MINUTE
    place.pass_over()
    assert len(place.steps()) == 6
    view = place.daemon.board.view("tiny")
    assert [block.block for block in view.blocks] == ["clock-jumped"]
    assert view.last_success_ns is None
    place.pass_over()
    assert len(place.steps()) == 3


def test_a_wish_to_stop_ends_a_pass_between_two_runs(place: Home, tmp_path: Path) -> None:
    place.daemon.stop.request()
    place.pass_over()
    assert len(place.steps()) == 6


def test_a_new_run_of_a_fleet_has_a_view_and_one_that_left_has_none(place: Home, tmp_path: Path) -> None:
    fresh = run_of(step_files(tmp_path / "fresh", [1, 2]), name="fresh")
    use(place, replace(place.daemon.source.settings, runs=(fresh,)))
    assert [view.run for view in place.daemon.board.views()] == ["fresh"]


def test_last_good_passes_are_remembered_across_a_restart(place: Home, tmp_path: Path) -> None:
    place.pass_over()
    before = place.daemon.board.view("tiny").last_success_ns
    from prune.service.daemon import Daemon

    again = Daemon(place.daemon.source)
    again._remember_successes()
    found = again.board.view("tiny").last_success_ns
    assert found is not None
    assert before is not None
    assert abs(found - before) < 5 * SECOND


def test_a_run_that_left_the_settings_while_a_pass_was_at_work_on_it_stays_forgotten(
    place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, run, apply = place.daemon.worker, place.run, engine.apply

    def leaving(*args: Any, **more: Any) -> Any:
        worker.meet(())
        return apply(*args, **more)

    monkeypatch.setattr(engine, "apply", leaving)
    worker.pass_over("test", (run,))
    assert place.daemon.board.views() == []
    assert place.daemon.notifier.open_matters() == []


def test_what_two_jobs_show_of_one_run_at_once_is_both_shown(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = place.daemon.worker
    plain = Showing.forecasts
    note = Attention("mirror-failed", "mirror", "step 100: gone", "")

    def meanwhile(self: Showing, *args: Any, **more: Any) -> Any:
        worker.board.change("tiny", lambda view: replace(view, mirrored=(note,)))
        return plain(self, *args, **more)

    monkeypatch.setattr(Showing, "forecasts", meanwhile)
    place.pass_over()
    view = worker.board.view("tiny")
    assert view.deleted_steps == 3
    assert note in view.attention


# --- pressure --------------------------------------------------------------------------------------------------------


class Full:
    """A volume that is as full as it is told, and gains a unit with each deleted file."""

    def __init__(self, place: Home, *, free: int) -> None:
        self.place, self.free, self.looks = place, free, 0

    def space(self, _root: str = "") -> Space:
        self.looks += 1
        return Space(self.free + 100_000 * (6 - len(self.place.steps())), 10_000_000, 5000, 10_000)


@pytest.fixture
def full(place: Home, monkeypatch: pytest.MonkeyPatch) -> Full:
    full = Full(place, free=900_000)
    run = replace(place.run, pressure=Pressure(free_below=Share(10), free_target=Share(11)))
    use(place, replace(place.daemon.source.settings, runs=(run,)))
    place.daemon.worker.means = Means(space_of=full.space, late_ns=0, sleep=lambda _: None)
    monkeypatch.setattr("prune.service.worker.room_on", lambda _volume: full.space())
    return full


def test_pressure_frees_until_the_target_and_not_more(place: Home, full: Full) -> None:
    place.daemon.worker.look_at_volumes()
    assert len(place.steps()) == 4  # 900,000 and two deleted are the target of 1,100,000
    assert place.daemon.board.view("tiny").deleted_steps == 2


def test_a_volume_with_room_is_looked_at_and_nothing_is_listed(
    place: Home, full: Full, monkeypatch: pytest.MonkeyPatch
) -> None:
    full.free = 5_000_000
    monkeypatch.setattr(engine, "plan_run", lambda *_, **__: pytest.fail("listed"))
    monkeypatch.setattr(engine, "apply", lambda *_, **__: pytest.fail("applied"))
    place.daemon.worker.look_at_volumes()
    room = place.daemon.board.room("tiny", "primary")
    assert room is not None
    assert room.free_bytes == 5_000_000


def test_a_target_that_is_not_reached_is_told_and_not_tried_over_and_over(place: Home, full: Full) -> None:
    full.free = 0
    for _ in range(5):
        place.daemon.worker.look_at_volumes()
    view = place.daemon.board.view("tiny")
    assert len(place.steps()) == 3
    (note,) = [note for note in view.attention if note.kind == "target-not-reached"]
    assert "short of" in note.detail
    looks = full.looks
    place.daemon.worker.look_at_volumes()
    assert full.looks - looks <= 1


def test_a_shortfall_is_tried_again_as_soon_as_a_save_was_published(place: Home, full: Full) -> None:
    full.free = 0
    place.daemon.worker.look_at_volumes()
    assert len(place.steps()) == 3
    for root in (place.primary, place.mirror):
        step_files(root, [700])
    place.daemon.worker.look_at_volumes()
    assert place.steps() == ["step_0500.pt", "step_0600.pt", "step_0700.pt"]


def test_a_pass_that_is_asked_for_deletes_nothing_either_right_after_the_clock_jumped(place: Home) -> None:
    wall, uptime = [10 * HOUR], [HOUR]
    place.daemon.worker._watches[OUT_OF_TURN] = ClockWatch(lambda: wall[0], lambda: uptime[0])
    wall[0] += 3 * DAY
    outcome = place.daemon.worker.apply_now(place.run)
    assert outcome is not None
    assert outcome.blocked is not None
    assert outcome.blocked.block == "clock-jumped"
    assert len(place.steps()) == 6
    outcome = place.daemon.worker.apply_now(place.run)
    assert outcome is not None
    assert len(outcome.deleted) == 6


def test_right_after_the_clock_jumped_no_room_is_made_until_files_had_time_to_show_it(place: Home, full: Full) -> None:
    wall, uptime = [10**18], [HOUR]
    place.daemon.worker.clocks = lambda: ClockWatch(lambda: wall[0], lambda: uptime[0])
    full.free = 5_000_000
    place.daemon.worker.look_at_volumes()
    full.free = 0
    wall[0] += 30 * DAY
    place.daemon.worker.look_at_volumes()
    wall[0], uptime[0] = wall[0] + MINUTE, uptime[0] + MINUTE
    place.daemon.worker.look_at_volumes()
    assert len(place.steps()) == 6
    wall[0], uptime[0] = wall[0] + 5 * MINUTE, uptime[0] + 5 * MINUTE
    place.daemon.worker.look_at_volumes()
    assert len(place.steps()) == 3


def test_what_is_short_on_one_replica_is_still_said_when_another_is_short_too(place: Home, full: Full) -> None:
    full.free = 0
    place.daemon.worker.look_at_volumes()
    (note,) = place.daemon.board.view("tiny").pressed
    elsewhere = replace(note, replica="mirror")
    place.daemon.worker._showing.pressed(Pressed(place.run, "mirror"), None, None, (elsewhere,))
    assert place.daemon.board.view("tiny").pressed == (note, elsewhere)
    place.daemon.worker._showing.relaxed("tiny", "primary")
    assert place.daemon.board.view("tiny").pressed == (elsewhere,)


def test_what_the_last_try_left_to_be_said_is_over_when_there_is_room(place: Home, full: Full) -> None:
    full.free = 0
    place.daemon.worker.look_at_volumes()
    assert place.daemon.board.view("tiny").pressed
    full.free = 5_000_000
    place.daemon.worker.look_at_volumes()
    assert not place.daemon.board.view("tiny").pressed


def test_a_run_that_a_pass_is_at_work_on_is_left_to_it(place: Home, full: Full) -> None:
    with place.daemon.worker._busy["tiny"]:
        place.daemon.worker.look_at_volumes()
    assert len(place.steps()) == 6


def untouched(path: Path) -> Any:
    """``os.stat`` that fails the test where it is asked for the path."""
    plain = os.stat

    def stat(asked: Any, *args: Any, **more: Any) -> Any:
        if asked == str(path):
            pytest.fail(f"{path} was touched")
        return plain(asked, *args, **more)

    return stat


def test_a_place_that_hangs_keeps_no_look_at_another_waiting(
    place: Home, full: Full, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = place.daemon.worker
    stuck = run_of(tmp_path / "stuck", name="stuck")
    monkeypatch.setattr("prune.service.worker.mounts", lambda: [
        Mount("/", "ext4", "8:1"), Mount(str(tmp_path / "stuck"), "nfs", "0:77")])  # fmt: skip
    use(place, replace(place.daemon.source.settings, runs=(place.run, stuck)))
    assert set(worker.places) == {"0:77", "8:1"}
    monkeypatch.setattr(os, "stat", untouched(tmp_path / "stuck"))
    worker.look_at("8:1")
    assert len(place.steps()) == 4
    worker.pass_over("here", (place.run,))  # nor does the end of a pass elsewhere touch it
    assert len(place.steps()) == 3


# --- mirror ----------------------------------------------------------------------------------------------------------


def test_the_mirror_job_copies_what_the_mirror_lacks(place: Home) -> None:
    (place.mirror / "step_0600.pt").unlink()
    place.daemon.worker.mirror(place.run)
    assert (place.mirror / "step_0600.pt").read_bytes() == (place.primary / "step_0600.pt").read_bytes()
    assert place.daemon.board.view("tiny").mirrored == ()


def test_a_mirror_that_is_not_there_is_told_and_over_once_it_is_back(place: Home) -> None:
    aside = place.mirror.with_name("unplugged")
    place.mirror.rename(aside)
    place.daemon.worker.mirror(place.run)
    assert "replica-unreachable" in {note.kind for note in place.daemon.board.view("tiny").attention}
    aside.rename(place.mirror)
    place.daemon.worker.mirror(place.run)
    assert place.daemon.board.view("tiny").mirrored == ()


# --- scrub -----------------------------------------------------------------------------------------------------------


def key(number: int) -> Any:
    return ("tiny", "primary", number, None)


def test_a_slice_is_an_even_share_of_the_period() -> None:
    deadlines = {key(n): 7 * DAY for n in range(70)}
    assert len(slice_of(deadlines, now_ns=0, period_ns=7 * DAY, gap_ns=DAY)) == 10


def test_what_would_be_late_at_the_next_tick_is_read_at_this_one() -> None:
    deadlines = {key(n): (HOUR if n < 30 else 7 * DAY) for n in range(70)}
    assert slice_of(deadlines, now_ns=0, period_ns=7 * DAY, gap_ns=DAY) == [key(n) for n in range(30)]


@pytest.mark.parametrize("copies", [1, 5, 7, 46, 1000])
def test_every_copy_is_read_at_least_once_in_each_period(copies: int) -> None:
    period, gap = 7 * DAY, DAY
    deadlines = {key(n): period for n in range(copies)}
    last_read = dict.fromkeys(deadlines, 0)
    for now in range(0, 6 * period, gap):
        for chosen in slice_of(deadlines, now_ns=now, period_ns=period, gap_ns=gap):
            assert now - last_read[chosen] <= period
            last_read[chosen], deadlines[chosen] = now, now + period
    assert all(5 * period <= at for at in last_read.values())


def test_a_slice_reads_kept_copies_and_finds_the_one_that_rotted(place: Home) -> None:
    place.pass_over()
    rotten = place.mirror / "step_0500.pt"
    data = bytearray(rotten.read_bytes())
    data[len(data) // 2] ^= 1
    times = rotten.stat()
    rotten.write_bytes(bytes(data))
    import os

    os.utime(rotten, ns=(times.st_atime_ns, times.st_mtime_ns))
    told: list[Any] = []
    found = Scrubber(told.append).scrub(
        place.daemon.source.settings, place.run, period_ns=DAY, gap_ns=DAY, now_ns=place.daemon.clock(), stop=Stop()
    )
    assert len(found) >= 5
    assert [(matter.kind, matter.replica) for matter in told] == [("damage", "mirror")]
    assert "step 500" in told[0].detail


def test_a_wish_to_stop_ends_a_slice(place: Home) -> None:
    stop = Stop()
    stop.request()
    assert Scrubber(lambda _: None).scrub(
        place.daemon.source.settings, place.run, period_ns=DAY, gap_ns=DAY, now_ns=place.daemon.clock(), stop=stop
    ) == []  # fmt: skip


def test_checkpoints_that_a_resume_passed_over_are_counted_for_the_metrics(place: Home) -> None:
    place.pass_over()
    assert place.daemon.board.view("tiny").fallbacks == 0
    newest = place.primary / "step_0600.pt"
    newest.write_bytes(newest.read_bytes()[:100])
    journal = open_journal(place.daemon.source.settings.state, write=True)
    found = find(place.run, Terms(checking.Means("sha256")), journal)
    journal.close()
    assert found.candidate is not None
    place.pass_over()
    assert place.daemon.board.view("tiny").fallbacks == 1
    assert b'prune_resume_fallbacks_total{run="tiny"} 1.0' in place.daemon.metrics.text()
