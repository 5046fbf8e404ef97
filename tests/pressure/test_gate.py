"""Whether the last victim gained anything, with clocks and figures in our hands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from prune.model import SECOND, DeletedCopy
from prune.pressure.gate import LOOK_NS, MOST_DOUBTS, TELLING, Gate
from prune.pressure.marks import Wish
from prune.stores.base import Space

MIB = 1 << 20


class World:
    """A volume of 1000 MiB. ``each_look`` happens whenever free space is read."""

    def __init__(self, *, free: int, wish: int = 500, inodes: int | None = None) -> None:
        self.free, self.inodes, self.now, self.slept = free * MIB, inodes, 0, 0.0
        self.each_look: Callable[[], None] = lambda: None
        self.gate = Gate(Wish(wish * MIB if inodes is None else 0, 0 if inodes is None else 100), self.probe,
                         late_ns=SECOND, sleep=self.sleep, clock=lambda: self.now)  # fmt: skip

    def probe(self) -> Space:
        self.each_look()
        return Space(self.free, 1000 * MIB, self.inodes, None if self.inodes is None else 10_000)

    def sleep(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)
        self.slept += seconds

    def victim(self, *, expected: int, gained: int, takes: int = 0, inodes: int = 0) -> bool:
        """One step goes. Whether the next may."""
        self.gate.told(DeletedCopy(10, "primary", expected * MIB, 1, True))
        self.free += gained * MIB
        if self.inodes is not None:
            self.inodes += inodes
        self.now += takes
        return self.gate.keep_going()


@pytest.fixture
def world() -> World:
    world = World(free=100)
    assert world.gate.keep_going()
    return world


def test_a_gain_as_expected_lets_the_next_one_go(world: World) -> None:
    assert world.victim(expected=10, gained=10)
    assert world.slept == 0


def test_there_is_no_next_one_once_the_wish_is_met(world: World) -> None:
    assert not world.victim(expected=400, gained=400)
    assert world.gate.no_gain is None


def test_nothing_gained_ends_it_after_waiting_for_what_comes_late(world: World) -> None:
    assert not world.victim(expected=10, gained=0)
    found = world.gate.no_gain
    assert found is not None
    assert (found.step, found.expected, found.gained) == (10, 10 * MIB, 0)
    assert world.slept > 0.9


def test_once_ended_it_stays_ended(world: World) -> None:
    world.victim(expected=10, gained=0)
    world.free += 50 * MIB
    assert not world.gate.keep_going()


def test_a_small_step_that_frees_what_it_held_is_a_gain(world: World) -> None:
    world.gate.told(DeletedCopy(10, "primary", 24 << 10, 4, True))
    world.free += 24 << 10
    assert world.gate.keep_going()
    assert world.slept == 0


def test_a_step_that_held_nothing_tells_nothing_and_the_next_one_goes(world: World) -> None:
    for _ in range(3):
        assert world.victim(expected=0, gained=0)
    assert world.slept == 0
    assert world.victim(expected=10, gained=10)
    assert world.victim(expected=0, gained=0)
    assert not world.victim(expected=10, gained=0)
    assert world.gate.no_gain is not None
    assert world.gate.no_gain.together == 2


def test_small_steps_that_free_nothing_are_judged_together(world: World) -> None:
    taken = 0
    while world.gate.keep_going():
        world.gate.told(DeletedCopy(taken, "primary", 24 << 10, 4, True))
        taken += 1
    assert world.gate.no_gain is not None
    assert taken == world.gate.no_gain.together == -(-TELLING // (24 << 10))


def test_a_crumb_around_files_that_stay_elsewhere_is_no_gain(world: World) -> None:
    world.gate.told(DeletedCopy(10, "primary", 4096, 1, True, held_elsewhere=True))
    world.free += 4096
    assert not world.gate.keep_going()


def test_space_that_comes_back_late_is_a_gain(world: World) -> None:
    def later() -> None:
        if world.now >= 3 * LOOK_NS:
            world.free = 110 * MIB

    world.each_look = later
    assert world.victim(expected=10, gained=0)


def test_one_who_writes_all_the_time_is_reckoned_with(world: World) -> None:
    """He writes 10 MiB in each tenth of a second; the victim of 30 MiB took three of them to go."""

    def write() -> None:
        if world.now > written[0]:
            world.free -= 10 * MIB * ((world.now - written[0]) // LOOK_NS)
            written[0] = world.now

    written = [0]
    world.each_look = write
    for _ in range(5):
        assert world.victim(expected=30, gained=30, takes=3 * LOOK_NS)
    assert world.gate.no_gain is None


def test_one_who_writes_all_the_time_hides_no_snapshot(world: World) -> None:
    def write() -> None:
        if world.now > written[0]:
            world.free -= 10 * MIB * ((world.now - written[0]) // LOOK_NS)
            written[0] = world.now

    written = [0]
    world.each_look = write
    world.free = 400 * MIB
    world.gate.keep_going()
    assert not all(world.victim(expected=30, gained=0, takes=3 * LOOK_NS) for _ in range(MOST_DOUBTS + 1))


def test_a_save_that_fell_into_the_same_moment_is_believed_a_few_times_in_a_row_and_no_more(world: World) -> None:
    def save() -> None:
        if world.now > seen[0]:
            world.free -= MIB
            seen[0] = world.now

    seen = [0]
    world.each_look = save
    believed = 0
    while world.victim(expected=1, gained=0):
        believed += 1
        assert believed < 10
    assert believed == MOST_DOUBTS
    assert world.gate.no_gain is not None


def test_a_clear_gain_ends_the_doubt(world: World) -> None:
    world.gate.doubts = MOST_DOUBTS
    assert world.victim(expected=10, gained=10)
    assert world.gate.doubts == 0


def test_where_inodes_are_short_a_gain_is_a_gain_of_inodes() -> None:
    world = World(free=900, inodes=0)
    assert world.gate.keep_going()
    assert world.victim(expected=1, gained=0, inodes=5)
    assert not world.victim(expected=1, gained=10, inodes=0)


def test_a_copy_that_went_elsewhere_is_not_judged_here(world: World) -> None:
    world.gate.told(DeletedCopy(10, "mirror", 10 * MIB, 1, True))
    assert world.gate.keep_going()
    assert world.slept == 0
