"""The order in which room is made, and when it stops."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from prune import engine
from prune.errors import UsageError
from prune.holds import pin
from prune.model import RunOutcome
from prune.pressure import Relief, Wish, make_room, relieve
from prune.pressure.relief import Pressed
from prune.settings.schema import Keep, Pressure, RunSettings, Settings
from tests.pressure.disk import MIB, Disk
from tests.runs import deleted_steps, run_of, settings_of
from tests.trees.build import age, mirrored, names, step_files


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Ten checkpoints of 1 MiB, steps 100 to 1000."""
    return step_files(tmp_path / "primary", range(100, 1001, 100), size=MIB)


def relief_of(run: RunSettings, disk: Disk, state: Path, *, free: int, replica: str = "primary") -> Relief:
    settings = settings_of(run, state=state)
    return relieve(settings, [Pressed(run, replica)], Wish(free), means=disk.means())


def only(relief: Relief) -> RunOutcome:
    (outcome,) = relief.outcome.runs
    return outcome


def steps_in(root: Path) -> list[int]:
    return sorted(int(name.removeprefix("step_").removesuffix(".pt")) for name in names(root) if name.endswith(".pt"))


def test_it_stops_as_soon_as_the_target_is_reached_and_not_at_the_last_victim(root: Path, state: Path) -> None:
    disk = Disk(12 * MIB, (root,))
    relief = relief_of(run_of(root, last=2), disk, state, free=4 * MIB)
    assert relief.reached
    assert deleted_steps(only(relief)) == [100, 200]


def test_where_there_is_room_nothing_is_taken_and_nothing_is_listed(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "plan_run", lambda *_, **__: pytest.fail("the root was listed"))
    relief = relief_of(run_of(root, last=2), Disk(100 * MIB, (root,)), state, free=4 * MIB)
    assert relief.reached
    assert relief.outcome.runs == ()
    assert len(steps_in(root)) == 10
    assert not (root / ".prune").exists()


def test_pressure_never_goes_below_keep_last_unless_it_is_allowed_to(root: Path, state: Path) -> None:
    disk = Disk(10 * MIB, (root,))
    relief = relief_of(run_of(root, last=8), disk, state, free=9 * MIB)
    assert not relief.reached
    assert steps_in(root) == list(range(300, 1001, 100))


def test_n_is_lowered_one_at_a_time_and_no_further_than_needed(root: Path, state: Path) -> None:
    run = run_of(root, last=8, pressure=Pressure(keep_last=3))
    relief = relief_of(run, Disk(10 * MIB, (root,)), state, free=4 * MIB)
    assert relief.reached
    assert steps_in(root) == list(range(500, 1001, 100))


def test_n_is_lowered_to_its_floor_and_the_shortfall_says_who_stays_and_why(root: Path, state: Path) -> None:
    run = run_of(root, last=8, keep=Keep(last=8, every=1000), pressure=Pressure(keep_last=3))
    relief = relief_of(run, Disk(10 * MIB, (root,)), state, free=9 * MIB)
    assert steps_in(root) == [800, 900, 1000]
    assert not relief.reached
    (note,) = [note for note in relief.attention if note.kind == "target-not-reached"]
    assert "2.0 MiB short of 9.0 MiB free" in note.detail
    assert "3 last" in note.detail


def test_guards_hold_under_any_pressure(root: Path, state: Path) -> None:
    run = run_of(root, last=8, pressure=Pressure(keep_last=1))
    pin(run, 200, reason="the baseline of the paper", now_ns=time.time_ns())
    relief = relief_of(run, Disk(10 * MIB, (root,)), state, free=100 * MIB)
    assert 200 in steps_in(root)
    assert any("200 pinned" in note.detail and "baseline" in note.detail for note in relief.attention)


