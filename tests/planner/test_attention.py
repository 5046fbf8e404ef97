"""What a person is told, with the mend, and what is not worth a word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prune.model import Attention, Block, Health, Lease, Pick, Pin, Pointer, PointerState, RunPlan
from prune.settings.schema import DAY, HOUR, MINUTE, Keep
from tests.inventories import CLOUD, GIB, NOW, OLD, Case, case, copy, kinds

STEPS = [100, 200, 300]


def told(plan: RunPlan, kind: str) -> Attention:
    (found,) = [attention for attention in plan.attention if attention.kind == kind]
    return found


def lagging(**budget: int) -> Case:
    run = case(STEPS, None, [100, 200], at={100: NOW - 9 * HOUR, 200: NOW - 6 * HOUR, 300: NOW - 3 * HOUR})
    declared = tuple(replace(s, **budget) if s.name == CLOUD.name else s for s in run.run.replicas)  # type: ignore[arg-type]
    return replace(run, run=replace(run.run, replicas=declared))


def test_a_run_in_order_calls_for_no_attention() -> None:
    assert kinds(case(STEPS, STEPS, STEPS).plan()) == []


def test_what_was_met_while_gathering_is_told_first_and_once() -> None:
    met = Attention("met", "mirror", "b", "mend")
    other = Attention("met", "mirror", "a", "mend")
    plan = case([], []).but(attention=(met, other, met)).plan()
    assert plan.attention[:2] == (other, met)
    assert kinds(plan) == ["met", "met", "not-aligned"]


# Not aligned.


def test_what_a_mirror_lacks_is_mended_by_mirroring() -> None:
    attention = told(case(STEPS, [100]).plan(), "not-aligned")
    assert attention.detail.startswith("1 of the wanted 2 restore on every required replica: nothing is deleted")
    assert attention.mend == "prune mirror (it copies steps 200 and 300 to where they are missing or damaged)"


def test_mirroring_is_said_to_copy_no_more_than_what_is_wanted() -> None:
    attention = told(case([100, 200, 300, 400], [], keep=Keep(last=2)).plan(), "not-aligned")
    assert attention.mend == "prune mirror (it copies steps 300 and 400 to where they are missing or damaged)"


def test_steps_that_hold_weights_alone_are_named_as_what_does_not_count() -> None:
    thin = [replace(copy(step), weights_only=True) for step in STEPS[:2]]
    mend = told(case(STEPS, keep=Keep(last=2)).but(*thin).plan(), "not-aligned").mend
    assert mend == (
        "further saves replace steps 100 and 200: weights alone bring no run back; with keep.full thinned ones count"
    )


def test_what_no_mirror_is_given_is_not_said_to_be_mended_by_mirroring() -> None:
    linked = copy(300, link="step_0300.pt is a symlink")
    some = case(STEPS, [100], keep=Keep(last=3)).but(linked).plan()
    assert "copies step 200 to" in str(told(some, "not-aligned").mend)
    mend = told(case(STEPS, [100, 200], keep=Keep(last=3)).but(linked).plan(), "not-aligned").mend
    assert mend == "no mirror is given step 300: step_0300.pt is a symlink"


def test_a_young_run_needs_nothing_but_more_saves() -> None:
    assert "2 more saves will do" in told(case(STEPS, keep=Keep(last=5)).plan(), "not-aligned").mend


def test_a_mirror_that_is_away_must_be_made_reachable() -> None:
    assert told(case(STEPS, []).replica("mirror", listed=False).plan(), "not-aligned").mend == "make mirror reachable"


def test_where_all_is_damaged_verifying_tells_more() -> None:
    broken = [copy(step, health=Health.BROKEN) for step in STEPS]
    assert "prune verify" in told(case(STEPS).but(*broken).plan(), "not-aligned").mend


def test_it_is_told_when_the_disk_is_full() -> None:
    at = {step: NOW - HOUR * (4 - step // 100) for step in STEPS}
    run = case(STEPS, [], at=at).replica("primary", free_bytes=10 * GIB)
    assert told(run.plan(), "not-aligned").detail.endswith("; the disk is full in about 10h")
    still = case(STEPS, []).replica("primary", free_bytes=10 * GIB)
    assert told(still.plan(), "not-aligned").detail.endswith("; room is left for 10 more saves")
    unknown = case([], []).replica("primary", free_bytes=10 * GIB)
    assert told(unknown.plan(), "not-aligned").detail.endswith("nothing is deleted")


# Health.


def test_damage_at_or_above_the_cutoff_is_told_with_what_mends_it() -> None:
    run = case([100, 200, 300, 400, 500], [100, 200, 300, 400, 500]).but(
        copy(100, health=Health.BROKEN),
        copy(300, "mirror", health=Health.BROKEN, detail="0 bytes"),
        copy(400, "mirror", health=Health.SUSPECT),
        copy(500, "primary", health=Health.BROKEN),
        copy(500, "mirror", health=Health.BROKEN),
    )
    assert run.plan().cutoff is None
    below = run.keeping(last=1).plan()  # the cutoff is 200
    assert [(a.replica, a.detail, a.mend) for a in below.attention] == [
        ("mirror", "steps 300 (broken: 0 bytes) and 400 (suspect)", "prune mirror (another replica holds a good copy)"),
        ("primary", "step 500 (broken)", below.attention[1].mend),
        ("mirror", "step 500 (broken)", below.attention[1].mend),
    ]
    assert "training resumes from an older step" in below.attention[1].mend


def test_damage_on_the_primary_is_mended_from_the_mirror() -> None:
    plan = case(STEPS, STEPS).keeping(last=1).but(copy(300, health=Health.BROKEN)).plan()
    assert "prune resume --restore" in told(plan, "damaged").mend


def test_many_damaged_copies_are_counted_beyond_the_first_few() -> None:
    steps = range(100, 1100, 100)
    plan = case(steps, steps, keep=Keep(last=1)).but(*(copy(s, "mirror", health=Health.BROKEN) for s in steps)).plan()
    assert told(plan, "damaged").detail.endswith("500 (broken) and 5 more")


def test_a_copy_that_could_not_be_examined_is_told_apart_from_a_damaged_one() -> None:
    plan = case(STEPS, STEPS).keeping(last=1).but(copy(300, "mirror", health=Health.UNKNOWN, detail="EIO")).plan()
    assert kinds(plan) == ["unreadable"]
    assert "300 (EIO)" in plan.attention[0].detail


def test_steps_that_differ_between_replicas_are_told() -> None:
    plan = case(STEPS, STEPS).keeping(last=1).but(copy(300, content="a"), copy(300, "mirror", content="b")).plan()
    assert kinds(plan) == ["differs"]
    assert plan.attention[0].replica == "mirror"


def test_a_trainer_that_would_pick_a_damaged_checkpoint_is_told_of() -> None:
    run = case(STEPS, STEPS).keeping(last=1).but(picks={"primary": Pick(300, "step_0300.pt", "highest number")})
    assert kinds(run.plan()) == []
    assert "damaged-pick" in kinds(run.but(copy(300, health=Health.BROKEN)).plan())


# Guards that hold.


def test_unknown_times_are_counted_by_replica() -> None:
    steps = [100, 200, 300, 400, 500, 600]
    plan = case(steps, steps).but(*(copy(step, "mirror", at=0) for step in steps)).plan()
    attention = told(plan, "unknown-mtime")
    assert attention.replica == "mirror"
    assert attention.detail == "4 checkpoints held: unknown mtime (steps 100, 200, 300 and 400)"
    assert 'unknown_mtime = "observe"' in attention.mend


def test_a_time_in_the_future_is_told_since_it_holds_until_then() -> None:
    plan = case(STEPS, STEPS).but(copy(100, "mirror", at=NOW + 40 * DAY)).plan()
    assert kinds(plan) == ["future-mtime"]
    assert plan.attention[0].detail == "1 checkpoint held: mtime in the future (step 100)"


def test_what_is_held_for_more_than_a_week_is_told_with_how_to_let_go() -> None:
    at = {100: NOW - 8 * DAY, 200: NOW - 6 * DAY, 300: NOW - 5 * DAY}
    run = case(at, at, keep=Keep(last=1), at=at).but(
        pointers=(Pointer("mirror", "latest", 100, PointerState.OK),), leases=(Lease(200, "eval", NOW + HOUR),)
    )
    assert kinds(run.plan()) == ["held-long"]
    assert run.plan().attention[0].detail == "step 100 held by resume-candidate, and older than a week"
    two_days_on = run.later(2 * DAY).but(leases=(Lease(200, "eval", NOW + 9 * DAY),)).plan()
    assert [a.detail.partition(",")[0] for a in two_days_on.attention] == [
        "step 100 held by resume-candidate",
        "step 200 held by leased",
    ]


def test_a_pin_is_no_news_however_long_it_holds() -> None:
    at = {100: NOW - 80 * DAY, 200: NOW - 6 * DAY}
    assert kinds(case(at, at, keep=Keep(last=1), at=at, pins=(Pin(100, "why", "me", 0),)).plan()) == []


# Replicas.


@pytest.mark.parametrize(
    ("budget", "detail"),
    [
        ({}, None),
        ({"max_lag_steps": 100}, None),
        ({"max_lag_steps": 99}, "it is at step 200, 100 steps behind; its budget is 99"),
        ({"max_lag_ns": 3 * HOUR}, None),
        ({"max_lag_ns": 3 * HOUR - 1}, "it is 3h behind; its budget is 2h 59m"),
    ],
)
def test_an_optional_mirror_behind_its_budget_is_told(budget: dict[str, int], detail: str | None) -> None:
    assert [a.detail for a in lagging(**budget).plan().attention] == ([detail] if detail else [])


def test_a_mirror_with_a_budget_and_nothing_that_restores_is_behind() -> None:
    empty = lagging(max_lag_steps=1000).without(100, "cloud").without(200, "cloud")
    assert told(empty.plan(), "mirror-behind").detail == "it holds nothing that restores, and primary is at step 300"


def test_a_lag_that_cannot_be_told_is_not_taken_for_none() -> None:
    run = lagging(max_lag_ns=HOUR).but(copy(300, at=0))
    assert "cannot be told" in told(run.plan(), "mirror-behind").detail


def test_an_optional_mirror_that_has_all_or_more_is_not_behind() -> None:
    assert kinds(lagging(max_lag_steps=1).but(copy(300, "cloud")).plan()) == []
    assert kinds(lagging(max_lag_steps=1).but(copy(400, "cloud")).plan()) == []


def test_trouble_that_the_gatherer_told_is_not_told_again() -> None:
    met = Attention("replica-unreachable", "cloud", "no route to host", "…")
    assert kinds(lagging().replica("cloud", listed=False).but(attention=(met,)).plan()) == ["replica-unreachable"]


def test_a_block_met_on_an_optional_mirror_becomes_attention() -> None:
    plan = lagging().but(blocks=(Block("listing-incomplete", "cloud", "EIO"),)).plan()
    assert (kinds(plan), plan.blocks) == (["listing-incomplete"], ())


def test_a_dangling_pointer_is_mended_by_what_is_there() -> None:
    def pointing(step: int | None) -> Attention:
        pointer = Pointer("primary", "latest", step, PointerState.DANGLING, "no such directory")
        return told(case(STEPS, STEPS).but(pointers=(pointer,)).plan(), "pointer-dangling")

    assert pointing(900).detail == "latest names step 900, which is not there: no such directory"
    assert pointing(900).mend == "point it at step 300, the newest that restores"
    assert "a checkpoint" in pointing(None).detail
    assert "prune mirror" in pointing(300).mend


@pytest.mark.parametrize(("skew", "word"), [(61.0, "ahead of"), (-61.0, "behind"), (float("inf"), "ahead of")])
def test_clocks_that_are_more_than_a_minute_apart_are_told(skew: float, word: str) -> None:
    assert word in told(case(STEPS, STEPS).but(skew_seconds=skew).plan(), "clock-skew").detail


@pytest.mark.parametrize("skew", [None, 0.0, 60.0, -60.0, float("nan")])
def test_clocks_within_a_minute_are_not_worth_a_word(skew: float | None) -> None:
    assert kinds(case(STEPS, STEPS).but(skew_seconds=skew).plan()) == []


def test_a_trainer_that_deletes_too_is_told_of() -> None:
    run = case([400, 500], [100, 200, 300, 400, 500], keep=Keep(last=3))
    assert "at least 4" in told(run.plan(), "trainer-rotates").mend
    assert "trainer-rotates" not in kinds(run.keeping(last=2).plan())
    assert "trainer-rotates" not in kinds(case([100, 200], [100, 200], keep=Keep(last=3)).plan())
    assert "trainer-rotates" not in kinds(case([], [100, 200], keep=Keep(last=3)).plan())


def test_a_volume_needs_room_for_one_more_than_it_keeps() -> None:
    run = case(STEPS, STEPS)
    assert kinds(run.replica("mirror", total_bytes=3 * GIB).plan()) == []
    attention = told(run.replica("mirror", total_bytes=3 * GIB - 1).plan(), "mirror-too-small")
    assert attention.mend == "keep.last = 1, or a larger volume"
    assert kinds(run.replica("primary", total_bytes=2 * GIB).plan()) == ["primary-too-small"]


def test_a_budget_stands_for_the_size_of_a_store_that_has_none() -> None:
    run = case(STEPS, None, STEPS).replica("cloud", root="s3://bucket/run", total_bytes=None, free_bytes=None)
    capped = tuple(replace(s, capacity=2 * GIB) if s.name == CLOUD.name else s for s in run.run.replicas)
    assert kinds(run.plan()) == []
    assert kinds(replace(run, run=replace(run.run, replicas=capped)).plan()) == ["mirror-too-small"]


# Notes.


def test_a_run_within_its_limit_says_so() -> None:
    assert case([100], keep=Keep(last=3)).plan().notes == ("1 checkpoint, within the limit of 3: nothing can go",)


def test_it_is_said_when_fresh_files_will_be_old_enough() -> None:
    run = case(STEPS, STEPS, keep=Keep(last=1)).but(
        copy(100, "mirror", at=NOW - 2 * MINUTE), copy(200, "mirror", at=NOW - 4 * MINUTE)
    )
    assert run.plan().notes == ("2 checkpoints held back, modified only moments ago: aligned in 3 min",)
    assert run.later(1).plan().notes == run.plan().notes
    assert run.guarding(in_flight=3 * HOUR).but(copy(200, "mirror"), copy(300, at=OLD)).plan().notes == (
        "2 checkpoints held back, modified only moments ago: aligned in 2h 58m",
    )


def test_a_time_in_the_future_is_not_moments_ago() -> None:
    assert case(STEPS, STEPS).but(copy(100, "mirror", at=NOW + DAY)).plan().notes == ()


def test_it_is_said_when_no_kept_step_can_be_checked() -> None:
    run = case(STEPS).but(*(copy(step, health=Health.UNVERIFIED) for step in STEPS))
    assert run.plan().notes[0].startswith("nothing could be content-checked")
    assert run.but(copy(300, health=Health.UNVERIFIED, content="sha")).plan().notes == ()
    assert run.guarding(verify="off").plan().notes == ()
