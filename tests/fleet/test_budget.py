"""Who may keep how much: pure, and held to what it promises for any fleet."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from prune.fleet.budget import Holding, Level, divide

POOLS = ("disk", "group")


@st.composite
def holdings(draw: st.DrawFn) -> list[Holding]:
    found = []
    for number in range(draw(st.integers(0, 6))):
        own = draw(st.integers(1, 6))
        least = draw(st.integers(1, own))
        sizes = {pool: draw(st.integers(0, 9)) for pool in draw(st.sets(st.sampled_from(POOLS)))}
        levels = [Level(n, {pool: size * n for pool, size in sizes.items()}) for n in range(own - 1, least - 1, -1)]
        kept = {pool: size * own for pool, size in sizes.items()}
        priority, newest = draw(st.integers(-1, 1)), draw(st.none() | st.integers(0, 3))
        found.append(Holding(f"run-{number}", kept, priority, newest, tuple(levels)))
    return found


budgets = st.dictionaries(st.sampled_from(POOLS), st.integers(0, 150))


def kept_by(holding: Holding, lowered) -> dict:
    return next((dict(lv.kept) for lv in holding.lower if lv.keep_last == lowered.get(holding.run)), dict(holding.kept))


@given(holdings(), budgets)
def test_every_budget_is_kept_to_or_nobody_can_give_more_and_that_is_told(fleet, limits):
    division = divide(limits, fleet)
    for pool, limit in limits.items():
        total = sum(kept_by(holding, division.lowered).get(pool, 0) for holding in fleet)
        assert division.kept[pool] == total
        assert division.over.get(pool, 0) == max(0, total - limit)
        if total > limit:
            least = sum(min([h.kept.get(pool, 0), *(lv.kept.get(pool, 0) for lv in h.lower)]) for h in fleet)
            assert total == least


@given(holdings(), budgets)
def test_nobody_goes_below_what_its_settings_allow_or_above_its_own(fleet, limits):
    lowered = divide(limits, fleet).lowered
    for holding in fleet:
        assert lowered.get(holding.run) in (None, *(level.keep_last for level in holding.lower))


@given(holdings(), budgets)
def test_where_all_fits_nobody_gives(fleet, limits):
    if all(sum(holding.kept.get(pool, 0) for holding in fleet) <= limit for pool, limit in limits.items()):
        assert not divide(limits, fleet).lowered


@given(holdings(), st.integers(0, 150))
def test_who_comes_later_gives_only_once_all_before_have_given_what_they_can(fleet, limit):
    lowered = divide({"disk": limit}, fleet).lowered
    ordered = sorted(fleet, key=lambda holding: holding.gives)
    for place, holding in enumerate(ordered):
        if holding.run in lowered:
            for before in ordered[:place]:
                sizes = [level.kept.get("disk", 0) for level in before.lower]
                assert kept_by(before, lowered).get("disk", 0) == min([before.kept.get("disk", 0), *sizes])


@given(holdings(), st.integers(0, 150))
def test_the_last_one_gives_no_more_than_is_needed(fleet, limit):
    division = divide({"disk": limit}, fleet)
    ordered = [h for h in sorted(fleet, key=lambda holding: holding.gives) if h.run in division.lowered]
    if ordered:
        last = ordered[-1]
        at = [level.keep_last for level in last.lower].index(division.lowered[last.run])
        above = last.kept if at == 0 else last.lower[at - 1].kept
        assert division.kept["disk"] - kept_by(last, division.lowered)["disk"] + above["disk"] > limit


@given(holdings(), st.integers(0, 150), st.integers(0, 50))
def test_more_room_never_makes_anybody_keep_less(fleet, limit, more):
    tight, wide = divide({"disk": limit}, fleet).lowered, divide({"disk": limit + more}, fleet).lowered
    for holding in fleet:
        assert wide.get(holding.run, 99) >= tight.get(holding.run, 99)


@given(st.permutations(range(6)), holdings(), budgets)
def test_the_order_in_which_runs_are_told_changes_nothing(order, fleet, limits):
    shuffled = [fleet[place] for place in order if place < len(fleet)]
    assert divide(limits, shuffled) == divide(limits, fleet)


def test_the_lowest_priority_gives_first_then_who_stood_still_the_longest_then_who_nobody_knows():
    one = Holding("one", {"disk": 4}, 0, 5, (Level(1, {"disk": 1}),))
    fleet = [replace(one, run="late", newest_ns=9), replace(one, run="early", newest_ns=1),
             replace(one, run="unknown", newest_ns=None), replace(one, run="important", priority=1, newest_ns=0),
             replace(one, run="spare", priority=-1, newest_ns=99)]  # fmt: skip
    given_by = [set(divide({"disk": limit}, fleet).lowered) for limit in (20, 19, 16, 13, 10, 7)]
    order = ["spare", "early", "late", "unknown", "important"]
    assert given_by == [set(order[:count]) for count in range(6)]
