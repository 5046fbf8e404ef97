"""Sizes against siblings and other replicas: who stands out, and who is left alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune.integrity.compare import suspects
from prune.model import Copy, Health, Identity

HERE = Identity(1, 1, 0, 0, 0, 1)


def copy_of(step: int, size: int | None, health: Health | None, replica: str = "primary", files: int = 1) -> Copy:
    measured = size is not None
    return Copy(step, replica, (str(step),), HERE, 1, 1, measured=measured, size=size, files=files, health=health)


def run(
    sizes: Mapping[int, int | None], *, health: Health | None = Health.UNVERIFIED, replica: str = "primary"
) -> dict[int, dict[str, Copy]]:
    return {step: {replica: copy_of(step, size, health, replica)} for step, size in sizes.items()}


def merged(*runs: Mapping[int, Mapping[str, Copy]]) -> dict[int, dict[str, Copy]]:
    found: dict[int, dict[str, Copy]] = {}
    for each in runs:
        for step, copies in each.items():
            found.setdefault(step, {}).update(copies)
    return found


def test_a_copy_far_smaller_than_its_siblings_is_suspect_with_both_sizes() -> None:
    found = suspects(run({1: 1000, 2: 1000, 3: 730}))
    assert set(found) == {(3, "primary")}
    assert "730 bytes found, expected about 1000" in found[3, "primary"]


@pytest.mark.parametrize("sizes", [{1: 1000, 2: 1000, 3: 901}, {1: 1000, 2: 950, 3: 860}, {1: 1000, 2: 1000, 3: 1500}])
def test_a_copy_of_about_its_siblings_size_is_not(sizes: dict[int, int]) -> None:
    assert suspects(run(sizes)) == {}


@pytest.mark.parametrize("sizes", [{}, {1: 5}, {1: 1000, 2: 10}, {1: 1000, 2: 500, 3: 10}])
def test_one_sibling_or_two_that_differ_decide_nothing(sizes: dict[int, int]) -> None:
    assert suspects(run(sizes)) == {}


def test_among_siblings_of_no_common_size_less_than_half_is_suspect() -> None:
    assert set(suspects(run({1: 1000, 2: 1200, 3: 1500, 4: 500}))) == {(4, "primary")}
    assert suspects(run({1: 1000, 2: 1200, 3: 1500, 4: 700})) == {}


@pytest.mark.parametrize("health", [Health.WHOLE, Health.INTACT])
def test_what_its_own_format_proves_is_whole_at_any_size(health: Health) -> None:
    copies = merged(run({1: 1000, 2: 1000}), run({3: 10}, health=health))
    assert suspects(copies) == {}


@pytest.mark.parametrize("health", [Health.BROKEN, Health.IN_FLIGHT, Health.UNKNOWN, Health.SUSPECT, None])
def test_copies_that_do_not_restore_are_no_measure(health: Health | None) -> None:
    copies = merged(run({1: 9000, 2: 9000, 3: 9000}, health=health), run({4: 1000, 5: 1000}))
    assert suspects(copies) == {}


def test_what_is_proven_is_a_measure_for_what_is_not() -> None:
    copies = merged(run({1: 1000, 2: 1000}, health=Health.INTACT), run({3: 10}))
    assert set(suspects(copies)) == {(3, "primary")}


def test_copies_that_were_not_measured_are_passed_over() -> None:
    assert suspects(run({1: 1000, 2: None, 3: 10, 4: None})) == {}


def test_two_steps_of_their_own_size_are_a_kind_of_their_own() -> None:
    sizes = dict.fromkeys(range(1, 9), 1000) | {9: 400, 10: 400, 11: 400}
    assert suspects(run(sizes)) == {}


def test_a_model_that_changed_its_size_is_measured_by_its_neighbours() -> None:
    sizes = dict.fromkeys(range(20), 1000) | dict.fromkeys(range(20, 40), 300)
    assert suspects(run(sizes)) == {}


def test_a_buffer_that_fills_is_no_sign_of_damage() -> None:
    assert suspects(run({step: 100 * step for step in range(1, 30)})) == {}


def test_a_cut_in_a_series_that_grows_is_found() -> None:
    sizes = {step: 100 * step for step in range(1, 10)} | {10: 200}
    assert set(suspects(run(sizes))) == {(10, "primary")}


# --- between replicas --------------------------------------------------------------------------------------------


def both(primary: Mapping[int, int], mirror: Mapping[int, int]) -> dict[int, dict[str, Copy]]:
    return merged(run(primary), run(mirror, replica="mirror"))


def test_equal_lengths_on_both_replicas_say_nothing() -> None:
    assert suspects(both({1: 100, 2: 7}, {1: 100, 2: 7})) == {}


def test_the_shorter_of_two_undecided_copies_is_suspect() -> None:
    found = suspects(both({1: 100}, {1: 99}))
    assert set(found) == {(1, "mirror")}
    assert found[1, "mirror"] == "99 bytes found, expected 100: shorter than the same step on primary"


def test_the_one_at_its_siblings_size_is_not_the_suspect_though_it_is_the_shorter() -> None:
    found = suspects(both({1: 100, 2: 100, 3: 130}, {1: 100, 2: 100, 3: 100}))
    assert set(found) == {(3, "primary")}
    assert "longer than the same step on mirror" in found[3, "primary"]


def test_the_one_near_its_siblings_size_is_not_the_suspect() -> None:
    assert set(suspects(both({1: 1000, 2: 1001, 3: 1003}, {1: 1000, 2: 1001, 3: 600}))) == {(3, "mirror")}


def test_a_proven_copy_is_the_measure_for_the_other() -> None:
    copies = merged(run({1: 90}, health=Health.WHOLE), run({1: 100}, replica="mirror"))
    assert set(suspects(copies)) == {(1, "mirror")}


def test_proven_copies_that_differ_decide_nothing_about_a_third() -> None:
    copies = merged(
        run({1: 90}, health=Health.WHOLE),
        run({1: 100}, replica="mirror", health=Health.WHOLE),
        run({1: 80}, replica="mirror-2"),
    )
    assert suspects(copies) == {}


def test_sidecars_on_one_side_only_are_no_difference() -> None:
    copies = {
        1: {
            "primary": copy_of(1, 5080, Health.UNVERIFIED, files=2),
            "mirror": copy_of(1, 5000, Health.UNVERIFIED, "mirror"),
        }
    }
    assert suspects(copies) == {}


def test_a_broken_copy_is_no_measure_for_the_other_replica() -> None:
    copies = merged(run({1: 100}, health=Health.BROKEN), run({1: 50}, replica="mirror"))
    assert suspects(copies) == {}


healths = st.sampled_from([None, *Health])
inventories = st.dictionaries(
    st.integers(0, 30),
    st.dictionaries(
        st.sampled_from(["primary", "mirror", "mirror-2"]),
        st.tuples(st.none() | st.integers(0, 10**6), healths, st.integers(1, 3)),
        min_size=1,
    ),
    max_size=12,
)


@given(inventories)
def test_only_undecided_measured_copies_are_ever_suspect(
    drawn: Mapping[int, Mapping[str, tuple[int | None, Health | None, int]]],
) -> None:
    copies = {
        step: {name: copy_of(step, size, health, name, files) for name, (size, health, files) in by_name.items()}
        for step, by_name in drawn.items()
    }
    for (step, name), sentence in suspects(copies).items():
        assert copies[step][name].health is Health.UNVERIFIED
        assert copies[step][name].size is not None
        assert str(copies[step][name].size) in sentence
