"""Grace, undo, purge, and what a dead pass left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prune.control import Control, record
from prune.deletion import undo
from prune.journal import NoJournal
from prune.settings.schema import HOUR
from tests.runs import applied, deleted_steps, outcome_of, planned, run_of
from tests.trees.build import mirrored, names, snapshot, step_dirs, torch_zip

NOWHERE = NoJournal("")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prune.db"


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    primary = step_dirs(tmp_path / "P", range(1, 7))
    return primary, mirrored(primary, tmp_path / "M")


def content(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.glob("step-*/**/*") if p.is_file()}


def test_with_grace_the_trash_holds_what_was_withdrawn(roots: tuple[Path, Path], state: Path) -> None:
    outcome = applied(run_of(*roots, last=2, grace=HOUR), state)

    assert {copy.purged for copy in outcome.deleted} == {False}
    assert names(roots[0]) == {"step-5", "step-6"}
    assert len(os.listdir(roots[0] / ".prune" / "trash")) == 4
    replica = planned(run_of(*roots, last=2), state).replicas[0]
    assert replica.trash_bytes > 0
    assert replica.trash_until_ns is not None


def test_names_in_the_trash_hold_no_digits(roots: tuple[Path, Path], state: Path) -> None:
    applied(run_of(*roots, last=2, grace=HOUR), state)
    assert all(name.isalpha() for name in os.listdir(roots[0] / ".prune" / "trash"))


def test_undo_puts_everything_back_on_both_sides_and_pins_it(roots: tuple[Path, Path], state: Path) -> None:
    run = run_of(*roots, last=2, grace=HOUR)
    before = [content(root) for root in roots]
    outcome = outcome_of(run, state)

    undone = undo.undo(run, outcome.plan, now_ns=0, wait_ns=0, journal=NOWHERE)

    assert [content(root) for root in roots] == before
    assert len(undone.done) == 8
    again = applied(run, state)
    assert again.deleted == ()
    assert {held.guard for held in again.guarded} == {"pinned"}
    with_control = Control.open(str(roots[0] / ".prune"))
    assert with_control.tombstones() == []


def test_undo_of_another_plan_touches_nothing(roots: tuple[Path, Path], state: Path) -> None:
    run = run_of(*roots, last=2, grace=HOUR)
    applied(run, state)
    before = snapshot(roots[0] / ".prune" / "trash")

    undone = undo.undo(run, "another", now_ns=0, wait_ns=0, journal=NOWHERE)

    assert undone.done == []
    assert snapshot(roots[0] / ".prune" / "trash") == before


def test_undo_never_replaces_a_step_that_was_saved_again(roots: tuple[Path, Path], state: Path) -> None:
    run = run_of(*roots, last=2, grace=HOUR)
    applied(run, state)
    (roots[0] / "step-3").mkdir()
    (roots[0] / "step-3" / "rank_0.pt").write_bytes(torch_zip())

    undone = undo.undo(run, None, now_ns=0, wait_ns=0, journal=NOWHERE)

    assert [(step, replica) for step, replica, _ in undone.failed] == [(3, "primary")]
    assert sorted(os.listdir(roots[0] / "step-3")) == ["rank_0.pt"]


def test_purge_empties_the_trash_now(roots: tuple[Path, Path], state: Path) -> None:
    run = run_of(*roots, last=2, grace=HOUR)
    applied(run, state)

    purged = undo.purge(run, now_ns=0, wait_ns=0, journal=NOWHERE)

    assert len(purged.done) == 8
    assert [os.listdir(root / ".prune" / "trash") for root in roots] == [[], []]


def test_when_the_grace_is_over_the_next_pass_purges(roots: tuple[Path, Path], state: Path) -> None:
    import time

    run = run_of(*roots, last=2, grace=HOUR)
    applied(run, state)
    applied(run, state)
    assert len(os.listdir(roots[0] / ".prune" / "trash")) == 4

    applied(run, state, clock=lambda: time.time_ns())  # the volume's own clock still counts
    assert len(os.listdir(roots[0] / ".prune" / "trash")) == 4

    short = run_of(*roots, last=1, grace=1)
    applied(short, state)
    applied(short, state)
    assert len(os.listdir(roots[0] / ".prune" / "trash")) == 4, "the one whose nanosecond is over is purged"


def withdrawn_by_hand(roots: tuple[Path, Path], state: Path, *, upto: str) -> None:
    """What a pass leaves that dies at a given point of withdrawing step 1."""
    run = run_of(*roots, last=6)
    applied(run, state)
    plan = planned(run_of(*roots, last=2), state)
    step = next(s for s in plan.steps if s.step == 1)
    for copy in step.copies:
        root = roots[0] if copy.replica == "primary" else roots[1]
        control = Control.open(str(root / ".prune"))
        name = record.opaque_name()
        gone = record.Withdrawal("0123", "plan", 1, ((copy.paths[0], name),), copy.identity, 1, 1)
        control.append_record(record.intent_line(gone))
        if upto == "recorded":
            continue
        os.rename(root / copy.paths[0], root / ".prune" / "trash" / name)
        if upto == "renamed" or (upto == "half withdrawn" and copy.replica == "primary"):
            continue
        control.append_record(record.withdrawn_line("0123", None))
        if upto == "purging":
            control.append_record(record.purging_line("0123"))
            os.unlink(root / ".prune" / "trash" / name / "rank_0.pt")


@pytest.mark.parametrize("upto", ["recorded", "renamed", "half withdrawn", "withdrawn", "purging"])
def test_a_pass_cut_short_anywhere_ends_as_an_undisturbed_one(roots: tuple[Path, Path], state: Path, upto: str) -> None:
    withdrawn_by_hand(roots, state, upto=upto)

    outcome = applied(run_of(*roots, last=2), state)

    assert not outcome.failed
    assert [names(root) for root in roots] == [{"step-5", "step-6"}] * 2
    assert [os.listdir(root / ".prune" / "trash") for root in roots] == [[], []]


def test_what_was_recorded_but_not_withdrawn_comes_back_when_it_is_kept_now(
    roots: tuple[Path, Path], state: Path
) -> None:
    before = [content(root) for root in roots]
    withdrawn_by_hand(roots, state, upto="renamed")
    assert "step-1" not in names(roots[0])

    applied(run_of(*roots, last=6), state)

    assert [content(root) for root in roots] == before


def test_a_torn_line_in_the_record_is_passed_over(roots: tuple[Path, Path], state: Path) -> None:
    run = run_of(*roots, last=2)
    applied(run_of(*roots, last=6), state)
    with open(roots[0] / ".prune" / "record", "ab") as file:
        file.write(b'\n{"op":"intent","id":"77","pl')

    outcome = applied(run, state)

    assert deleted_steps(outcome) == [1, 2, 3, 4]


def test_what_a_dead_builder_left_in_staging_goes_when_it_is_old(roots: tuple[Path, Path], state: Path) -> None:
    from tests.trees.build import age

    applied(run_of(*roots, last=6), state)
    for name, seconds in (("abandoned", 2 * 86_400.0), ("growing", 10.0)):
        (roots[0] / ".prune" / "staging" / name).mkdir()
        (roots[0] / ".prune" / "staging" / name / "shard").write_bytes(b"half")
        age(roots[0] / ".prune" / "staging" / name, seconds)

    applied(run_of(*roots, last=5), state)

    assert os.listdir(roots[0] / ".prune" / "staging") == ["growing"]
