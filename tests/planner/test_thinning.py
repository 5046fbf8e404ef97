"""Which kept steps are thinned, and what holds them back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from prune.evidence import Evidence
from prune.model import Block, Copy, Health, Identity, Pick, Pin, RunPlan, Spare
from prune.settings.schema import HOUR, MINUTE, Keep, Share
from tests.inventories import GIB, NOW, OLD, Case, case, copy, gone, kinds, listed, reasons
from tests.strategies import PROPERTY, cases

STEPS = (100, 200, 300, 400, 500)
SPARE_BYTES = 2 * GIB // 3


def spare(step: int) -> Spare:
    part = Identity(1, step + 5000, SPARE_BYTES, OLD, OLD, 1)
    return Spare((f"checkpoint-{step}/optimizer.pt",), part, SPARE_BYTES, 1, ((f"checkpoint-{step}", OLD),))


def full(step: int, replica: str = "primary", **more: Any) -> Copy:
    return copy(step, replica, **({"spare": spare(step)} | more))


def fat(primary: tuple[int, ...] = STEPS, *others: tuple[int, ...], keep: Keep | None = None, **more: Any) -> Case:
    """Full steps, the whole run kept, of which all but the newest two may be thinned."""
    made = case(primary, *others, keep=keep or Keep(last=5, full=2), **more)
    return made.but(*(full(s, r) for s, held in made.inventory.copies.items() for r in held))


def thinned(plan: RunPlan) -> list[int]:
    return [step.step for step in plan.thinned]


def holds(plan: RunPlan) -> dict[int, list[str]]:
    return {s.step: [g.guard for g in s.thin.guards] for s in plan.steps if s.thin is not None and s.thin.guards}


def test_kept_steps_beyond_the_newest_k_full_ones_are_thinned_and_say_so() -> None:
    plan = fat().plan()
    assert thinned(plan) == [100, 200, 300]
    assert reasons(plan)[300] == ["last", "thin"]
    assert reasons(plan)[400] == ["last"]
    assert plan.thinned[0].thin.paths == ("checkpoint-100/optimizer.pt",)
    assert plan.thinned[0].thin.bytes == {"primary": SPARE_BYTES}
    assert gone(plan) == []


def test_nothing_is_thinned_unless_it_is_asked_for() -> None:
    assert thinned(fat(keep=Keep(last=5)).plan()) == []


def test_what_is_deleted_is_not_thinned_too() -> None:
    plan = fat(keep=Keep(last=3, every=200, full=1)).plan()
    assert (gone(plan), thinned(plan)) == ([100], [200, 300, 400])


def test_with_fewer_than_k_full_steps_nothing_is_thinned() -> None:
    assert thinned(fat(keep=Keep(last=5, full=6)).plan()) == []


def test_only_full_steps_that_restore_everywhere_count_among_the_newest() -> None:
    broken = fat().but(full(500, health=Health.BROKEN))
    assert thinned(broken.plan()) == [100, 200]
    weights = fat().but(copy(500, weights_only=True))
    assert thinned(weights.plan()) == [100, 200]
    unmirrored = fat(STEPS, STEPS).without(500, "mirror")
    assert thinned(unmirrored.plan()) == [100, 200]


def test_a_step_is_thinned_on_all_replicas_that_hold_it() -> None:
    plan = fat(STEPS, STEPS).plan()
    assert {copy.replica for step in plan.thinned for copy in step.goes} == {"primary", "mirror"}


def test_a_copy_that_is_thin_already_is_left_and_the_other_follows() -> None:
    half = fat(STEPS, STEPS).but(copy(100, weights_only=True, thinned=spare(100).paths))
    step = half.plan().thinned[0]
    assert (step.step, [part.replica for part in step.goes]) == (100, ["mirror"])


@pytest.mark.parametrize("health", [Health.BROKEN, Health.SUSPECT, Health.UNKNOWN, Health.IN_FLIGHT])
def test_a_step_of_which_any_copy_may_be_damaged_stays_as_it_is(health: Health) -> None:
    assert thinned(fat(STEPS, STEPS).but(full(100, "mirror", health=health)).plan()) == [200, 300]


def test_the_guards_of_deleting_hold_a_step_from_being_thinned() -> None:
    held = fat(
        pins=(Pin(100, "paper", "me", OLD),),
        picks={"primary": Pick(200, "checkpoint-200", "latest")},
        best_recorded=300,
    ).but(full(300, busy="pid 7"))
    plan = held.plan()
    assert thinned(plan) == []
    assert holds(plan) == {100: ["pinned"], 200: ["resume-candidate"], 300: ["busy", "referenced"]}
    assert reasons(plan)[100] == ["last"]


def test_a_step_written_moments_ago_is_not_thinned() -> None:
    at = dict.fromkeys(STEPS, OLD) | {100: NOW - MINUTE}
    assert holds(fat(at=at).but(full(100, at=NOW - MINUTE)).plan())[100][0] == "in-flight"


def test_the_steps_of_a_run_begun_anew_are_not_thinned() -> None:
    """Their numbers are lower than those of the run before, and they are what is being trained."""
    anew = fat().but(full(100, at=OLD + HOUR), full(500, at=OLD), full(400, at=OLD - HOUR))
    plan = anew.plan()
    assert holds(plan) == {100: ["resume-candidate", "rewound"]}
    assert thinned(plan) == [200, 300]
    assert holds(anew.plan(allow_rewound=True)) == {100: ["resume-candidate"]}


def test_an_optional_mirror_that_lags_keeps_what_it_can_resume_from() -> None:
    behind = fat(STEPS, None, (100, 200, 300))
    assert thinned(behind.plan()) == [100]


def test_a_block_holds_thinning_too() -> None:
    plan = fat(blocks=(Block("pins-unreadable", "primary", "pins/7.json"),)).plan()
    assert (thinned(plan), holds(plan)) == ([], {step: ["blocked"] for step in (100, 200, 300)})
    assert reasons(plan)[100] == ["last"]


def test_a_replica_that_cannot_be_read_or_written_lets_nothing_be_thinned() -> None:
    assert thinned(fat(STEPS, STEPS).replica("mirror", listed=False).plan()) == []
    assert thinned(fat().replica("primary", read_only=True).plan()) == []


def test_the_brake_counts_what_is_thinned() -> None:
    braked = fat().guarding(max_delete=Share(50.0))
    assert [block.block for block in braked.plan().blocks] == ["too-many"]
    assert thinned(braked.plan()) == []
    assert thinned(braked.plan(allow_many=True)) == [100, 200, 300]


def test_where_nothing_can_be_told_apart_it_is_told_once() -> None:
    plan = fat(unthinnable="it keeps all in one file").plan()
    assert thinned(plan) == []
    assert kinds(plan) == ["cannot-thin"]


def test_thinned_steps_count_as_kept_and_are_not_resumed_from() -> None:
    weights = fat().but(*(copy(step, weights_only=True) for step in (100, 200, 300)))
    plan = weights.plan()
    assert (plan.cutoff, plan.resume_candidate.step, thinned(plan)) == (100, 500, [])


def test_what_is_to_be_thinned_is_judged_first_and_what_is_thin_is_not() -> None:
    seen = fat(keep=Keep(last=2, every=100, full=2))
    veiled = seen.but(
        listed(100, weights_only=True, thinned=spare(100).paths), listed(200), listed(300), listed(400), listed(500)
    )
    asked = set()
    while wanted := veiled.wanted():
        asked |= {step for step, _ in wanted.judge}
        veiled = veiled.but(*(full(step) for step, _ in (*wanted.judge, *wanted.measure)))
    assert asked == {200, 300, 400, 500}
    assert thinned(veiled.plan()) == [200, 300]


def test_a_thinned_copy_and_a_full_one_of_a_step_are_not_known_to_differ() -> None:
    half = fat(STEPS, STEPS).but(
        replace(copy(300, weights_only=True, content="a"), thinned=spare(300).paths, size=GIB // 3),
        full(300, "mirror", content="b"),
    )
    assert "differs" not in kinds(half.plan())
    assert half.plan().cutoff == 100


def with_spares(some: Case, full: int) -> Case:
    """Every copy that is not weights alone has something to spare."""
    held = (c for copies in some.inventory.copies.values() for c in copies.values() if not c.weights_only)
    return some.but(*(replace(c, spare=spare(c.step)) for c in held)).keeping(full=full)


def carried_out(some: Case, plan: RunPlan) -> Case:
    """The run after that plan: deleted steps gone, thinned copies thin."""
    for step in plan.victims:
        for one in step.copies:
            some = some.without(step.step, one.replica)
    thin = [
        replace(one, weights_only=True, thinned=one.spare.paths, spare=None, size=GIB // 3)
        for step in plan.thinned
        for one in step.copies
        if step.thin and one.replica in step.thin.bytes and one.spare
    ]
    return some.but(*thin, rewound_since_ns=plan.rewound_since_ns)


@PROPERTY
@given(cases(), st.integers(1, 3))
def test_what_anybody_would_resume_from_and_the_newest_k_full_are_never_thinned(some: Case, full: int) -> None:
    some = with_spares(some, full)
    plan, inventory = some.plan(), some.inventory
    gone_thin = set(thinned(plan))
    event(f"thins: {bool(gone_thin)}")
    assert gone_thin.isdisjoint(gone(plan))
    assert plan.resume_candidate is None or plan.resume_candidate.step not in gone_thin
    assert gone_thin.isdisjoint(pick.step for pick in inventory.picks.values())
    assert gone_thin.isdisjoint(pointer.step for pointer in inventory.pointers)
    assert gone_thin.isdisjoint(pin.step for pin in inventory.pins if pin.until_ns is None)
    assert gone_thin == set() or not plan.blocks
    evidence = Evidence(inventory, some.run, NOW)
    newest = [step for step in reversed(evidence.steps) if evidence.aligned(step) and evidence.full(step)]
    if gone_thin:
        stays_full = [step for step in newest if step not in gone_thin and step not in gone(plan)]
        assert len(stays_full) >= full
        assert min(stays_full[:full]) > max(gone_thin)


@PROPERTY
@given(cases(), st.integers(1, 3))
def test_a_plan_carried_out_leaves_nothing_more_to_thin_and_never_moves_the_candidate(some: Case, full: int) -> None:
    some = with_spares(some, full)
    plan = some.plan()
    after = carried_out(some, plan)
    again = after.plan()
    assert set(thinned(again)).isdisjoint(thinned(plan))
    if plan.thinned and plan.resume_candidate is not None:
        assert again.resume_candidate is not None
        assert again.resume_candidate.step == plan.resume_candidate.step
