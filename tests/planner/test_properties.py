"""What holds for every inventory."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import assume, event, given
from hypothesis import strategies as st

from prune.evidence import known_to_differ
from prune.model import Copy, Decision, Health, Inventory, Lease, Pin, Pointer, PointerState, RunPlan
from prune.settings.schema import HOUR, MINUTE
from tests.inventories import NOW, Case, Veiled, gone, temporary, veil
from tests.strategies import PROPERTY, cases


def required_copies(case: Case, step: int) -> list[Copy | None]:
    return [case.inventory.copies[step].get(r.name) for r in case.inventory.replicas if r.required]


def aligned(case: Case) -> list[int]:
    """By hand: steps that restore on every required replica and do not differ, newest first."""
    found = []
    for step in sorted(case.inventory.copies, reverse=True):
        copies = required_copies(case, step)
        good = [copy for copy in copies if copy is not None and copy.health is not None and copy.health.restorable]
        if len(good) == len(copies) and not any(known_to_differ(good[0], other) for other in good):
            found.append(step)
    return found


def full(case: Case, step: int) -> bool:
    return not any(copy is None or copy.weights_only for copy in required_copies(case, step))


def deleted_copies(plan: RunPlan) -> set[tuple[int, str]]:
    return {(copy.step, copy.replica) for step in plan.victims for copy in step.copies}


def applied(case: Case, plan: RunPlan) -> Case:
    """The run after the plan was carried out."""
    for step, replica in deleted_copies(plan):
        case = case.without(step, replica)
    return replace(case, inventory=replace(case.inventory, rewound_since_ns=plan.rewound_since_ns))


@PROPERTY
@given(cases())
def test_the_newest_n_that_restore_everywhere_always_survive_everywhere(case: Case) -> None:
    plan = case.plan()
    last = case.run.keep.last
    newest = aligned(case)
    survivors = {
        *newest[:last],
        *[step for step in newest if full(case, step)][: min(last, case.run.keep.full or last)],
    }
    assert survivors.isdisjoint(gone(plan))
    event(f"deletes: {bool(gone(plan))}")
    if gone(plan):
        assert len(newest) >= last


@PROPERTY
@given(cases())
def test_each_replica_keeps_its_own_newest_n_that_restore(case: Case) -> None:
    taken = deleted_copies(case.plan())
    for replica in case.inventory.replicas:
        copies = [case.inventory.copies[s].get(replica.name) for s in sorted(case.inventory.copies, reverse=True)]
        good = [copy for copy in copies if copy is not None and copy.health is not None and copy.health.restorable]
        assert taken.isdisjoint((copy.step, copy.replica) for copy in good[: case.run.keep.last])


@PROPERTY
@given(cases())
def test_what_anybody_would_resume_from_survives(case: Case) -> None:
    plan, inventory = case.plan(), case.inventory
    victims = set(gone(plan))
    assert plan.resume_candidate is None or plan.resume_candidate.step not in victims
    assert victims.isdisjoint(pick.step for pick in inventory.picks.values() if pick.step is not None)
    assert victims.isdisjoint(pointer.step for pointer in inventory.pointers if pointer.step is not None)
    for replica in inventory.replicas:
        good = [
            s
            for s, held in inventory.copies.items()
            if (c := held.get(replica.name)) and c.health and c.health.restorable
        ]
        assert not replica.listed or not good or max(good) not in victims


@PROPERTY
@given(cases())
def test_what_somebody_claims_survives(case: Case) -> None:
    inventory = case.inventory
    claimed = {pin.step for pin in inventory.pins if pin.until_ns is None or pin.until_ns >= NOW}
    claimed |= {lease.step for lease in inventory.leases if lease.until_ns >= NOW}
    claimed |= {*inventory.referenced, inventory.best_recorded}
    assert claimed.isdisjoint(gone(case.plan()))


@PROPERTY
@given(cases())
def test_every_step_has_one_fate_and_its_reasons(case: Case) -> None:
    plan = case.plan()
    assert [step.step for step in plan.steps] == sorted({step.step for step in plan.steps})
    for step in plan.steps:
        assert (step.decision is Decision.KEEP) == bool(step.reasons)
        assert (step.decision is Decision.GUARDED) == bool(step.guards)
        assert step.copies


@PROPERTY
@given(cases())
def test_only_copies_that_stand_on_listed_replicas_are_deleted(case: Case) -> None:
    listed = {replica.name for replica in case.inventory.replicas if replica.listed}
    for step in case.plan().victims:
        for copy in step.copies:
            assert copy.replica in listed
            assert case.inventory.copies[step.step][copy.replica] == copy
            assert copy.measured


@PROPERTY
@given(cases())
def test_nothing_is_deleted_in_a_blocked_run(case: Case) -> None:
    plan = case.plan()
    assume(plan.blocks)
    assert not plan.victims
    assert all(orphan.decision is Decision.KEEP for orphan in plan.orphans)
    assert all(step.guards[-1].guard == "blocked" for step in plan.steps if step.decision is Decision.GUARDED)


@PROPERTY
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_a_listing_changes_nothing(case: Case, chance: random.Random) -> None:
    def shuffled(items: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(chance.sample(items, len(items)))

    inventory = case.inventory
    mixed = replace(
        inventory,
        copies={s: dict(shuffled(tuple(inventory.copies[s].items()))) for s in shuffled(tuple(inventory.copies))},  # type: ignore
        **{
            name: shuffled(getattr(inventory, name))
            for name in ("replicas", "pins", "leases", "pointers", "temporaries", "blocks", "attention")
        },
        picks=dict(shuffled(tuple(inventory.picks.items()))),  # type: ignore[arg-type]
    )
    assert replace(case, inventory=mixed).plan() == case.plan()


@PROPERTY
@given(cases())
def test_a_second_plan_after_the_first_was_applied_deletes_nothing_more(case: Case) -> None:
    plan = case.plan()
    assert gone(applied(case, plan).plan()) == []


# Adding a guard.


@PROPERTY
@given(cases(brake=False), st.data())
def test_a_guard_that_is_added_never_deletes_more(case: Case, data: st.DataObject) -> None:
    assume(case.inventory.copies)
    step = data.draw(st.sampled_from(sorted(case.inventory.copies)))
    name = data.draw(st.sampled_from(sorted(case.inventory.copies[step])))
    held: Inventory = case.inventory
    copy = held.copies[step][name]
    guarded = data.draw(
        st.sampled_from(
            [
                case.but(pins=(*held.pins, Pin(step, "why", "me", 0))),
                case.but(leases=(*held.leases, Lease(step, "reader", NOW + HOUR))),
                case.but(pointers=(*held.pointers, Pointer(name, "latest", step, PointerState.OK))),
                case.but(referenced={**held.referenced, step: "state.json lists it"}),
                case.but(replace(copy, busy="pid 7")),
                case.but(replace(copy, link="a symlink")),
                case.but(temporaries=(*held.temporaries, temporary(step, name, at=NOW - MINUTE))),
                case.guarding(in_flight=case.run.guards.in_flight + 3 * HOUR),
                case.guarding(unknown_mtime="keep"),
            ]
        )
    )
    assert set(gone(guarded.plan())) <= set(gone(case.plan()))


@PROPERTY
@given(cases(brake=False), st.data())
def test_a_time_that_becomes_unknown_never_deletes_more(case: Case, data: st.DataObject) -> None:
    assume(case.inventory.copies)
    step = data.draw(st.sampled_from(sorted(case.inventory.copies)))
    copy = data.draw(st.sampled_from([c for _, c in sorted(case.inventory.copies[step].items())]))
    zero = data.draw(st.sampled_from([0, None, -11_644_473_600_000_000_000]))
    unknown = replace(copy, mtime_ns=data.draw(st.sampled_from([copy.mtime_ns, zero])), oldest_mtime_ns=zero)
    # What was seen unchanged was seen with the times it had.
    seen = {key: since for key, since in case.inventory.observed_ns.items() if key != (copy.step, copy.replica)}
    assert set(gone(case.but(unknown, observed_ns=seen).plan())) <= set(gone(case.plan()))


# Knowing less. Where these do not hold, they cannot: see the tests of where less knowledge deletes other steps.


@PROPERTY
@given(cases(brake=False, odd=False, in_order=True, by_time=False), st.data())
def test_a_copy_that_turns_out_unknown_never_deletes_more(case: Case, data: st.DataObject) -> None:
    required = {replica.name for replica in case.inventory.replicas if replica.required}
    copies = [c for _, held in sorted(case.inventory.copies.items()) for n, c in held.items() if n in required]
    assume(copies)
    worse = [replace(c, health=Health.UNKNOWN) for c in data.draw(st.lists(st.sampled_from(copies), max_size=4))]
    assert set(gone(case.but(*worse).plan())) <= set(gone(case.plan()))


@PROPERTY
@given(cases(brake=False, odd=False, in_order=True, by_time=False), st.data())
def test_a_copy_that_turns_out_broken_never_deletes_more(case: Case, data: st.DataObject) -> None:
    required = {replica.name for replica in case.inventory.replicas if replica.required}
    assume(not any(c.weights_only for held in case.inventory.copies.values() for c in held.values()))
    copies = [c for _, held in sorted(case.inventory.copies.items()) for n, c in held.items() if n in required]
    assume(copies)
    worse = [replace(c, health=Health.BROKEN) for c in data.draw(st.lists(st.sampled_from(copies), max_size=4))]
    assert set(gone(case.but(*worse).plan())) <= set(gone(case.plan()))


@PROPERTY
@given(cases(), st.data())
def test_a_required_replica_that_cannot_be_listed_stops_everything(case: Case, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([r.name for r in case.inventory.replicas if r.required]))
    assert gone(case.replica(name, listed=False).plan()) == []


@PROPERTY
@given(cases(brake=False, odd=False, in_order=True, by_time=False), st.data())
def test_what_is_missing_on_one_side_is_never_a_reason_to_delete_on_the_other(case: Case, data: st.DataObject) -> None:
    required = {replica.name for replica in case.inventory.replicas if replica.required}
    copies = [c for _, held in sorted(case.inventory.copies.items()) for c in held.values() if c.replica in required]
    assume(not any(copy.weights_only for copy in copies))
    copies = [c for c in copies if not (c.busy or c.link or c.verified_ns)]  # a guard goes with the copy that had it
    assume(copies)
    lost = case
    for copy in data.draw(st.lists(st.sampled_from(copies), max_size=6)):
        lost = lost.without(copy.step, copy.replica)
    assert deleted_copies(lost.plan()) <= deleted_copies(case.plan())


# The policy.


@PROPERTY
@given(cases(brake=False, odd=False, in_order=True), st.integers(1, 4))
def test_a_larger_n_never_deletes_more(case: Case, more: int) -> None:
    larger = case.keeping(last=case.run.keep.last + more)
    assert set(gone(larger.plan())) <= set(gone(case.plan()))


@PROPERTY
@given(cases(brake=False, odd=False, in_order=True), st.integers(1, 6))
def test_n_is_lowered_for_room_but_never_raised(case: Case, keep_last: int) -> None:
    lower = min(keep_last, case.run.keep.last)
    assert gone(case.plan(keep_last=keep_last)) == gone(case.keeping(last=lower).plan())


# Looking at no more than is needed.


@PROPERTY
@given(cases(), st.data())
def test_looking_only_where_it_is_needed_decides_as_looking_everywhere(case: Case, data: st.DataObject) -> None:
    hidden = []
    for held in case.inventory.copies.values():
        for copy in held.values():
            how = data.draw(st.integers(0, 5))
            if how:
                hidden.append(veil(copy, top_is_oldest=how == 1, measured=how == 2))
    seen = Veiled(case, case.but(*hidden)).look().plan()
    plan = case.plan()
    assert {s.step: s.decision for s in seen.steps} == {s.step: s.decision for s in plan.steps}
    assert deleted_copies(seen) == deleted_copies(plan)
    assert seen.resume_candidate == plan.resume_candidate
    assert seen.blocks == plan.blocks
    if len(plan.steps) > case.run.keep.last:
        assert seen.cutoff == plan.cutoff
        assert [s.reasons for s in seen.steps] == [s.reasons for s in plan.steps]
        assert seen.rewound_since_ns == plan.rewound_since_ns


@PROPERTY
@given(cases())
def test_nothing_is_wanted_where_everything_was_looked_at(case: Case) -> None:
    assert not case.wanted()


@PROPERTY
@given(cases())
def test_nothing_is_deleted_that_was_not_looked_at(case: Case) -> None:
    unseen = case.but(*(veil(copy) for held in case.inventory.copies.values() for copy in held.values()))
    assert gone(unseen.plan()) == []
