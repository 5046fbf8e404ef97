"""The guards, each with the inputs that set it off and the nearest ones that do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from prune.evidence import Evidence
from prune.guards import Scene, vetoes
from prune.model import Health, Lease, Pick, Pin, Pointer, PointerState
from prune.retention import Kept
from prune.settings.schema import DAY, HOUR, MINUTE, SECOND
from tests.inventories import NOW, OLD, Case, case, copy, gone, held, kinds, stays, temporary

STEPS = [100, 200, 300, 400]
Change = Callable[[Case], Case]


def run() -> Case:
    """Steps 100 and 200 would go, on both sides."""
    return case(STEPS, STEPS)


def on(replica: str, **changes: Any) -> Change:
    """The copy of step 100 on one replica, changed."""
    return lambda found: found.but(copy(100, replica, **changes))


def having(**fields: Any) -> Change:
    return lambda found: found.but(**fields)


def writing(step: int, **of: Any) -> Change:
    return having(temporaries=(temporary(step, **of),))


def picking(replica: str, step: int | None) -> Change:
    return having(picks={replica: Pick(step, "step_0100.pt", "newest mtime")})


def leasing(step: int, until_ns: int) -> Change:
    return having(leases=(Lease(step, "eval", until_ns, "mirror"),))


def newer_verified(found: Case) -> Case:
    return found.but(copy(100, "mirror", verified_ns=OLD), copy(300, verified_ns=OLD))


def pin(until_ns: int | None = None, step: int = 100) -> Pin:
    return Pin(step, "baseline of the paper", "ada", NOW - DAY, until_ns, "mirror")


def pointer(step: int | None, state: PointerState = PointerState.OK) -> Pointer:
    return Pointer("mirror", "latest", step, state)


NINETEEN_EIGHTY = 315_532_800 * SECOND  # 1980-01-01

# guard, what sets it off, the nearest thing that does not
PAIRS: list[tuple[str, Change, Change]] = [
    ("in-flight", on("mirror", at=NOW - 5 * MINUTE + 1), on("mirror", at=NOW - 5 * MINUTE)),
    ("in-flight", on("mirror", at=NOW + 1), on("mirror", at=NOW - 6 * MINUTE)),
    ("in-flight", on("primary", at=NOW + 40 * DAY, oldest=OLD), on("primary", at=OLD)),
    ("in-flight", writing(100, at=NOW - MINUTE), writing(100, at=OLD)),
    ("in-flight", writing(100, at=NOW), writing(300, at=NOW)),
    ("unknown-mtime", on("mirror", at=0), on("mirror", at=OLD)),
    ("unknown-mtime", on("mirror", oldest=0), on("mirror", oldest=NINETEEN_EIGHTY + DAY)),
    ("unknown-mtime", on("mirror", at=-11_644_473_600 * SECOND), on("mirror", at=NINETEEN_EIGHTY + DAY)),
    ("unknown-mtime", on("primary", oldest=NINETEEN_EIGHTY), on("primary", oldest=NINETEEN_EIGHTY + DAY)),
    ("unknown-mtime", on("primary", at=None), on("primary", at=OLD)),
    ("unknown-mtime", on("primary", oldest=None), on("primary", oldest=OLD - DAY)),
    ("unknown-mtime", writing(100, at=None), writing(300, at=None)),
    ("resume-candidate", picking("mirror", 100), picking("mirror", 400)),
    ("resume-candidate", picking("primary", 100), picking("primary", None)),
    ("resume-candidate", having(pointers=(pointer(100),)), having(pointers=(pointer(400),))),
    ("resume-candidate", having(pointers=(pointer(100, PointerState.DANGLING),)), having(pointers=(pointer(None),))),
    ("resume-candidate", on("primary", at=OLD + 1), on("mirror", at=OLD + 1)),
    ("last-verified", on("mirror", verified_ns=OLD), newer_verified),
    ("pinned", having(pins=(pin(),)), having(pins=(pin(step=300),))),
    ("pinned", having(pins=(pin(NOW),)), having(pins=(pin(NOW - 1),))),
    ("leased", leasing(100, NOW), leasing(100, NOW - 1)),
    ("leased", leasing(100, NOW + HOUR), leasing(400, NOW + HOUR)),
    ("busy", on("mirror", busy="python, pid 7"), on("mirror")),
    ("busy", writing(100, busy="pid 7"), writing(300, busy="pid 7")),
    ("referenced", having(referenced={100: "Ray would not start without it"}), having(referenced={400: "…"})),
    ("referenced", having(best_recorded=100), having(best_recorded=300)),
    ("linked", on("primary", link="step_0100.pt is a symlink"), on("primary")),
]  # fmt: skip


@pytest.mark.parametrize(("guard", "fresh", "old"), PAIRS)
def test_each_guard_holds_the_step_on_every_replica_and_lets_go_when_it_is_over(
    guard: str, fresh: Change, old: Change
) -> None:
    plan = fresh(run()).plan()
    assert guard in held(plan)[100]
    assert gone(plan) == [200]
    assert gone(old(run()).plan()) == [100, 200]


def test_a_guard_never_makes_a_kept_step_guarded() -> None:
    plan = run().but(pins=(pin(step=400),), best_recorded=400).plan()
    assert stays(plan) == [300, 400]
    assert all(not step.guards for step in plan.steps if step.step == 400)


def test_all_guards_of_a_step_are_told_in_one_order() -> None:
    everything = run().but(
        copy(100, at=NOW + 1, oldest=0, busy="pid 7", link="a symlink", verified_ns=OLD),
        pins=(pin(),),
        leases=(Lease(100, "eval", NOW + HOUR),),
        pointers=(pointer(100),),
        best_recorded=100,
    )
    assert held(everything.plan())[100] == [
        "in-flight", "unknown-mtime", "resume-candidate", "last-verified",
        "pinned", "leased", "busy", "referenced", "linked",
    ]  # fmt: skip


def test_a_guard_tells_where_and_why() -> None:
    plan = run().but(copy(100, "mirror", at=NOW + 40 * DAY), pins=(pin(NOW + HOUR),)).plan()
    flight, pinned = plan.steps[0].guards
    assert (flight.replica, flight.path, flight.detail) == ("mirror", "step_0100.pt", "mtime in the future, by 40d")
    assert (pinned.replica, pinned.detail) == ("mirror", "baseline of the paper (ada, for 1h more)")


def test_a_longer_in_flight_time_holds_what_is_younger_than_it() -> None:
    assert gone(run().guarding(in_flight=2 * HOUR).plan()) == [100, 200]
    assert gone(run().guarding(in_flight=2 * HOUR + 1).plan()) == []


# Unknown times, observed.


def observed(since: int, **changes: Any) -> Case:
    return run().guarding(unknown_mtime="observe").but(copy(100, "mirror", at=0), observed_ns={(100, "mirror"): since})


def test_a_copy_seen_unchanged_for_a_day_counts_as_old_where_that_was_asked_for() -> None:
    assert gone(observed(NOW - DAY).plan()) == [100, 200]
    assert gone(observed(NOW - DAY + 1).plan()) == [200]
    assert gone(observed(NOW - DAY).guarding(unknown_mtime="keep").plan()) == [200]


def test_what_was_seen_of_one_copy_says_nothing_of_another() -> None:
    assert gone(observed(NOW - DAY).but(copy(100, "primary", at=0)).plan()) == [200]


def test_a_rule_that_goes_by_time_still_needs_a_time() -> None:
    both = observed(NOW - 2 * DAY).but(
        copy(100, "primary", at=0), observed_ns={(100, name): NOW - 2 * DAY for name in ("primary", "mirror")}
    )
    assert gone(both.plan()) == [100, 200]
    assert gone(both.keeping(daily=0).plan()) == [200]
    known = copy(100, "mirror", at=0, created_at_ns=OLD)
    assert gone(both.keeping(daily=0).but(known).plan()) == [100, 200]


# What was written last.


def test_the_step_written_last_is_the_highest_number_where_times_are_equal() -> None:
    assert gone(run().plan()) == [100, 200]


def test_the_step_written_last_must_restore_and_have_a_time_to_be_trusted() -> None:
    late = [copy(300, at=OLD + 9), copy(400, at=OLD + 9)]  # or else it would count as rewound
    assert gone(run().but(*late, copy(100, at=OLD + 5)).plan()) == [100, 200]
    later = [copy(step, at=0) for step in (300, 400)]
    plan = run().but(*later, copy(200, at=OLD + 5)).plan(allow_rewound=True)
    assert held(plan) == {200: ["resume-candidate"]}
    broken = run().but(*later, copy(200, at=OLD + 5, health=Health.BROKEN)).plan(allow_rewound=True)
    assert held(broken) == {100: ["resume-candidate"]}


def test_what_resuming_gives_is_held_on_each_replica_whatever_the_rules_keep() -> None:
    """The newest N and the floor keep these anyway; the guard does not lean on that."""
    found = case([100, 200, 300], [100, 200], [100])
    nothing_kept = Kept(300, (), dict.fromkeys([100, 200, 300], ()), {})
    scene = Scene(Evidence(found.inventory, found.run, found.now_ns), found.run.keep, nothing_kept)
    assert [
        {(hold.replica, hold.detail) for hold in vetoes(scene, step) if "newest step that restores" in hold.detail}
        for step in (100, 200, 300)
    ] == [
        {("cloud", "the newest step that restores on cloud")},
        {("mirror", "the newest step that restores on mirror")},
        {("primary", "the newest step that restores on primary")},
    ]


# What was verified last.


def test_the_newest_verified_step_is_held_until_a_newer_one_is_verified() -> None:
    verified = run().but(copy(100, verified_ns=OLD), copy(200, "mirror", verified_ns=OLD - DAY))
    assert held(verified.plan()) == {200: ["last-verified"]}
    assert gone(verified.but(copy(300, "mirror", verified_ns=OLD - 2 * DAY)).plan()) == [100, 200]


# Rewound.


def begun_anew(*, cutoff_steps: tuple[int, ...] = (500, 600, 700), new: tuple[int, ...] = (100,)) -> Case:
    """An earlier run left 500 to 700 six days ago; a new one has just begun to write from 100."""
    at = dict.fromkeys(cutoff_steps, NOW - 6 * DAY) | {step: NOW - 20 * MINUTE + step * SECOND for step in new}
    steps = sorted(at)
    return case(steps, steps, at=at).keeping(last=3)


def test_a_low_step_written_after_all_that_would_be_kept_is_held_and_told() -> None:
    plan = begun_anew().plan()
    assert "rewound" in held(plan)[100]
    assert gone(plan) == []
    assert kinds(plan) == ["rewound"]
    assert "500, 600 and 700" in plan.attention[0].detail
    assert plan.rewound_since_ns == NOW - 20 * MINUTE + 100 * SECOND


def test_a_low_step_as_old_as_one_that_is_kept_is_not_rewound() -> None:
    run = begun_anew()
    same = run.inventory.copies[100]["primary"].mtime_ns
    assert gone(run.but(copy(600, at=same)).plan()) == [100]


def test_a_time_in_the_future_does_not_count_as_later() -> None:
    plan = begun_anew().but(copy(100, at=NOW + 40 * DAY)).plan()
    assert held(plan) == {100: ["in-flight"]}
    assert kinds(plan) == ["future-mtime"]


def test_the_mirror_does_not_tell_what_is_rewound() -> None:
    run = case([100, 500, 600, 700], [100, 500, 600, 700]).keeping(last=3)
    assert gone(run.but(copy(100, "mirror", at=NOW - HOUR)).plan()) == [100]


def test_a_person_may_answer_that_the_numbers_are_right() -> None:
    plan = begun_anew().but(rewound_since_ns=NOW - DAY).plan(allow_rewound=True)
    assert "rewound" not in held(plan).get(100, [])
    assert plan.rewound_since_ns is None


def test_what_once_held_holds_for_all_written_since_until_n_of_them_stand_at_or_above_the_cutoff() -> None:
    since = begun_anew().plan().rewound_since_ns
    caught_one = begun_anew(cutoff_steps=(600, 700), new=(100, 200, 300, 500)).but(rewound_since_ns=since)
    assert {step: "rewound" in guards for step, guards in held(caught_one.plan()).items()} == {
        100: True,
        200: True,
        300: True,
    }
    assert caught_one.plan().rewound_since_ns == since
    forgotten = caught_one.but(rewound_since_ns=None)
    assert gone(forgotten.plan()) == [100, 200, 300]  # which is why it is remembered
    caught_up = begun_anew(cutoff_steps=(), new=(100, 200, 300, 500, 600, 700)).but(rewound_since_ns=since)
    assert gone(caught_up.plan()) == [100, 200, 300]
    assert caught_up.plan().rewound_since_ns is None


def test_those_that_stand_at_or_above_the_cutoff_must_restore_to_end_it() -> None:
    since = begun_anew().plan().rewound_since_ns
    run = begun_anew(cutoff_steps=(), new=(100, 200, 500, 600, 700)).but(rewound_since_ns=since)
    assert gone(run.plan()) == [100, 200]
    broken = replace(run.inventory.copies[600]["primary"], health=Health.BROKEN)
    assert gone(run.but(broken).plan()) == [
        100
    ]  # 200 is among the newest three that restore now, and the third of them
    old = run.but(copy(700, at=NOW - 6 * DAY))
    assert gone(old.plan()) == []


def test_a_rewind_is_remembered_while_there_is_nothing_to_hold() -> None:
    assert case([100], keep=run().run.keep).but(rewound_since_ns=7).plan().rewound_since_ns == 7


def test_where_no_kept_step_has_a_time_all_that_has_one_is_held_for_now() -> None:
    plan = run().but(copy(300, at=0), copy(400, at=0)).plan()
    assert {step: "rewound" in guards for step, guards in held(plan).items()} == {100: True, 200: True}
    assert plan.rewound_since_ns is None


def test_a_step_made_up_to_be_younger_does_not_cost_the_newest() -> None:
    at = {400: NOW - 3 * DAY, 600: NOW - 3 * DAY, 800: NOW - 3 * DAY, 1000: NOW - 3 * DAY - HOUR}
    plan = case(at, at, at=at).keeping(last=3).plan()
    assert gone(plan) == [400]
    assert plan.resume_candidate is not None
    assert plan.resume_candidate.step == 1000
