"""The keep rules: all of them over one run, then each by itself."""

from __future__ import annotations

import pytest

from prune.model import Health
from prune.settings.schema import DAY, HOUR, MINUTE, Best, Keep
from tests.inventories import NOW, OLD, Case, case, copy, gone, kinds, reasons, stays

MIDNIGHT = NOW - NOW % DAY  # a Sunday; weeks begin on Thursdays, as the epoch did

# Twelve steps: two on Wednesday, three on Thursday, three on Friday, four on Saturday evening from 18:00 on.
AGES_IN_HOURS = {
    100: 80, 200: 74, 300: 56, 400: 52, 500: 50, 600: 31, 700: 30, 800: 28, 900: 6, 1000: 5, 1100: 4, 1200: 3,
}  # fmt: skip
AT = {step: MIDNIGHT - age * HOUR for step, age in AGES_IN_HOURS.items()}
LOSS = {200: 0.5, 300: 0.1, 400: float("nan"), 500: 0.1, 700: 0.3, 1200: 0.9}

EVERYTHING = Keep(
    last=2, every=500, every_time=2 * DAY, within=3 * HOUR, hourly=2, daily=2, weekly=1, best=Best("loss", "min", 2)
)


def twelve(keep: Keep, cloud: list[int] | None = None) -> Case:
    metrics = {step: {"loss": loss} for step, loss in LOSS.items()}
    return case(AT, AT, cloud, keep=keep, at=AT, metrics=metrics)


def test_one_run_exercises_every_rule_and_shows_all_reasons_in_one_order() -> None:
    run = twelve(EVERYTHING, cloud=[200, 400]).but(
        copy(1100, "mirror", at=AT[1100], health=Health.BROKEN),  # counts for nothing: the last two are 1200 and 1000
        copy(600, "primary", at=AT[600], health=Health.SUSPECT),  # the oldest of Friday, and not aligned
    )
    assert reasons(run.plan()) == {
        100: ["every-time"],  # the oldest of Wednesday and Thursday
        200: ["floor"],  # the cloud has but two
        300: ["weekly", "best"],
        400: ["floor"],  # NaN is never best
        500: ["every", "best"],
        600: [],
        700: ["every-time", "daily"],  # the oldest aligned of Friday and Saturday, and of Friday
        800: [],
        900: ["within", "daily"],  # three hours before the newest, to the minute
        1000: ["last", "every", "within", "hourly"],
        1100: ["newer-than-cutoff", "within", "hourly"],  # not aligned, so it takes no place among the two hours
        1200: ["last", "within", "hourly"],
    }
    assert gone(run.plan()) == [600, 800]


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ({}, [1100, 1200]),
        ({"last": 3}, [1000, 1100, 1200]),
        ({"every": 400}, [400, 800, 1100, 1200]),
        ({"every_time": DAY}, [100, 300, 600, 900, 1100, 1200]),
        ({"every_time": 2 * DAY}, [100, 600, 1100, 1200]),
        ({"within": 2 * HOUR}, [1000, 1100, 1200]),
        ({"within": 2 * HOUR - 1}, [1100, 1200]),
        ({"hourly": 3}, [1000, 1100, 1200]),
        ({"daily": 1}, [900, 1100, 1200]),
        ({"daily": 3}, [300, 600, 900, 1100, 1200]),
        ({"daily": 100}, [100, 300, 600, 900, 1100, 1200]),
        ({"daily": 0}, [1100, 1200]),
        ({"weekly": 1}, [300, 1100, 1200]),
        ({"weekly": 2}, [100, 300, 1100, 1200]),
        ({"best": Best("loss", "min")}, [500, 1100, 1200]),
        ({"best": Best("loss", "min", 3)}, [300, 500, 700, 1100, 1200]),
        ({"best": Best("loss", "max")}, [1100, 1200]),
        ({"best": Best("loss", "max", 2)}, [200, 1100, 1200]),
        ({"best": Best("loss", "max", 100)}, [200, 300, 500, 700, 1100, 1200]),
    ],
)
def test_each_rule_adds_what_it_names_to_the_newest_n(rule: dict[str, object], kept: list[int]) -> None:
    plan = twelve(Keep(last=2)).keeping(**rule).plan()
    assert stays(plan) == kept
    assert gone(plan) == [step for step in AT if step not in kept]


# The newest N.


