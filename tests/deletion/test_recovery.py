"""The world goes on after a pass was killed: what it had decided counts for nothing."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from prune import holds
from prune.control import Control, record
from prune.deletion import undo
from prune.deletion.sweep import Sweep
from prune.journal import NoJournal
from prune.model import RunOutcome
from prune.settings.schema import DAY, HOUR
from prune.stores.local import LocalRoot
from tests.runs import applied, planned, run_of
from tests.trees import build
from tests.trees.build import age, mirrored, names, step_dirs, step_files

NOWHERE = NoJournal("")
Roots = tuple[Path, Path]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    primary = step_dirs(tmp_path / "P", range(1, 7))
    return primary, mirrored(primary, tmp_path / "M")


@pytest.fixture
def killed(roots: Roots, state: Path) -> Roots:
    """Steps 1 to 4 lie withdrawn on both sides, as a pass leaves them that is killed before it begins to purge."""
    applied(run_of(*roots, last=6), state)
    for step in planned(run_of(*roots, last=2), state).victims:
        for copy in step.copies:
            root = roots[0] if copy.replica == "primary" else roots[1]
            control = Control.open(str(root / ".prune"))
            name, id = record.opaque_name(), f"{step.step:04d}"
            control.append_record(
                record.intent_line(
                    record.Withdrawal(id, "plan", step.step, ((copy.paths[0], name),), copy.identity, 1, 1)
                )
            )
            os.rename(root / copy.paths[0], root / ".prune" / "trash" / name)
            control.append_record(record.withdrawn_line(id, None))
    return roots


def spoil_what_is_kept(roots: Roots) -> None:
    for root in roots:
        for step in ("step-5", "step-6"):
            for path in (root / step).rglob("*.pt"):
                path.write_bytes(b"")
            age(root / step, 7200)


def lose_the_mirror(roots: Roots) -> None:
    shutil.rmtree(roots[1])
    roots[1].mkdir()


def test_the_next_pass_ends_where_an_undisturbed_one_does(killed: Roots, state: Path) -> None:
    outcome = applied(run_of(*killed, last=2), state)
    assert not outcome.failed
    assert [names(root) for root in killed] == [{"step-5", "step-6"}] * 2
    assert [os.listdir(root / ".prune" / "trash") for root in killed] == [[], []]


@pytest.mark.parametrize(
    ("meanwhile", "stay"),
    [(spoil_what_is_kept, {3, 4}), (lose_the_mirror, {1, 2, 3, 4})],
    ids=["what is kept is spoilt", "the mirror is lost"],
)
def test_nothing_is_lost_that_a_fresh_plan_would_not_delete(
    killed: Roots, state: Path, meanwhile: Callable[[Roots], None], stay: set[int]
) -> None:
    meanwhile(killed)
    applied(run_of(*killed, last=2), state)
    assert {f"step-{step}" for step in stay} <= names(killed[0])


def test_a_higher_n_keeps_what_a_dead_pass_had_withdrawn(killed: Roots, state: Path) -> None:
    applied(run_of(*killed, last=6), state)
    assert [len(names(root)) for root in killed] == [6, 6]


def test_a_step_pinned_since_comes_back_on_both_sides_and_the_others_go(killed: Roots, state: Path) -> None:
    holds.pin(run_of(*killed), 2, reason="paper", now_ns=0)
    applied(run_of(*killed, last=2), state)
    assert [names(root) for root in killed] == [{"step-2", "step-5", "step-6"}] * 2


def test_a_recovery_killed_in_the_middle_of_putting_back_is_gone_on_with(killed: Roots, state: Path) -> None:
    """One side of one step is back, and nothing more."""
    holds.pin(run_of(*killed), 1, reason="paper", now_ns=0)
    control = Control.open(str(killed[0] / ".prune"))
    (first,) = (each for each in control.trashed() if each.step == 1)
    os.rename(killed[0] / ".prune" / "trash" / first.moves[0][1], killed[0] / first.moves[0][0])
    control.append_record(record.back_line(first.id))
    applied(run_of(*killed, last=2), state)
    assert [names(root) for root in killed] == [{"step-1", "step-5", "step-6"}] * 2


def test_what_was_withdrawn_under_a_name_that_is_taken_since_is_told_once_and_waits_a_week(
    killed: Roots, state: Path
) -> None:
    for root in killed:
        step_dirs(root, [1], seconds=20_000)
    holds.pin(run_of(*killed), 1, reason="paper", now_ns=0)
    first, second = applied(run_of(*killed, last=2), state), applied(run_of(*killed, last=2), state)
    assert {(failed.step, failed.replica) for failed in first.failed} == {(1, "primary"), (1, "mirror")}
    assert not second.failed
    assert [names(root) for root in killed] == [{"step-1", "step-5", "step-6"}] * 2
    for root in killed:
        (left,) = Control.open(str(root / ".prune")).trashed()
        assert left.until_ns is not None
        assert left.until_ns > time.time_ns() + 6 * DAY


def test_an_old_sidecar_is_never_put_beside_a_file_that_was_saved_anew_since(tmp_path: Path, state: Path) -> None:
    root = step_files(tmp_path / "P", range(10, 60, 10))
    for path in root.glob("*.pt"):
        sidecar = path.with_name(f"{path.name}.sha256")
        sidecar.write_text(f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
        age(sidecar, 2 * 3600)
    run = run_of(root, last=2, grace=HOUR)
    applied(run, state)
    (root / "step_0010.pt").write_bytes(build.torch_zip(4096, fill=b"anew"))
    failed = undo.undo(run, None, now_ns=time.time_ns(), wait_ns=0, journal=NOWHERE).failed
    assert {step for step, _, _ in failed} == {10}
    assert not (root / "step_0010.pt.sha256").exists()
    assert (root / "step_0020.pt.sha256").exists()


@pytest.mark.parametrize("grace", [0, HOUR], ids=["purged at once", "with a grace"])
def test_what_a_passing_trouble_kept_from_being_put_back_comes_back_with_the_next_pass(
    roots: Roots, state: Path, monkeypatch: pytest.MonkeyPatch, grace: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as troubled:
        troubled.setattr(Sweep, "_vetoes", lambda *_: {1: "somebody opened it"})
        troubled.setattr(LocalRoot, "rename_new", refuse)
        outcome = applied(run_of(*roots, last=2, grace=grace), state)
    assert {failed.step for failed in outcome.failed} == {1}
    assert "step-1" not in names(roots[0]) | names(roots[1])

    applied(run_of(*roots, last=6), state)
    assert all("step-1" in names(root) for root in roots)


# --- what waited in the trash for its time ---------------------------------------------------------------------------


@pytest.fixture
def waiting(roots: Roots, state: Path) -> Roots:
    """Steps 1 to 4 wait in the trash, and their time is over."""
    applied(run_of(*roots, last=2, grace=1), state)
    assert [names(root) for root in roots] == [{"step-5", "step-6"}] * 2
    return roots


def trash(roots: Roots) -> list[int]:
    return [len(os.listdir(root / ".prune" / "trash")) for root in roots]


def again(roots: Roots, state: Path) -> RunOutcome:
    return applied(run_of(*roots, last=2), state)


def test_once_its_time_is_over_it_goes(waiting: Roots, state: Path) -> None:
    again(waiting, state)
    assert trash(waiting) == [0, 0]


def test_what_was_pinned_while_it_waited_comes_back_in_place_of_going(waiting: Roots, state: Path) -> None:
    holds.pin(run_of(*waiting), 3, reason="paper", now_ns=0)
    again(waiting, state)
    assert [names(root) for root in waiting] == [{"step-3", "step-5", "step-6"}] * 2
    assert trash(waiting) == [0, 0]


def test_while_nothing_that_stands_can_be_resumed_from_the_trash_keeps_what_it_holds(
    waiting: Roots, state: Path
) -> None:
    spoil_what_is_kept(waiting)
    outcome = again(waiting, state)
    assert trash(waiting) == [4, 4]
    assert "trash" in {note.kind for note in outcome.attention}


def test_a_blocked_run_ends_nothing_that_waits(waiting: Roots, state: Path) -> None:
    lose_the_mirror(waiting)
    outcome = again(waiting, state)
    assert outcome.blocked is not None
    assert len(os.listdir(waiting[0] / ".prune" / "trash")) == 4


def test_emptying_the_trash_by_hand_spares_what_is_pinned_and_says_so(waiting: Roots) -> None:
    run = run_of(*waiting)
    holds.pin(run, 3, reason="paper", now_ns=0)
    found = undo.purge(run, now_ns=time.time_ns(), wait_ns=0, journal=NOWHERE)
    assert {step for step, _, why in found.failed if "pinned" in why} == {3}
    assert trash(waiting) == [1, 1]


def test_a_lease_that_ran_out_spares_nothing(waiting: Roots) -> None:
    run = run_of(*waiting)
    holds.lease(run, 3, until_ns=time.time_ns() - HOUR)
    undo.purge(run, now_ns=time.time_ns(), wait_ns=0, journal=NOWHERE)
    assert trash(waiting) == [0, 0]