def test_a_step_goes_on_both_sides_whichever_is_short(root: Path, tmp_path: Path, state: Path) -> None:
    mirror = mirrored(root, tmp_path / "mirror")
    run = run_of(root, mirror, last=2)
    relief = relief_of(run, Disk(11 * MIB, (mirror,)), state, free=3 * MIB, replica="mirror")
    assert relief.reached
    assert steps_in(root) == steps_in(mirror) == list(range(300, 1001, 100))


def test_trash_goes_first_even_before_its_time(root: Path, state: Path) -> None:
    run = run_of(root, last=8, grace=10**15)
    engine.apply(settings_of(run, state=state))
    assert steps_in(root) == list(range(300, 1001, 100))
    disk = Disk(10 * MIB, (root,))
    assert disk.space().free_bytes == 0
    relief = relief_of(replace(run, keep=Keep(last=2)), disk, state, free=2 * MIB)
    assert relief.reached
    assert steps_in(root) == list(range(300, 1001, 100))
    assert relief.sentence == "room was made: 0 copies deleted, 2.0 MiB more are free"


def test_trash_of_a_blocked_run_stays_since_it_may_have_to_be_put_back(root: Path, tmp_path: Path, state: Path) -> None:
    mirror = mirrored(root, tmp_path / "mirror")
    run = run_of(root, mirror, last=8, grace=10**15)
    engine.apply(settings_of(run, state=state))
    mirror.rename(tmp_path / "unplugged")
    trash = len(list((root / ".prune" / "trash").iterdir()))
    relief = relief_of(run, Disk(10 * MIB, (root,)), state, free=5 * MIB)
    assert not relief.reached
    assert len(list((root / ".prune" / "trash").iterdir())) == trash == 2


def test_orphans_past_their_time_go_before_any_checkpoint(root: Path, state: Path) -> None:
    orphan = root / "step_1100.pt.part"
    orphan.write_bytes(b"x" * MIB)
    age(orphan, 25 * 3600)
    disk = Disk(11 * MIB, (root,))
    relief = relief_of(run_of(root, last=2), disk, state, free=MIB)
    assert relief.reached
    assert only(relief).orphans_deleted == (("primary", "step_1100.pt.part", orphan_bytes(relief)),)
    assert len(steps_in(root)) == 10


def orphan_bytes(relief: Relief) -> int:
    return only(relief).orphans_deleted[0][2]


def test_a_young_temporary_is_never_taken_for_room(root: Path, state: Path) -> None:
    part = root / "step_1100.pt.part"
    part.write_bytes(b"x" * MIB)
    age(part, 3600)
    relief_of(run_of(root, last=2), Disk(11 * MIB, (root,)), state, free=100 * MIB)
    assert part.exists()


def test_the_first_step_without_gain_ends_it_and_says_so(root: Path, state: Path) -> None:
    disk = Disk(10 * MIB, (root,))
    free = disk.space().free_bytes

    def snapshots_hold_everything(disk: Disk) -> None:
        disk.pinned = disk.capacity - sum_of(root) - free

    disk.on_look = snapshots_hold_everything
    relief = relief_of(run_of(root, last=2), disk, state, free=8 * MIB)
    assert not relief.reached
    assert deleted_steps(only(relief)) == [100]
    (note,) = [note for note in relief.attention if note.kind == "no-gain"]
    assert "expected 1.0 MiB, gained 0 B" in note.detail
    assert "snapshots, hard links or open files?" in note.mend


def sum_of(root: Path) -> int:
    from tests.pressure.disk import used_below

    return used_below(root)