def test_forty_six_aligned_checkpoints_with_twelve_to_keep_lose_thirty_four() -> None:
    steps = range(100, 4700, 100)
    plan = case(steps, steps, keep=Keep(last=12)).plan()
    assert len(gone(plan)) == 34
    assert plan.cutoff == 3500
    assert [step.bytes.keys() for step in plan.victims] == [{"primary", "mirror"}] * 34


def test_with_fewer_than_n_aligned_nothing_is_deleted_and_that_is_no_block() -> None:
    plan = case([100, 200, 300], [100], keep=Keep(last=2)).plan()
    assert plan.cutoff is None
    assert gone(plan) == []
    assert plan.blocked is None
    assert reasons(plan) == {100: ["last", "fewer-than-last"], 200: ["fewer-than-last"], 300: ["fewer-than-last"]}
    assert kinds(plan) == ["not-aligned"]


def test_a_run_of_exactly_n_deletes_nothing_and_has_its_cutoff() -> None:
    plan = case([100, 200], [100, 200], keep=Keep(last=2)).plan()
    assert (plan.cutoff, gone(plan), kinds(plan)) == (100, [], [])


@pytest.mark.parametrize("health", [Health.BROKEN, Health.SUSPECT, Health.IN_FLIGHT, Health.UNKNOWN])
@pytest.mark.parametrize("replica", ["primary", "mirror"])
def test_a_copy_that_does_not_restore_never_counts(health: Health, replica: str) -> None:
    steps = [100, 200, 300, 400]
    plan = case(steps, steps).but(copy(400, replica, health=health)).plan()
    assert reasons(plan) == {100: [], 200: ["last"], 300: ["last"], 400: ["newer-than-cutoff"]}


@pytest.mark.parametrize("health", [Health.INTACT, Health.WHOLE, Health.UNVERIFIED])
def test_a_copy_that_restores_counts_however_little_was_proved(health: Health) -> None:
    steps = [100, 200, 300]
    assert gone(case(steps, steps).but(copy(300, "mirror", health=health)).plan()) == [100]


def test_a_step_that_is_missing_on_the_primary_moves_the_cutoff_down() -> None:
    steps = [100, 200, 300, 400]
    assert gone(case(steps, steps).plan()) == [100, 200]
    assert gone(case([100, 200, 400], steps).plan()) == [100]
    assert gone(case(steps, [100, 200, 400]).plan()) == [100]


def test_copies_whose_manifests_disagree_are_not_aligned() -> None:
    steps = [100, 200, 300]
    run = case(steps, steps)
    one, other = copy(300, "primary", content="a"), copy(300, "mirror", content="b")
    assert gone(run.but(one, other).plan()) == []
    assert gone(run.but(one, copy(300, "mirror", content="a")).plan()) == [100]


def test_copies_of_two_lengths_are_not_aligned_unless_their_manifests_agree() -> None:
    steps = [100, 200, 300]
    run = case(steps, steps)
    assert gone(run.but(copy(300, "mirror", size=7)).plan()) == []
    assert gone(run.but(copy(300, content="a"), copy(300, "mirror", size=7, content="a")).plan()) == [100]


def test_an_optional_mirror_that_lags_or_differs_holds_nothing_back() -> None:
    steps = [100, 200, 300, 400]
    plan = case(steps, steps, [300]).but(copy(300, "cloud", content="other", size=7, health=Health.BROKEN)).plan()
    assert gone(plan) == [100, 200]


def test_damage_below_the_cutoff_goes_like_everything_else() -> None:
    steps = [100, 200, 300]
    assert gone(case(steps, steps).but(copy(100, "mirror", health=Health.BROKEN)).plan()) == [100]


def test_a_step_that_only_one_side_still_has_goes_too() -> None:
    plan = case([400, 500], [100, 400, 500]).plan()
    assert [(s.step, list(s.bytes)) for s in plan.victims] == [(100, ["mirror"])]


# Weights alone.


def test_weights_alone_do_not_count_while_anything_is_full() -> None:
    run = case([100, 200, 300]).but(copy(300, weights_only=True))
    assert reasons(run.plan()) == {100: ["last"], 200: ["last"], 300: ["newer-than-cutoff"]}


def test_in_a_run_of_weights_alone_they_count_and_that_is_said() -> None:
    run = case([100, 200, 300]).but(*(copy(step, weights_only=True) for step in (100, 200, 300)))
    assert gone(run.plan()) == [100]
    assert any("weights count" in note for note in run.plan().notes)


