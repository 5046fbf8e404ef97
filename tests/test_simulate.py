"""What the simulation promises: arithmetic a person can check by eye."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prune.forecast import Demand, seconds_to_full
from prune.planner import plan
from prune.settings.schema import DAY, HOUR, MINUTE, Best, Keep
from prune.simulate import Rhythm, Volume, Workload, held_after, simulate
from tests.inventories import case, copy, gone

GB = 1_000_000_000
DAY_ZERO = 20_000 * DAY
TINY = Workload(bytes=GB, interval_ns=10 * MINUTE, steps_per_save=100)


def test_a_plain_policy_settles_at_n_and_peaks_at_n_plus_one_and_the_save_in_flight() -> None:
    told = simulate(Keep(last=12), TINY, ())
    assert told.steady_bytes == 12 * GB
    assert told.peak_bytes == 14 * GB


def test_grace_holds_what_was_taken_in_that_time() -> None:
    told = simulate(Keep(last=12), TINY, (), Rhythm(grace_ns=HOUR))
    assert told.in_trash == 6
    assert told.peak_bytes == 20 * GB


def test_passes_rarer_than_saves_let_saves_pile_up() -> None:
    assert simulate(Keep(last=2), TINY, (), Rhythm(pass_every_ns=HOUR)).waiting == 6


def test_a_ladder_adds_its_rungs_at_most() -> None:
    assert simulate(Keep(last=12, daily=7, weekly=4), TINY, ()).steady_checkpoints == 23


def test_best_adds_its_count_at_most() -> None:
    assert simulate(Keep(last=12, best=Best("eval_loss", "min", 2)), TINY, ()).steady_checkpoints == 14


def test_within_adds_only_what_the_last_n_do_not_hold() -> None:
    assert simulate(Keep(last=12, within=30 * MINUTE), TINY, ()).steady_checkpoints == 12
    assert simulate(Keep(last=12, within=4 * HOUR), TINY, ()).steady_checkpoints == 25


def test_keeping_multiples_grows_without_end_and_says_how_fast() -> None:
    told = simulate(Keep(last=12, every=1000), TINY, ())
    assert told.steady_bytes is None
    assert told.peak_bytes is None
    assert told.growth_bytes_per_day == pytest.approx(14.4 * GB)  # 144 saves a day, every tenth stays


def test_multiples_that_saves_rarely_meet_are_counted_as_rarely() -> None:
    # Saves at multiples of 100; multiples of 150 among them are the multiples of 300.
    told = simulate(Keep(last=1, every=150), TINY, ())
    assert told.growth_bytes_per_day == pytest.approx(48 * GB)


def test_a_volume_for_n_plus_two_fits_and_one_less_does_not() -> None:
    fits, short = simulate(Keep(last=12), TINY, (Volume("primary", 14 * GB), Volume("mirror", 14 * GB - 1))).rooms
    assert fits.fits
    assert fits.trouble_ns is None
    assert not short.fits
    assert short.bytes_short == 1


def test_the_first_trouble_is_the_save_that_does_not_fit() -> None:
    # The fifth save, 40 minutes after the first, asks for 5 GB.
    (room,) = simulate(Keep(last=12), TINY, (Volume("primary", 4 * GB),)).rooms
    assert room.trouble_ns == 40 * MINUTE


def test_a_growing_policy_meets_trouble_years_ahead_at_the_right_day() -> None:
    (room,) = simulate(Keep(last=1, every_time=DAY), TINY, (Volume("primary", 100 * GB),)).rooms
    assert room.trouble_ns is not None
    assert room.trouble_ns // DAY == 97  # 1 last, 1 waiting, 1 in flight, one a day from the first


def test_the_largest_n_that_fits_is_told() -> None:
    volumes = (Volume("primary", 40 * GB), Volume("mirror", 10 * GB))
    assert simulate(Keep(last=12), TINY, volumes).largest_last == 8
    assert simulate(Keep(last=12), TINY, (Volume("primary", 2 * GB),)).largest_last is None


@pytest.mark.parametrize("capacity", [1, 5 * GB - 1, 5 * GB, 123 * GB])
def test_without_deleting_the_simulation_and_the_forecast_agree(capacity: int) -> None:
    (room,) = simulate(Keep(last=10**9), TINY, (Volume("primary", capacity),)).rooms
    told = seconds_to_full([Demand(0, TINY.interval_ns, TINY.bytes)], free_bytes=capacity, now_ns=0)
    assert room.trouble_ns is not None
    assert told == room.trouble_ns / 1e9


def test_what_is_held_never_shrinks_as_saves_go_by() -> None:
    keep = Keep(last=3, every=700, daily=2, hourly=5, within=HOUR)
    held = [held_after(keep, TINY, Rhythm(grace_ns=HOUR), saves) for saves in range(2000)]
    assert held == sorted(held)
    assert held[0] == 1


@pytest.mark.parametrize("workload", [Workload(0, MINUTE), Workload(1, 0), Workload(1, 1, 0), Workload(-1, 1)])
def test_sizes_and_intervals_of_nothing_are_refused(workload: Workload) -> None:
    with pytest.raises(ValueError, match="more than zero"):
        simulate(Keep(), workload, ())


POLICIES = [
    Keep(last=3),
    Keep(last=3, every=700),
    Keep(last=2, every_time=2 * HOUR),
    Keep(last=2, within=90 * MINUTE),
    Keep(last=2, hourly=5),
    Keep(last=1, hourly=3, daily=2),
    Keep(last=4, every=400, hourly=2, within=HOUR),
]


@pytest.mark.parametrize("keep", POLICIES, ids=str)
def test_the_planner_never_holds_more_than_the_simulation_says(keep: Keep) -> None:
    """A day of saves, each followed by a pass: what stands when the next save begins stays within the figures."""
    there: dict[int, int] = {}
    most = 0
    for number in range(1, 145):
        at = DAY_ZERO + number * TINY.interval_ns
        there[number * TINY.steps_per_save] = at
        whole = case(keep=keep)
        copies = {step: {"primary": copy(step, at=written)} for step, written in there.items()}
        inventory = replace(whole.inventory, copies=copies, replicas=whole.inventory.replicas[:1])
        run = replace(whole.run, replicas=whole.run.replicas[:1])
        found = plan(inventory, run, at + 9 * MINUTE)
        assert not found.blocks
        for step in gone(found):
            del there[step]
        most = max(most, len(there))
        assert len(there) + 1 <= held_after(keep, TINY, Rhythm(), number)
    assert most >= keep.last
