"""Water marks, on round numbers."""

from __future__ import annotations

import pytest

from prune.pressure.marks import FEWEST_INODES, Wish, high_water, low_water, room_for, wish_of
from prune.settings.schema import Pressure, Share
from prune.stores.base import Space


def space(free: int, *, total: int = 1000, inodes: int | None = 5000, of: int | None = 10_000) -> Space:
    return Space(free, total, inodes, of)


TENTH = Pressure(free_below=Share(10), free_target=Share(20))


def test_at_low_water_nothing_begins_and_below_it_the_target_is_wished_for() -> None:
    assert wish_of(TENTH, space(100)) is None
    wish = wish_of(TENTH, space(99))
    assert wish is not None
    assert wish.bytes == 200


def test_a_size_is_a_mark_as_well_as_a_share() -> None:
    wish = wish_of(Pressure(free_below=150, free_target=300), space(149))
    assert wish is not None
    assert wish.bytes == 300


def test_without_a_target_low_water_is_the_target() -> None:
    assert wish_of(Pressure(free_below=150), space(10)) == Wish(150, FEWEST_INODES)


def test_a_target_below_low_water_never_ends_under_it() -> None:
    assert high_water(Pressure(free_below=150, free_target=50), space(10)).bytes == 150


def test_a_share_speaks_of_inodes_too() -> None:
    wish = wish_of(TENTH, space(900, inodes=999))
    assert wish == Wish(200, 2000)
    assert wish_of(TENTH, space(900, inodes=1000)) is None


def test_a_volume_with_no_inode_left_is_short_whatever_the_marks_say() -> None:
    assert wish_of(Pressure(), space(900, inodes=0)) == Wish(0, FEWEST_INODES)


def test_inodes_that_are_not_counted_are_never_short() -> None:
    assert wish_of(TENTH, space(900, inodes=None, of=None)) is None


def test_saves_that_do_not_fit_begin_it_without_any_mark() -> None:
    assert wish_of(Pressure(), space(99), next_saves=100) == Wish(100)
    assert wish_of(Pressure(), space(100), next_saves=100) is None


def test_a_share_is_of_the_whole_volume() -> None:
    assert room_for(Share(25), space(1)) == Wish(250)
    assert room_for(300, space(1)) == Wish(300)


@pytest.mark.parametrize(("free", "short"), [(0, 100), (60, 40), (100, 0), (500, 0)])
def test_what_is_missing_is_never_negative(free: int, short: int) -> None:
    assert Wish(100).short(space(free)).bytes == short


def test_low_water_of_nothing_asks_for_next_to_nothing() -> None:
    assert low_water(Pressure(), space(0)) == Wish(0, FEWEST_INODES)
