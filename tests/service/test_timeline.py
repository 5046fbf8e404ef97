"""Columns of the timeline: bounded, and never hiding what matters."""

from __future__ import annotations

from dataclasses import replace

from prune.model import Decision, Health
from prune.service.timeline import ALONE, TOGETHER, Column, State, columns
from tests.service.sights import NOW, step, tiny


def by_first(found: list[Column]) -> dict[int, Column]:
    return {column.first: column for column in found}


def test_each_step_of_a_small_run_has_its_column_and_each_replica_its_cell() -> None:
    found = by_first(columns(tiny(), now_ns=NOW))
    assert len(found) == 8
    assert [cell.replica for cell in found[400].cells] == ["primary", "mirror"]
    states = {number: column.cells[0].state for number, column in found.items()}
    assert states == {
        100: State.WOULD_GO,
        200: State.WOULD_GO,
        300: State.GUARDED,
        400: State.KEPT,
        500: State.KEPT,
        600: State.BROKEN,
        700: State.KEPT,
        800: State.IN_FLIGHT,
    }


def test_a_step_that_is_guarded_says_by_whom_and_why() -> None:
    (line, *_) = by_first(columns(tiny(), now_ns=NOW))[300].why
    assert line == "Guarded, pinned on primary: the baseline of the paper."


def test_the_resume_candidate_is_marked_on_its_replica_alone() -> None:
    column = by_first(columns(tiny(), now_ns=NOW))[700]
    assert [cell.resume for cell in column.cells] == [True, False]
    assert "training would resume from it" in column.title


def test_damage_says_what_was_found() -> None:
    why = by_first(columns(tiny(), now_ns=NOW))[600].why
    assert any("9 bytes of 1 GiB" in line for line in why)


def test_a_copy_that_a_replica_lacks_is_shown_as_missing() -> None:
    plan = tiny(steps=[step(100, replicas=["primary"])])
    assert [cell.state for cell in columns(plan, now_ns=NOW)[0].cells] == [State.KEPT, State.MISSING]


def test_what_a_replica_that_cannot_be_listed_holds_is_not_seen_and_not_called_missing() -> None:
    plan = tiny(steps=[step(100, replicas=["primary"])])
    unreachable = tuple(replace(replica, listed=replica.name != "mirror") for replica in plan.replicas)
    (column,) = columns(replace(plan, replicas=unreachable), now_ns=NOW)
    assert [cell.state for cell in column.cells] == [State.KEPT, State.UNSEEN]
    assert "mirror not seen" in column.title


def test_five_thousand_steps_are_a_bounded_number_of_columns_and_none_is_lost() -> None:
    steps = [
        step(n, Decision.DELETE if n % 7 else Decision.KEEP, health=Health.BROKEN if n == 1234 else Health.WHOLE)
        for n in range(5000)
    ]
    found = columns(tiny(steps=steps), now_ns=NOW)
    assert len(found) <= ALONE + TOGETHER
    assert sum(column.count for column in found) == 5000
    assert found[0].first == 0
    assert found[-1].last == 4999


def test_a_broken_step_among_thousands_still_shows() -> None:
    steps = [step(n, health=Health.BROKEN if n == 1234 else Health.WHOLE) for n in range(5000)]
    found = columns(tiny(steps=steps), now_ns=NOW)
    (broken,) = [column for column in found if column.cells[0].state is State.BROKEN]
    assert broken.first <= 1234 <= broken.last


def test_neighbours_of_one_fate_share_a_column_that_counts_them() -> None:
    steps = [step(n, Decision.DELETE) for n in range(500)]
    first = columns(tiny(steps=steps), now_ns=NOW)[0]
    assert (first.first, first.last, first.count) == (0, 459, 460)
    assert first.title.startswith("460 steps, 0 to 459: primary would go")


def test_a_name_that_is_no_text_is_shown_escaped() -> None:
    plan = tiny(steps=[step(1, detail="\udcff\n<script>")])
    assert any("\\xff\\n<script>" in line for line in columns(plan, now_ns=NOW)[0].why)
