"""What applying a plan does to real directories."""

from __future__ import annotations

import os
import threading
from hashlib import sha256
from pathlib import Path

import pytest

from prune.settings.schema import Keep
from tests.runs import applied, deleted_steps, plan_of, planned, run_of
from tests.trees.build import age, mirrored, names, snapshot, step_dirs, step_files, torch_zip

FORTY_SIX = range(10, 470, 10)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prune.db"


@pytest.mark.parametrize("build", [step_files, step_dirs])
def test_of_46_aligned_checkpoints_the_last_12_stay_on_both_sides(tmp_path: Path, state: Path, build) -> None:
    primary = build(tmp_path / "P", FORTY_SIX)
    mirror = mirrored(primary, tmp_path / "M")
    run = run_of(primary, mirror)

    plan = planned(run, state)
    outcome = applied(run, state)

    assert [step.step for step in plan.victims] == list(range(10, 350, 10))
    assert deleted_steps(outcome) == deleted_steps(outcome, "mirror") == list(range(10, 350, 10))
    assert names(primary) == names(mirror)
    assert len(names(primary)) == 12
    assert not outcome.failed
    assert os.listdir(primary / ".prune" / "trash") == []


@pytest.mark.parametrize("build", [step_files, step_dirs])
def test_a_plan_changes_nothing_anywhere(tmp_path: Path, state: Path, build) -> None:
    primary = build(tmp_path / "P", FORTY_SIX)
    mirrored(primary, tmp_path / "M")
    before = snapshot(tmp_path)

    planned(run_of(primary, tmp_path / "M"), state)

    assert snapshot(tmp_path) == before


def test_what_is_deleted_is_what_was_planned_in_steps_and_bytes(tmp_path: Path, state: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(1, 9))
    run = run_of(primary, last=3)
    plan = planned(run, state)
    expected = {step.step: step.bytes["primary"] for step in plan.victims}

    outcome = applied(run, state)

    assert {copy.step: copy.bytes for copy in outcome.deleted} == expected


def test_a_second_apply_has_nothing_to_do_and_takes_no_lock(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 9))
    run = run_of(primary, last=3)
    applied(run, state)
    before = snapshot(primary)

    outcome = applied(run, state)

    assert outcome.deleted == ()
    assert snapshot(primary) == before


def test_a_reviewed_plan_is_the_most_that_is_deleted(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 9))
    run = run_of(primary, last=3)
    reviewed = plan_of(run, state)
    (primary / "step_0009.pt").write_bytes(torch_zip())
    age(primary / "step_0009.pt", 3600)

    outcome = applied(run, state, reviewed=reviewed)

    assert deleted_steps(outcome) == [1, 2, 3, 4, 5]
    assert (primary / "step_0006.pt").exists(), "a fresh plan deletes it, the reviewed one does not"


def test_a_step_saved_again_since_the_review_stays_and_is_told(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 9))
    run = run_of(primary, last=3)
    reviewed = plan_of(run, state)
    (primary / "step_0002.pt").write_bytes(torch_zip(8192))
    age(primary / "step_0002.pt", 10_000)

    outcome = applied(run, state, reviewed=reviewed)

    assert deleted_steps(outcome) == [1, 3, 4, 5]
    assert [(held.step, held.guard) for held in outcome.guarded] == [(2, "changed")]


def test_files_shared_by_hard_link_free_nothing(tmp_path: Path, state: Path) -> None:
    primary = step_dirs(tmp_path / "P", (100, 200, 300), files=1)
    shared = primary / "step-100" / "rank_0.pt"
    (primary / "step-200" / "rank_0.pt").unlink()
    os.link(shared, primary / "step-200" / "rank_0.pt")
    age(primary, 7200)
    run = run_of(primary, last=2)
    before = (primary / "step-200" / "rank_0.pt").read_bytes()

    victim = planned(run, state).victims[0]
    applied(run, state)

    alone = sum(p.stat().st_blocks * 512 for p in [primary / "step-300", primary / "step-300" / "optim",
                                                  primary / "step-300" / "optim" / "state.pt"])  # fmt: skip
    assert victim.bytes["primary"] == alone
    assert (primary / "step-200" / "rank_0.pt").read_bytes() == before


def test_sparse_files_free_their_blocks_not_their_length(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 5))
    with open(primary / "step_0001.pt", "r+b") as file:
        data = file.read()
        file.seek(64 << 20)
        file.write(data)
    age(primary / "step_0001.pt", 9000)

    victim = planned(run_of(primary, last=2), state).victims[0]

    assert victim.step == 1
    assert victim.bytes["primary"] < 1 << 20


def test_a_symlink_inside_a_victim_is_removed_and_never_followed(tmp_path: Path, state: Path) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "precious").write_text("stays")
    primary = step_dirs(tmp_path / "P", range(1, 6))
    os.symlink(outside, primary / "step-1" / "optim" / "link")
    age(primary / "step-1", 9000)

    outcome = applied(run_of(primary, last=2), state)

    assert deleted_steps(outcome) == [1, 2, 3]
    assert (outside / "precious").read_text() == "stays"


