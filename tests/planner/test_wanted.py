"""How little must be looked at before a plan can be made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prune.model import Health, Pin
from prune.planner import Wanted
from prune.settings.schema import DAY, HOUR, Best, Keep
from tests.inventories import NOW, OLD, Case, case, copy, gone, listed, reasons, veil, veiled

BOTH = ("primary", "mirror")


def keys(steps: object, replicas: tuple[str, ...] = BOTH) -> set[tuple[int, str]]:
    return {(step, replica) for step in steps for replica in replicas}  # type: ignore[attr-defined]


def run(keep: Keep | None = None, **changes: object) -> Case:
    """46 steps on both sides, 12 to keep, written in order."""
    at = {step: OLD - (4600 - step) * 1_000_000_000 for step in range(100, 4700, 100)}
    return case(at, at, keep=keep or Keep(last=12), at=at, **changes)


def test_the_newest_n_are_judged_on_every_required_replica_and_what_goes_is_measured() -> None:
    look = veiled(run())
    assert gone(look.look().plan()) == list(range(100, 3500, 100))
    assert look.judged == keys(range(3500, 4700, 100))
    assert look.measured == keys(range(100, 3500, 100))
    assert look.rounds == 2


def test_judging_goes_on_downward_from_what_turns_out_not_to_count() -> None:
    broken = [copy(4600, "mirror", health=Health.BROKEN), copy(4500, health=Health.IN_FLIGHT)]
    look = veiled(run().but(*broken))
    assert look.look().plan().cutoff == 3300
    assert look.judged == keys(range(3300, 4700, 100))


def test_what_one_side_lacks_is_not_judged_on_the_other_but_to_resume_from_it() -> None:
    look = veiled(run().without(4600, "mirror").without(4000, "primary"))
    assert look.look().plan().cutoff == 3300
    assert look.judged == keys(range(3300, 4700, 100)) - {(4600, "mirror"), (4000, "primary"), (4000, "mirror")}


@pytest.mark.parametrize("last", [46, 47, 1000])
def test_with_n_steps_or_fewer_only_the_resume_candidate_is_looked_for(last: int) -> None:
    look = veiled(run(Keep(last=last, every=1000, daily=3, best=Best("loss", "min"))))
    plan = look.look().plan()
    assert plan.resume_candidate is not None
    assert look.judged == keys([4600])
    assert look.measured == set()
    assert any("not all of them were examined" in note for note in plan.notes)


def test_the_search_for_the_candidate_goes_down_until_something_restores() -> None:
    broken = [copy(step, name, health=Health.BROKEN) for step in (4500, 4600) for name in BOTH]
    look = veiled(run(Keep(last=46)).but(*broken))
    look.look()
    assert look.judged == keys([4400, 4500, 4600])


def test_a_mirror_is_not_asked_where_the_primary_was_verified() -> None:
    look = veiled(run(Keep(last=46)).but(copy(4600, health=Health.INTACT)))
    seen = look.seen.but(look.whole.inventory.copies[4600]["primary"])
    assert not seen.wanted()


def test_an_optional_mirror_is_judged_as_far_as_its_floor() -> None:
    steps = range(100, 1100, 100)
    look = veiled(case(steps, None, [100, 200, 300, 900], keep=Keep(last=2)))
    assert reasons(look.look().plan())[300] == ["floor"]
    assert look.judged == {(900, "primary"), (1000, "primary"), (900, "cloud"), (300, "cloud")}


def test_a_mirror_that_is_away_is_not_asked() -> None:
    look = veiled(case([100, 200, 300], None, [100, 200]).replica("cloud", listed=False))
    assert gone(look.look().plan()) == [100]
    assert look.judged == {(200, "primary"), (300, "primary")}


def test_what_a_guard_holds_anyway_need_not_be_measured() -> None:
    look = veiled(run(pins=(Pin(100, "why", "me", 0),)).but(copy(200, at=0), best_recorded=300))
    look.look()
    assert look.measured == keys(range(400, 3500, 100))


def test_nothing_is_measured_in_a_run_that_is_blocked() -> None:
    look = veiled(run().replica("mirror", read_only=True))
    plan = look.look().plan()
    assert plan.blocked is not None
    assert look.measured == set()


def test_time_rules_lean_on_the_times_of_all_steps_and_on_the_health_of_the_chosen() -> None:
    at = {100: NOW - 9 * DAY, 200: NOW - 9 * DAY + HOUR, 300: NOW - 8 * DAY, 400: NOW - 2 * DAY, 500: NOW - DAY}
    look = veiled(case(at, keep=Keep(last=1, daily=3), at=at))
    assert gone(look.look().plan()) == [100, 200]
    assert look.judged == keys([300, 400, 500], ("primary",))
    assert look.measured == keys([100, 200], ("primary",)) | keys([], ())


def test_a_manifest_that_was_read_already_spares_measuring_for_the_time() -> None:
    at = {100: NOW - 9 * DAY, 200: NOW - 8 * DAY, 300: NOW - DAY}
    whole = case(at, keep=Keep(last=1, daily=2), at=at)
    sealed = whole.but(*(copy(step, at=time, created_at_ns=time) for step, time in at.items()))
    seen = sealed.but(*(replace(veil(copy(step, at=time)), created_at_ns=time) for step, time in at.items()))
    look = type(veiled(sealed))(sealed, seen)
    assert gone(look.look().plan()) == [100]
    assert look.measured == {(100, "primary")}


def test_best_candidates_are_judged_best_first() -> None:
    metrics = {step: {"loss": step / 100} for step in range(100, 1100, 100)}
    look = veiled(
        case(metrics, keep=Keep(last=2, best=Best("loss", "min")), metrics=metrics).but(copy(100, health=Health.BROKEN))
    )
    assert gone(look.look().plan()) == [100, 300, 400, 500, 600, 700, 800]
    assert look.judged == keys([100, 200, 900, 1000], ("primary",))


def test_plain_files_are_measured_by_listing_them() -> None:
    whole = run()
    seen = whole.but(*(veil(c, measured=True) for held in whole.inventory.copies.values() for c in held.values()))
    assert seen.wanted() == Wanted(judge=frozenset(keys(range(3500, 4700, 100))))


def test_a_verified_step_that_is_to_go_makes_newer_ones_be_looked_into() -> None:
    whole = case([100, 200, 300, 400], keep=Keep(last=1, every=200)).but(
        copy(100, verified_ns=OLD), copy(200, verified_ns=OLD)
    )
    look = veiled(whole)
    assert gone(look.look().plan()) == [100, 300]
    assert (200, "primary") in look.measured


def test_lowering_n_for_room_looks_no_further_than_the_lower_n() -> None:
    look = veiled(run())
    assert len(gone(look.look(keep_last=3).plan(keep_last=3))) == 43
    assert look.judged == keys([4400, 4500, 4600])


def test_an_unexamined_run_plans_nothing() -> None:
    steps = [100, 200, 300]
    plan = case([], []).but(*(listed(step, name) for step in steps for name in BOTH)).plan()
    assert (plan.cutoff, gone(plan), plan.resume_candidate) == (None, [], None)
    assert bool(Wanted()) is False
