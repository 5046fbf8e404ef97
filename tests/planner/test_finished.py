"""A run that is finished falls to its final policy, and only one of which that is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune.settings.schema import DAY, HOUR, Keep
from tests.inventories import MIRROR, Case, case, gone, stays, temporary

LONG_AGO = 20 * DAY


def finished(first: Case, *, after: int = 7 * DAY, final: Keep | None = None) -> Case:
    return replace(first, run=replace(first.run, final=final or Keep(last=1), finished_after=after))


def runs(*, idle: int, steps: int = 6, **more) -> Case:
    """Steps an hour apart, the newest so long ago."""
    now = case(range(1, steps + 1)).now_ns
    at = {step: now - idle - HOUR * (steps - step) for step in range(1, steps + 1)}
    return case(range(1, steps + 1), range(1, steps + 1), keep=Keep(last=4), at=at, **more)


def test_no_new_step_for_the_time_and_the_final_policy_holds():
    plan = finished(runs(idle=LONG_AGO)).plan()
    assert gone(plan) == [1, 2, 3, 4, 5]
    assert plan.keep["last"] == 1
    assert any(note.startswith("finished: no new step for 20d") for note in plan.notes)


@pytest.mark.parametrize("idle", [0, HOUR, 7 * DAY - 1])
def test_before_that_the_ordinary_policy_holds(idle):
    assert gone(finished(runs(idle=idle)).plan()) in ([1, 2], [])


def test_that_it_will_be_finished_is_said_before_it_is():
    (note,) = [note for note in finished(runs(idle=6 * DAY)).plan().notes if "finished" in note]
    assert "counts as finished in 1d" in note


def test_without_a_final_policy_or_a_time_no_run_is_ever_finished():
    first = runs(idle=LONG_AGO)
    assert gone(first.plan()) == [1, 2]
    assert gone(replace(first, run=replace(first.run, final=Keep(last=1))).plan()) == [1, 2]
    assert gone(replace(first, run=replace(first.run, finished_after=DAY)).plan()) == [1, 2]


@pytest.mark.parametrize("odd", [None, 0, 2**62])
def test_a_time_that_nobody_knows_is_never_long_ago(odd):
    first = finished(runs(idle=LONG_AGO))
    copy = replace(first.inventory.copies[3]["mirror"], mtime_ns=odd)
    assert 4 not in gone(first.but(copy).plan())


def test_a_save_under_way_is_a_sign_of_life():
    first = runs(idle=LONG_AGO)
    fresh = runs(idle=LONG_AGO, temporaries=(temporary(7, at=first.now_ns - HOUR),))
    assert gone(finished(fresh).plan()) == [1, 2]


def test_a_mirror_that_cannot_be_seen_may_hold_a_newer_step():
    first = finished(runs(idle=LONG_AGO))
    replicas = tuple(replace(r, listed=r.name != MIRROR.name) for r in first.inventory.replicas)
    plan = replace(first, inventory=replace(first.inventory, replicas=replicas)).plan()
    assert plan.keep["last"] == 4


@given(idle=st.integers(0, 40 * DAY), after=st.integers(DAY, 30 * DAY), last=st.integers(1, 6))
def test_the_final_policy_deletes_no_more_than_it_says_and_keeps_the_newest(idle, after, last):
    plan = finished(runs(idle=idle), after=after, final=Keep(last=last)).plan()
    n = last if idle >= after else 4
    assert set(gone(plan)) <= set(range(1, 7 - n))
    assert 6 in stays(plan)