def test_a_victim_that_is_or_holds_a_link_out_of_the_root_stays(tmp_path: Path, state: Path) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    primary = step_dirs(tmp_path / "P", range(1, 6))
    os.symlink(outside, primary / "step-1" / "blobs")
    age(primary / "step-1", 9000)

    plan = planned(run_of(primary, last=2), state)

    held = next(step for step in plan.steps if step.step == 1)
    assert [hold.guard for hold in held.guards] == ["linked"]


def test_sidecars_go_with_their_checkpoint(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 5))
    for number, path in enumerate(sorted(primary.iterdir())):
        (primary / f"{path.name}.sha256").write_text(f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
        age(primary / f"{path.name}.sha256", 7000 - number)

    applied(run_of(primary, last=2), state)

    assert names(primary) == {"step_0003.pt", "step_0003.pt.sha256", "step_0004.pt", "step_0004.pt.sha256"}


def test_foreign_names_are_never_touched(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 5))
    foreign = {"old-step-100-copy", "step_0001.pt.bak", "step_0001-export", "best.pt", "notes", "step_0001"}
    for name in foreign:
        (primary / name).write_text("mine")
        age(primary / name, 90_000)

    applied(run_of(primary, last=2), state)

    assert foreign <= names(primary)


def test_a_missing_copy_is_counted_as_gone_and_the_rest_is_done(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 7))
    run = run_of(primary, last=2)
    taken = []

    def rival() -> bool:
        if not taken:
            taken.append((primary / "step_0001.pt").unlink())
        return True

    outcome = applied(run, state, keep_going=rival, batch=1)

    assert (1, "primary") in outcome.gone
    assert deleted_steps(outcome) == [2, 3, 4]
    assert not outcome.failed


def test_a_file_written_to_while_it_is_withdrawn_comes_back(tmp_path: Path, state: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(1, 5), files=70)
    run = run_of(primary, last=2)

    def writer() -> bool:
        (primary / "step-1" / "rank_3.pt").write_bytes(b"a new save")
        return True

    outcome = applied(run, state, keep_going=writer)

    assert deleted_steps(outcome) == [2]
    assert [(held.step, held.guard) for held in outcome.guarded] == [(1, "changed")]
    assert (primary / "step-1" / "rank_3.pt").read_bytes() == b"a new save"


def test_a_pin_set_while_a_pass_is_under_way_is_obeyed(tmp_path: Path, state: Path) -> None:
    from prune import holds

    primary = step_files(tmp_path / "P", range(1, 7))
    run = run_of(primary, last=2)
    asked = []

    def person() -> bool:
        if not asked:
            asked.append(holds.pin(run, 3, reason="paper", now_ns=0))
        return True

    outcome = applied(run, state, keep_going=person, batch=1)

    assert deleted_steps(outcome) == [1, 2, 4]
    assert (3, "pinned") in [(held.step, held.guard) for held in outcome.guarded]


def test_of_two_applies_at_once_one_reports_the_lock(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 7))
    run = run_of(primary, last=2)
    inside, done = threading.Event(), threading.Event()

    def wait() -> bool:
        inside.set()
        done.wait(10)
        return True

    first: list[object] = []
    thread = threading.Thread(target=lambda: first.append(applied(run, state, keep_going=wait)))
    thread.start()
    assert inside.wait(10)
    before = names(primary)
    second = applied(run, state)
    untouched = names(primary) == before
    done.set()
    thread.join()

    assert second.blocked is not None
    assert second.blocked.block == "locked"
    assert untouched
    assert second.deleted == ()


def test_a_lock_file_left_by_a_dead_process_blocks_nobody(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 7))
    (primary / ".prune").mkdir()
    (primary / ".prune" / "lock").write_text(f'{{"pid": {os.getpid()}, "host": "elsewhere"}}')

    outcome = applied(run_of(primary, last=2), state)

    assert deleted_steps(outcome) == [1, 2, 3, 4]


def test_fewer_than_n_aligned_steps_delete_nothing(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 9))
    mirror = mirrored(primary, tmp_path / "M")
    for step in range(3, 9):
        (mirror / f"step_{step:04d}.pt").unlink()

    outcome = applied(run_of(primary, mirror, last=3), state)

    assert outcome.deleted == ()
    assert outcome.blocked is None
    assert "not-aligned" in [attention.kind for attention in outcome.attention]


def test_other_keep_rules_add_to_the_last_n(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", range(10, 110, 10))

    applied(run_of(primary, keep=Keep(last=2, every=50)), state)

    assert names(primary) == {"step_0050.pt", "step_0090.pt", "step_0100.pt"}


def test_a_state_that_cannot_be_written_stops_no_prune_and_is_said(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    (tmp_path / "state").write_text("a file where the directory should be")

    outcome = applied(run_of(primary, last=2), tmp_path / "state" / "prune.db")

    assert deleted_steps(outcome) == [1, 2, 3]
    assert "state" in [attention.kind for attention in outcome.attention]


def test_names_that_are_not_utf8_or_hold_newlines_are_foreign_and_harmless(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    for raw in (b"step_0001.pt\n", b"step_\xff0001.pt", b"\xfe\xff"):
        Path(os.fsdecode(os.fsencode(primary) + b"/" + raw)).write_bytes(b"?")

    outcome = applied(run_of(primary, last=2), state)

    assert deleted_steps(outcome) == [1, 2, 3]
    assert len(names(primary)) == 5