def test_a_broken_save_does_not_make_a_run_of_weights_a_run_with_something_full() -> None:
    run = case([100, 200, 300, 400]).but(*(copy(step, weights_only=True) for step in (100, 200, 300)))
    assert gone(run.but(copy(400, health=Health.BROKEN)).plan()) == [100]
    assert gone(run.but(copy(400, health=Health.UNKNOWN)).plan()) == []


def test_where_thinning_was_asked_for_only_that_many_of_the_newest_n_must_be_full() -> None:
    run = case([100, 200, 300, 400, 500], keep=Keep(last=4, full=2))
    thinned = [copy(step, weights_only=True) for step in (100, 200, 300)]
    assert gone(run.but(*thinned).plan()) == [100]
    assert gone(run.but(*thinned, copy(400, weights_only=True)).plan()) == []


# Rules by time.


def test_a_stretch_without_an_aligned_step_keeps_the_oldest_that_restores_anywhere() -> None:
    run = twelve(Keep(last=2, every_time=2 * DAY))
    broken = [copy(step, "primary", at=AT[step], health=Health.BROKEN) for step in (100, 200, 300, 400, 500)]
    assert stays(run.but(*broken).plan()) == [100, 600, 1100, 1200]
    assert stays(run.but(*broken, copy(100, "mirror", health=Health.BROKEN)).plan()) == [200, 600, 1100, 1200]


def test_a_stretch_of_which_nothing_restores_stays_whole() -> None:
    wednesday = [
        copy(step, name, at=AT[step], health=Health.BROKEN) for step in (100, 200) for name in ("primary", "mirror")
    ]
    assert stays(twelve(Keep(last=2, every_time=DAY)).but(*wednesday).plan()) == [100, 200, 300, 600, 900, 1100, 1200]


def test_days_of_failed_saves_do_not_push_good_days_out() -> None:
    friday = [
        copy(step, name, at=AT[step], health=Health.BROKEN)
        for step in (600, 700, 800)
        for name in ("primary", "mirror")
    ]
    assert stays(twelve(Keep(last=2, daily=2)).but(*friday).plan()) == [300, 600, 700, 800, 900, 1100, 1200]


def test_a_step_is_as_old_as_its_manifest_says() -> None:
    run = twelve(Keep(last=2, daily=2))
    moved = run.but(copy(500, at=AT[500], created_at_ns=AT[600] - HOUR))  # it opens Friday now
    assert stays(moved.plan()) == [500, 900, 1100, 1200]


def test_a_manifest_with_an_impossible_time_is_not_believed() -> None:
    run = twelve(Keep(last=2, daily=2))
    for impossible in (0, NOW + DAY):
        assert stays(run.but(copy(500, at=AT[500], created_at_ns=impossible)).plan()) == [600, 900, 1100, 1200]


def test_the_time_of_a_step_is_that_of_the_primary_and_of_a_mirror_only_where_that_lacks_it() -> None:
    run = twelve(Keep(last=2, daily=2))
    copied_late = [copy(step, "mirror", at=OLD) for step in AT]
    assert stays(run.but(*copied_late).plan()) == [600, 900, 1100, 1200]
    lost = run.but(copy(800, "mirror", at=AT[300])).without(800, "primary")
    assert stays(lost.plan()) == [600, 900, 1100, 1200]
    assert stays(lost.keeping(daily=3).without(300, "primary").without(300, "mirror").plan()) == [
        400,
        600,
        900,
        1100,
        1200,
    ]


def test_a_step_without_a_time_is_in_no_stretch_and_is_held_all_the_same() -> None:
    plan = twelve(Keep(last=2, daily=2)).but(copy(600, at=0)).plan()
    assert stays(plan) == [700, 900, 1100, 1200]
    assert 600 not in gone(plan)


def test_no_new_checkpoint_for_sixty_days_changes_nothing() -> None:
    run = twelve(Keep(last=1, within=3 * HOUR, daily=1))
    assert stays(run.later(60 * DAY).plan()) == stays(run.plan()) == [900, 1000, 1100, 1200]


def test_within_counts_back_from_the_newest_that_restores() -> None:
    run = twelve(Keep(last=1, within=HOUR))
    assert stays(run.plan()) == [1100, 1200]
    broken = [copy(1200, name, at=AT[1200], health=Health.BROKEN) for name in ("primary", "mirror")]
    assert stays(run.but(*broken).plan()) == [1000, 1100, 1200]


