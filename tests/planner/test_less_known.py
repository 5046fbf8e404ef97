"""Where knowing less of a copy does delete another step than before.

In most ways it deletes less, as the properties show. In these few it cannot, since a rule that chooses chooses
another: what it kept as good is no longer known to be good. The newest N, what is resumed from and what guards hold
survive all the same.
"""

from __future__ import annotations

from prune.model import Health
from prune.settings.schema import DAY, HOUR, Best, Keep
from tests.inventories import NOW, case, copy, gone, held


def test_a_broken_newest_step_makes_fewer_go() -> None:
    run = case([100, 200, 300, 400])
    assert gone(run.plan()) == [100, 200]
    assert gone(run.but(copy(400, health=Health.BROKEN)).plan()) == [100]


def test_a_stretch_of_time_is_kept_by_its_next_step() -> None:
    at = {100: NOW - 9 * DAY, 200: NOW - 9 * DAY + HOUR, 300: NOW - DAY}
    run = case(at, keep=Keep(last=1, every_time=DAY), at=at)
    assert gone(run.plan()) == [200]
    assert gone(run.but(copy(100, at=at[100], health=Health.BROKEN)).plan()) == [100]
    assert gone(run.but(copy(100, at=at[100], health=Health.UNKNOWN)).plan()) == [], "it may be the one"


def test_the_best_is_the_next_best() -> None:
    metrics = {100: {"loss": 0.1}, 200: {"loss": 0.2}, 300: {"loss": 0.3}}
    run = case(metrics, keep=Keep(last=1, best=Best("loss", "min")), metrics=metrics)
    assert gone(run.plan()) == [200]
    assert gone(run.but(copy(100, health=Health.BROKEN)).plan()) == [100]
    assert gone(run.but(copy(100, health=Health.UNKNOWN)).plan()) == [], "it may be the best"


def test_the_floor_of_an_optional_mirror_is_its_next_older_step() -> None:
    run = case([100, 200, 300, 400], None, [100, 200, 300], keep=Keep(last=1))
    assert gone(run.plan()) == [100, 200]
    assert gone(run.but(copy(300, "cloud", health=Health.UNKNOWN)).plan()) == [100, 300]


def test_an_optional_mirror_that_is_away_has_no_floor() -> None:
    run = case([100, 200, 300], None, [100, 200], keep=Keep(last=1))
    assert gone(run.plan()) == [100]
    assert gone(run.replica("cloud", listed=False).plan()) == [100, 200]


def test_what_was_written_last_is_the_next_that_restores() -> None:
    at = {100: NOW - 5 * DAY, 200: NOW - 2 * DAY, 300: NOW - 3 * DAY, 400: NOW - 2 * DAY}
    run = case(at, keep=Keep(last=1, every=300), at=at).but(copy(400, at=0))
    assert "resume-candidate" in held(run.plan(allow_rewound=True))[200]
    assert gone(run.but(copy(200, at=at[200], health=Health.BROKEN)).plan(allow_rewound=True)) == [100, 200]


def test_within_counts_from_another_step_which_may_have_been_written_later() -> None:
    at = {100: NOW - 30 * HOUR, 200: NOW - 20 * HOUR, 300: NOW - 29 * HOUR}
    run = case(at, keep=Keep(last=1, within=2 * HOUR), at=at)
    assert gone(run.plan()) == []
    assert gone(run.but(copy(300, at=at[300], health=Health.BROKEN)).plan(allow_rewound=True)) == [100]


def test_a_lower_cutoff_may_keep_a_step_of_the_new_run_after_which_the_rest_was_not_written() -> None:
    at = {100: NOW - 10 * HOUR, 600: NOW - 9 * HOUR, 700: NOW - 6 * DAY, 800: NOW - 6 * DAY}
    run = case(at, keep=Keep(last=2), at=at)
    assert gone(run.plan()) == []
    assert gone(run.but(copy(800, at=at[800], health=Health.BROKEN)).plan()) == [100]
    assert gone(run.but(copy(800, at=at[800], health=Health.BROKEN), rewound_since_ns=at[100]).plan()) == []
    assert gone(run.keeping(last=3).plan()) == [100]  # and so may a larger N


def test_the_brake_lets_through_what_a_guard_made_small_enough() -> None:
    run = case([100, 200, 300, 400]).guarding(max_delete=1)
    assert gone(run.plan()) == []
    assert gone(run.but(best_recorded=100).plan()) == [200]


def test_weights_count_once_the_last_full_copy_is_known_to_be_broken_and_not_before() -> None:
    weights = [copy(step, weights_only=True) for step in (100, 200, 300)]
    run = case([50, 100, 200, 300]).but(*weights)
    assert gone(run.plan()) == []
    assert gone(run.but(copy(50, health=Health.UNKNOWN)).plan()) == []
    assert gone(run.but(copy(50, health=Health.BROKEN)).plan()) == [50, 100]
