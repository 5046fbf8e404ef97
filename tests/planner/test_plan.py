"""What a plan says beside its decisions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prune import planner
from prune.model import Candidate, Health, Pick, Pin, Pointer, PointerState
from prune.settings.schema import DAY, HOUR, Best, Keep
from tests.inventories import Case, case, copy, gone, replica_of, temporary

STEPS = [100, 200, 300]


def candidate(run: Case) -> tuple[int, str] | None:
    found = run.plan().resume_candidate
    return (found.step, found.replica) if found else None


def test_the_resume_candidate_is_the_newest_that_restores_with_its_full_path() -> None:
    assert case(STEPS, STEPS).plan().resume_candidate == Candidate(300, "primary", "/data/run/step_0300.pt")


def test_an_object_stores_candidate_is_a_url() -> None:
    run = case([], [300]).replica("mirror", root="s3://bucket/run/")
    assert run.plan().resume_candidate == Candidate(300, "mirror", "s3://bucket/run/step_0300.pt")


@pytest.mark.parametrize(
    ("primary", "mirror", "expected"),
    [
        (Health.WHOLE, Health.WHOLE, (300, "primary")),
        (Health.UNVERIFIED, Health.UNVERIFIED, (300, "primary")),
        (Health.WHOLE, Health.INTACT, (300, "mirror")),
        (Health.UNVERIFIED, Health.WHOLE, (300, "mirror")),
        (Health.BROKEN, Health.UNVERIFIED, (300, "mirror")),
        (Health.UNVERIFIED, Health.BROKEN, (300, "primary")),
        (Health.SUSPECT, Health.UNKNOWN, (200, "primary")),
        (Health.IN_FLIGHT, Health.BROKEN, (200, "primary")),
    ],
)
def test_better_evidence_comes_first_within_a_step_and_never_across_steps(
    primary: Health, mirror: Health, expected: tuple[int, str]
) -> None:
    run = case(STEPS, STEPS).but(
        copy(300, health=primary), copy(300, "mirror", health=mirror), copy(200, health=Health.INTACT)
    )
    assert candidate(run) == expected


def test_a_step_that_only_a_mirror_has_is_resumed_from_there() -> None:
    assert candidate(case([100, 200], STEPS)) == (300, "mirror")
    assert candidate(case([100, 200], None, STEPS)) == (300, "cloud")


def test_weights_alone_are_resumed_from_only_where_nothing_is_full() -> None:
    run = case(STEPS).but(copy(300, weights_only=True))
    assert candidate(run) == (200, "primary")
    assert candidate(run.but(copy(200, weights_only=True), copy(100, weights_only=True))) == (300, "primary")
    assert candidate(run.but(copy(200, health=Health.BROKEN), copy(100, health=Health.BROKEN))) == (300, "primary")


def test_without_anything_that_restores_there_is_no_candidate_and_nothing_goes() -> None:
    run = case(STEPS).but(*(copy(step, health=Health.BROKEN) for step in STEPS))
    assert candidate(run) is None
    assert gone(run.plan()) == []


def test_a_run_without_checkpoints_has_an_empty_plan() -> None:
    plan = case([], []).plan()
    assert (plan.steps, plan.cutoff, plan.resume_candidate, plan.blocks) == ((), None, None, ())


def test_replicas_stand_primary_first_then_as_the_settings_name_them() -> None:
    run = case(STEPS, STEPS, STEPS)
    reversed_ = run.but(replicas=tuple(reversed(run.inventory.replicas)))
    assert [replica.name for replica in reversed_.plan().replicas] == ["primary", "mirror", "cloud"]
    assert [copy.replica for copy in reversed_.plan().steps[0].copies] == ["primary", "mirror", "cloud"]


def test_a_replica_that_the_settings_do_not_name_stands_last() -> None:
    run = case(STEPS, STEPS)
    stranger = replica_of(run.run.replicas[1])
    other = run.but(replicas=(*run.inventory.replicas, type(stranger)("another", "mirror", "/x", False)))
    assert [replica.name for replica in other.plan().replicas] == ["primary", "mirror", "another"]


NASTY = [
    case([], []).but(replicas=()),
    case([100], [100]).without(100, "mirror").but(copy(200, "nowhere")),
    case(STEPS, STEPS).but(*(replace(copy(step), paths=()) for step in STEPS), pins=(Pin(100, "", "", 0),)),
    case([-5, 0, 10**30], keep=Keep(last=1, every=3, daily=1)),
    case(STEPS, keep=Keep(last=1, daily=1, within=0)).but(*(copy(step, at=2**80) for step in STEPS)),
    case(STEPS, keep=Keep(last=1, best=Best("loss", "max"))).but(
        metrics={100: {"loss": 10**400}, 200: {"loss": 1e308}}
    ),
    case(STEPS, skew_seconds=float("-inf"), best_recorded=7, referenced={7: "gone"}),
    case(STEPS, picks={"nowhere": Pick(None, "", ""), "primary": Pick(9, "", "")}),
    case(STEPS, temporaries=(temporary(None, "nowhere", at=None), temporary(100, at=-(2**80)))),
    case(STEPS, pointers=(Pointer("nowhere", "", None, PointerState.UNREADABLE),)),
    case(STEPS, rewound_since_ns=-1, observed_ns={(7, "nowhere"): 0}),
    case(STEPS).guarding(in_flight=-1, orphans=-1, max_delete=-1),
]


@pytest.mark.parametrize("run", NASTY)
def test_any_inventory_yields_a_plan_and_never_an_exception(run: Case) -> None:
    plan = run.plan()
    assert run.wanted() == planner.Wanted()
    assert plan.resume_candidate is None or plan.resume_candidate.step not in gone(plan)


def test_a_copy_on_a_replica_that_nobody_named_is_not_touched() -> None:
    run = case(STEPS, STEPS).but(copy(100, "nowhere"))
    assert [sorted(step.bytes) for step in run.plan().victims] == [["mirror", "primary"]]


@pytest.mark.parametrize(
    ("keep", "mapping"),
    [
        (Keep(), {"last": 12}),
        (
            Keep(last=3, every=1000, every_time=DAY, within=12 * HOUR),
            {"last": 3, "every": 1000, "every_time": "1d", "within": "12h"},
        ),
        (
            Keep(last=1, hourly=2, daily=0, weekly=4, full=1),
            {"last": 1, "hourly": 2, "daily": 0, "weekly": 4, "full": 1},
        ),
        (Keep(last=1, best=Best("loss", "max", 2)), {"last": 1, "best": {"metric": "loss", "mode": "max", "count": 2}}),
    ],
)
def test_a_plan_names_the_rules_that_are_set_as_the_configuration_spells_them(
    keep: Keep, mapping: dict[str, object]
) -> None:
    assert case(STEPS, keep=keep).plan().keep == mapping


def test_a_lowered_n_is_shown_and_said() -> None:
    plan = case(STEPS, keep=Keep(last=2)).plan(keep_last=1)
    assert plan.keep == {"last": 1}
    assert plan.notes[0] == "keep.last is lowered from 2 to 1 to make room"
    assert gone(plan) == [100, 200]


@pytest.mark.parametrize("keep_last", [0, -3])
def test_n_is_never_lowered_below_one(keep_last: int) -> None:
    assert gone(case(STEPS, keep=Keep(last=2)).plan(keep_last=keep_last)) == [100, 200]


@pytest.mark.parametrize(
    ("keep", "sentence"),
    [
        (Keep(), "Keeps the newest 12 that restore on every required replica."),
        (
            Keep(last=3, every=1000, daily=1),
            "Keeps the newest 3 that restore on every required replica, every multiple of 1000 "
            "and the oldest of the newest day.",
        ),
        (
            Keep(2, 10, DAY, HOUR, 2, 3, 4, Best("loss", "max", 2), 1),
            "Keeps the newest 2 that restore on every required replica, every multiple of 10, the oldest of each 1d, "
            "all saved within 1h of the newest that restores, the oldest of each of the newest 2 hours, "
            "the oldest of each of the newest 3 days, the oldest of each of the newest 4 weeks "
            "and the 2 with the highest loss; only the newest 1 keep more than weights.",
        ),
    ],
)
def test_a_policy_says_itself_in_one_sentence(keep: Keep, sentence: str) -> None:
    assert planner.describe(keep) == sentence
