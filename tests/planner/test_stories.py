"""What went wrong for other people, at the size of a plan: each with the outcome that it has here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prune.model import Block, Decision, Health, Pick, Pin, Pointer, PointerState
from prune.settings.schema import DAY, HOUR, MINUTE, SECOND, Keep, Share
from tests.inventories import NOW, Case, blocks, case, copy, gone, held, kinds, reasons, stays, temporary

GOOD = Health.INTACT


def candidate(run: Case) -> int | None:
    found = run.plan().resume_candidate
    return found.step if found else None


# Order.


def test_times_made_up_by_storage_do_not_cost_the_newest_checkpoint() -> None:
    at = dict.fromkeys([400, 600, 800], NOW - 3 * DAY) | {1000: NOW - 3 * DAY - HOUR}
    run = case(at, at, keep=Keep(last=3), at=at)
    assert [(step.step, sorted(step.bytes)) for step in run.plan().victims] == [(400, ["mirror", "primary"])]
    assert candidate(run) == 1000


def test_the_first_save_of_a_new_run_in_a_used_folder_is_not_deleted() -> None:
    at = dict.fromkeys([500, 600, 700], NOW - 6 * DAY) | {100: NOW - 20 * MINUTE}
    plan = case(at, at, keep=Keep(last=3), at=at).plan()
    assert gone(plan) == []
    assert kinds(plan) == ["rewound"]


def test_runs_of_one_checkpoint_each_say_that_they_are_within_their_limit() -> None:
    plans = [case([100], [100], keep=Keep(last=3)).plan() for _ in range(6)]
    assert all(gone(plan) == [] and "within the limit of 3" in plan.notes[0] for plan in plans)


def test_numbers_are_compared_as_numbers() -> None:
    assert gone(case([9, 10, 99, 100, 1000], keep=Keep(last=2)).plan()) == [9, 10, 99]


# In flight.


def test_the_only_whole_checkpoint_stays_while_the_next_is_being_written_and_after_its_writer_died() -> None:
    writing = case([100], [100], keep=Keep(last=1)).but(temporaries=(temporary(200, at=NOW),))
    assert stays(writing.plan()) == [100]
    assert candidate(writing.later(HOUR)) == 100
    assert gone(writing.later(HOUR).plan()) == []
    half = case([100, 200], [100], keep=Keep(last=1)).but(copy(200, health=GOOD))
    assert gone(half.plan()) == []
    assert gone(case([100, 200], [100, 200], keep=Keep(last=1)).plan()) == [100]


def test_staged_saves_fill_no_place_and_dead_ones_fall_under_their_own_rule() -> None:
    run = case([100, 200, 300]).but(
        temporaries=(temporary(400, at=NOW - 10 * SECOND), temporary(250, at=NOW - 5 * HOUR)), foreign=2
    )
    plan = run.plan()
    assert gone(plan) == [100]
    assert [(o.path, o.decision, o.reason) for o in plan.orphans] == [
        ("step_250.pt.part", Decision.KEEP, "younger-than-1d"),
        ("step_400.pt.part", Decision.KEEP, "in-flight"),
    ]
    assert plan.foreign == 2


# Partial and damaged.


def test_a_killed_save_takes_no_place_and_resuming_passes_it_over() -> None:
    run = case([100, 200, 300], [100, 200]).but(copy(300, health=Health.BROKEN, detail="no manifest"))
    assert gone(run.plan()) == []
    assert candidate(run) == 200


def test_failed_saves_do_not_fill_the_places_of_good_ones() -> None:
    steps = [100, 200, 300, 400, 500]
    failed = [
        copy(step, name, health=Health.BROKEN, detail="model.bin has 0 bytes")
        for step in (300, 400, 500)
        for name in ("primary", "mirror")
    ]
    run = case(steps, steps).but(*failed)
    assert gone(run.plan()) == []
    assert [a.detail.count("0 bytes") for a in run.plan().attention] == [3, 3]
    after = run.but(copy(600), copy(600, "mirror"))
    assert gone(after.plan()) == [100]
    assert [step for step, why in reasons(after.plan()).items() if why == ["last"]] == [200, 600]


@pytest.mark.parametrize("why", ["mode 000", "truncated JSON", "EIO"])
def test_what_cannot_be_read_now_is_unknown_and_neither_an_orphan_nor_a_keeper_of_a_place(why: str) -> None:
    run = case([100, 200, 300, 400]).but(copy(300, health=Health.UNKNOWN, detail=why))
    assert reasons(run.plan()) == {100: [], 200: ["last"], 300: ["newer-than-cutoff"], 400: ["last"]}
    assert kinds(run.plan()) == ["unreadable"]
    assert why in run.plan().attention[0].detail


def test_a_pointer_to_an_incomplete_checkpoint_does_not_make_the_whole_one_deletable() -> None:
    run = case([700, 800], [700, 800], keep=Keep(last=1)).but(
        *(copy(800, name, health=Health.BROKEN, detail="rank-3 is missing") for name in ("primary", "mirror")),
        pointers=(Pointer("primary", "latest", 800, PointerState.OK),),
        picks={"primary": Pick(800, "step_0800.pt", "latest")},
    )
    assert stays(run.plan()) == [700, 800]
    assert candidate(run) == 700
    assert "damaged-pick" in kinds(run.plan())


# Pointer, resume source, pins.


def test_what_another_run_resumed_from_stays_while_that_run_names_it() -> None:
    source = Pin(900, "run2 resumed from it", "run2", NOW)
    run = case([900, 1000], [900, 1000], keep=Keep(last=1))
    bad = run.but(copy(1000, health=Health.BROKEN), copy(1000, "mirror", health=Health.BROKEN), pins=(source,))
    assert gone(bad.plan()) == []
    assert gone(run.but(pins=(source,)).plan()) == []
    assert held(run.but(pins=(source,)).plan()) == {900: ["pinned"]}
    assert gone(run.plan()) == [900]


def test_neither_the_target_of_a_lagging_pointer_nor_the_newest_goes() -> None:
    run = case([600, 700], [600, 700], keep=Keep(last=1)).but(
        pointers=(Pointer("primary", "latest", 600, PointerState.OK),)
    )
    assert held(run.plan()) == {600: ["resume-candidate"]}
    assert candidate(run) == 700


def test_a_run_of_which_nothing_restores_loses_nothing_and_has_no_candidate() -> None:
    run = case([100, 200, 300], keep=Keep(last=1))
    broken = run.but(*(copy(step, health=Health.BROKEN) for step in (100, 200, 300)))
    assert (gone(broken.plan()), candidate(broken)) == ([], None)
    assert candidate(case([500])) == 500  # without any pointer


# The mirror.


def test_a_mirror_that_is_away_stops_the_primary_from_running_ahead() -> None:
    six = [100, 200, 300, 400, 500, 600]
    away = case(six, []).replica("mirror", listed=False)
    assert (gone(away.plan()), blocks(away.plan())) == ([], ["replica-unreachable"])
    back = case(six, [100, 200, 300])
    assert gone(back.plan()) == [100]  # 200 and 300 are the newest that both have
    one = case(six, [100, 200, 300, 600])
    assert gone(one.plan()) == [100, 200]
    assert gone(case(six, [100, 200, 300, 500, 600]).plan()) == [100, 200, 300, 400]


def test_left_overs_on_the_mirror_go_by_their_numbers_once_they_are_not_fresh() -> None:
    run = case([500, 600], [100, 200, 300, 400, 500, 600]).but(
        *(copy(step, "mirror", at=NOW - 2 * MINUTE) for step in (100, 200, 300, 400, 500, 600))
    )
    assert held(run.plan()) == {step: ["in-flight"] for step in (100, 200, 300, 400)}
    assert run.plan().notes == ("4 checkpoints held back, modified only moments ago: aligned in 3 min",)
    assert [(step.step, list(step.bytes)) for step in run.later(6 * MINUTE).plan().victims] == [
        (step, ["mirror"]) for step in (100, 200, 300, 400)
    ]


@pytest.mark.parametrize("side", ["primary", "mirror"])
def test_a_side_that_shows_itself_empty_costs_the_other_nothing(side: str) -> None:
    steps = [100, 200, 300, 400]
    run = case([] if side == "primary" else steps, [] if side == "mirror" else steps)
    assert gone(run.plan()) == []
    vanished = Block("replica-vanished", side, "held 4 steps before, now none")
    assert blocks(run.but(blocks=(vanished,)).plan()) == ["replica-vanished"]


def test_on_a_new_and_empty_mirror_nothing_may_rest() -> None:
    assert gone(case([100, 200, 300, 400], []).plan()) == []
    assert gone(case([100, 200, 300, 400], [300, 400]).plan()) == [100, 200]


def test_when_both_sides_differ_neither_is_taken_for_the_good_one() -> None:
    run = case([300, 400, 500], [300, 400, 500], keep=Keep(last=2))
    flipped = run.but(copy(500, content="a"), copy(500, "mirror", content="b"))
    assert gone(flipped.plan()) == []
    assert kinds(flipped.plan()) == ["differs"]
    told = run.but(copy(500, "mirror", health=Health.BROKEN), copy(500, health=GOOD))
    assert gone(told.plan()) == []
    assert candidate(told) == 500


# Clocks.


def test_a_time_in_the_future_is_neither_the_newest_nor_a_new_run() -> None:
    steps = [100, 200, 300, 400, 500]
    run = case(steps, temporaries=(temporary(600),), foreign=1).but(copy(200, at=NOW + 40 * DAY))
    plan = run.plan()
    assert (gone(plan), stays(plan), held(plan)) == ([100, 300], [400, 500], {200: ["in-flight"]})
    assert "mtime in the future" in plan.steps[1].guards[0].detail
    assert [orphan.decision for orphan in plan.orphans] == [Decision.KEEP]
    assert "clock-skew" not in kinds(run.but(skew_seconds=60.0).plan())


def test_a_clock_that_jumped_blocks_and_one_that_went_back_makes_nothing_old() -> None:
    at = {200: NOW - HOUR, 300: NOW - 30 * SECOND}
    run = case(at, keep=Keep(last=1), at=at).but(
        copy(300, at=at[300], health=Health.IN_FLIGHT), temporaries=(temporary(400, at=NOW - 30 * SECOND),)
    )
    jumped = run.later(90 * DAY).but(blocks=(Block("clock-jumped", None, "the clock moved 90 d"),)).plan()
    assert gone(jumped) == []
    assert [orphan.decision for orphan in jumped.orphans] == [Decision.KEEP]
    back = run.later(-90 * DAY).plan()
    assert gone(back) == []
    assert [orphan.reason for orphan in back.orphans] == ["in-flight"]


@pytest.mark.parametrize("nobodys", [0, -11_644_473_600 * SECOND, 315_532_800 * SECOND])
def test_a_file_system_that_makes_times_up_costs_nothing_and_is_told(nobodys: int) -> None:
    steps = [100, 200, 300, 400, 500, 600]
    plan = case(steps, steps).but(*(copy(step, "mirror", at=nobodys) for step in steps)).plan()
    assert gone(plan) == []
    assert plan.attention[0].detail.startswith("4 checkpoints held: unknown mtime")


def test_one_file_of_time_zero_holds_the_whole_step() -> None:
    steps = [100, 200, 300, 400]
    assert gone(case(steps, steps).but(copy(100, "mirror", oldest=0)).plan()) == [200]


# Settings and preview.


def test_no_age_takes_the_newest_good_one_however_long_nothing_new_comes() -> None:
    run = case([100, 200, 300], [100, 200, 300], keep=Keep(last=1, within=HOUR, daily=1)).later(60 * DAY)
    assert 300 in stays(run.plan())


def test_lowering_n_from_thirty_to_two_needs_a_word_where_there_is_a_brake() -> None:
    steps = range(100, 3100, 100)
    run = case(steps, steps, keep=Keep(last=2)).guarding(max_delete=Share(50.0))
    assert blocks(run.plan()) == ["too-many"]
    assert len(gone(run.plan(allow_many=True))) == 28


def test_a_plan_made_anew_spares_what_was_pointed_at_meanwhile() -> None:
    steps = [100, 200, 300, 400, 500, 600]
    run = case(steps, steps, keep=Keep(last=3))
    planned = gone(run.plan())
    meanwhile = run.but(copy(700), copy(700, "mirror"), pointers=(Pointer("primary", "latest", 300, PointerState.OK),))
    assert planned == [100, 200, 300]
    assert [step for step in planned if step in gone(meanwhile.plan())] == [100, 200]


def test_the_same_plan_comes_out_every_time() -> None:
    steps = range(100, 1100, 100)
    run = case(steps, steps, steps, keep=Keep(last=3, daily=2, every=500))
    assert run.plan() == run.plan() == replace(run).plan()