def test_files_with_other_links_free_nothing_and_end_it_after_one_step(root: Path, tmp_path: Path, state: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in os.listdir(root):
        os.link(root / name, tmp_path / "elsewhere" / name)
    relief = relief_of(run_of(root, last=2), Disk(10 * MIB, (tmp_path / "elsewhere",)), state, free=8 * MIB)
    assert len(deleted_steps(only(relief))) == 1
    assert relief.freed_nothing
    assert any("other links hold its files" in note.detail for note in relief.attention)


def test_empty_files_that_a_full_disk_left_do_not_end_it(root: Path, state: Path) -> None:
    for step in (100, 200):
        (root / f"step_{step:04d}.pt").write_bytes(b"")
        age(root / f"step_{step:04d}.pt", 30 * 24 * 3600)
    relief = relief_of(run_of(root, last=2), Disk(10 * MIB, (root,)), state, free=5 * MIB)
    assert relief.reached
    assert deleted_steps(only(relief)) == [100, 200, 300, 400, 500]


def test_space_that_comes_back_late_is_waited_for(root: Path, state: Path) -> None:
    disk = Disk(12 * MIB, (root,), late_looks=1)
    relief = relief_of(run_of(root, last=2), disk, state, free=5 * MIB)
    assert relief.reached
    assert deleted_steps(only(relief)) == [100, 200, 300]
    assert disk.slept > 0


def test_data_of_others_costs_no_checkpoint_that_policy_wants(root: Path, state: Path) -> None:
    run = run_of(root, last=8, pressure=Pressure(keep_last=1))
    disk = Disk(200 * MIB, (root,), foreign=190 * MIB)
    relief = relief_of(run, disk, state, free=20 * MIB)
    assert not relief.reached
    assert steps_in(root) == list(range(300, 1001, 100))
    kinds = [note.kind for note in relief.attention]
    assert "foreign-data" in kinds
    assert "target-not-reached" in kinds


def test_a_writer_that_takes_what_was_freed_is_not_mistaken_for_no_gain(root: Path, state: Path) -> None:
    disk = Disk(12 * MIB, (root,))

    def somebody_writes(disk: Disk) -> None:
        disk.foreign += MIB // 2 if disk.looks < 12 else 0

    disk.on_look = somebody_writes
    relief = relief_of(run_of(root, last=2), disk, state, free=2 * MIB)
    assert not relief.freed_nothing


def test_runs_on_one_volume_give_up_trash_and_policy_s_steps_before_any_gives_up_more(
    tmp_path: Path, state: Path
) -> None:
    one = step_files(tmp_path / "one", range(100, 601, 100), size=MIB)
    two = step_files(tmp_path / "two", range(100, 601, 100), size=MIB)
    runs = [
        run_of(one, last=6, name="one", pressure=Pressure(keep_last=1)),
        run_of(two, last=2, name="two", pressure=Pressure(keep_last=1)),
    ]
    settings = settings_of(*runs, state=state)
    disk = Disk(12 * MIB, (one, two))
    relief = relieve(settings, [Pressed(run, "primary") for run in runs], Wish(4 * MIB), means=disk.means())
    assert relief.reached
    assert len(steps_in(one)) == 6
    assert len(steps_in(two)) == 2


def test_make_room_names_what_it_wanted_and_what_it_reached(root: Path, state: Path) -> None:
    disk = Disk(12 * MIB, (root,))
    relief = make_room(settings_of(run_of(root, last=2), state=state), 3 * MIB, means=disk.means())
    assert (relief.wish.bytes, relief.reached) == (3 * MIB, True)
    assert only(relief).free_before["primary"] == 2 * MIB
    assert only(relief).free_after["primary"] == 3 * MIB


def test_make_room_on_an_unknown_replica_is_refused(root: Path, state: Path) -> None:
    with pytest.raises(UsageError, match="cloud"):
        make_room(settings_of(run_of(root, last=2), state=state), MIB, on="cloud")


def test_make_room_takes_nothing_where_a_run_is_blocked_and_says_so(root: Path, tmp_path: Path, state: Path) -> None:
    run = run_of(root, tmp_path / "not-mounted", last=2)
    relief = make_room(Settings((run,), state=f"sqlite:///{state}"), 100 * MIB, means=Disk(10 * MIB, (root,)).means())
    assert len(steps_in(root)) == 10
    assert not relief.reached
    assert only(relief).blocked is not None
    assert "replica-unreachable" in relief.attention[0].detail