def test_within_keeps_all_where_it_counts_from_a_step_without_a_time_and_says_so() -> None:
    plan = twelve(Keep(last=1, within=HOUR)).but(copy(1200, at=0)).plan()
    assert gone(plan) == []
    assert kinds(plan) == ["unknown-mtime"]


# Best.


def test_best_chooses_among_what_restores_and_takes_the_next_best_otherwise() -> None:
    run = twelve(Keep(last=2, best=Best("loss", "min")))
    broken = [copy(500, name, at=AT[500], health=Health.BROKEN) for name in ("primary", "mirror")]
    assert stays(run.plan()) == [500, 1100, 1200]
    assert stays(run.but(broken[0]).plan()) == [500, 1100, 1200]
    assert stays(run.but(*broken).plan()) == [300, 1100, 1200]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), None, "0.01", True])
def test_what_is_no_finite_number_is_never_best(value: object) -> None:
    run = case([100, 200, 300, 400], keep=Keep(last=1, best=Best("loss", "min")))
    metrics = {100: {"loss": value}, 200: {"loss": 0.5}}
    assert stays(run.but(metrics=metrics).plan()) == [200, 400]


def test_a_metric_that_no_step_has_keeps_all_and_names_those_there_are() -> None:
    plan = (
        case([100, 200, 300], keep=Keep(last=1, best=Best("eval_los", "min")))
        .but(metrics={100: {"eval_loss": 0.1}})
        .plan()
    )
    assert gone(plan) == []
    assert kinds(plan) == ["metric-missing"]
    assert "eval_loss" in plan.attention[0].mend


def test_steps_that_lack_a_metric_which_others_have_are_not_best() -> None:
    run = case([100, 200, 300], keep=Keep(last=1, best=Best("loss", "min")), metrics={200: {"loss": 0.3}})
    assert gone(run.plan()) == [100]


def test_the_best_never_costs_the_newest() -> None:
    metrics = {100: {"loss": 0.1}, 200: {"loss": 0.2}, 300: {"loss": 0.3}, 400: {"loss": 0.4}}
    run = case(metrics, keep=Keep(last=2, best=Best("loss", "min", 2)), metrics=metrics)
    assert stays(run.plan()) == [100, 200, 300, 400]


# The floor.


def test_the_floor_keeps_on_every_replica_what_an_optional_mirror_needs_for_its_own_n() -> None:
    steps = [100, 200, 300, 400, 500]
    plan = case(steps, steps, [100, 200, 300, 500]).plan()
    assert reasons(plan) == {100: [], 200: [], 300: ["floor"], 400: ["last"], 500: ["last"]}
    assert "floor" in " ".join(plan.notes)


def test_the_floor_counts_only_what_restores_there() -> None:
    steps = [100, 200, 300, 400, 500]
    run = case(steps, steps, steps).but(
        copy(500, "cloud", health=Health.BROKEN), copy(300, "cloud", health=Health.UNKNOWN)
    )
    assert reasons(run.plan()) == {100: [], 200: ["floor"], 300: [], 400: ["last"], 500: ["last"]}


def test_a_mirror_that_is_away_has_no_floor_and_loses_nothing() -> None:
    steps = [100, 200, 300, 400, 500]
    plan = case(steps, steps, [100, 200]).replica("cloud", listed=False).plan()
    assert gone(plan) == [100, 200, 300]
    assert all("cloud" not in step.bytes for step in plan.victims)
    assert kinds(plan) == ["replica-unreachable"]


# Settings.


def test_an_enormous_n_deletes_nothing() -> None:
    assert gone(twelve(Keep(last=1_000_000)).plan()) == []


def test_rules_without_sense_are_no_rules() -> None:
    assert stays(twelve(Keep(last=2, every=0, every_time=0)).plan()) == [1100, 1200]
    assert stays(twelve(Keep(last=0)).plan()) == [1200]


@pytest.mark.parametrize("unit", [MINUTE, HOUR, DAY])
def test_stretches_are_cut_at_whole_units_and_not_from_the_first_step(unit: int) -> None:
    start = MIDNIGHT - 10 * unit
    at = {100: start - 1, 200: start, 300: start + unit - 1, 400: start + unit, 500: MIDNIGHT}
    assert stays(case(at, keep=Keep(last=1, every_time=unit), at=at).plan()) == [100, 200, 400, 500]
