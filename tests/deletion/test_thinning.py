"""Thinning on real directories: what only resuming needs goes, by the same hands that delete."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from prune import engine
from prune.deletion.undo import purge, undo
from prune.journal import NoJournal, open_journal
from prune.model import Health
from prune.report.json import plan_to_json
from prune.report.reviewed import plan_from_json
from prune.settings.schema import DAY, Keep, RunSettings
from tests.runs import applied, outcome_of, plan_of, planned, run_of
from tests.trees.build import age, mirrored, names, snapshot
from tests.trees.stacks import hf, put_torch, verl

STEPS = (10, 20, 30, 40)
PARTS = ("optimizer.pt", "rng_state.pth")
FULL = {"optimizer.pt", "pytorch_model.bin", "rng_state.pth", "trainer_state.json"}
THIN = {"pytorch_model.bin", "trainer_state.json"}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prune.db"


def build(root: Path, steps: tuple[int, ...] = STEPS) -> Path:
    """Checkpoints of the Hugging Face Trainer, each an hour older than the next."""
    for place, step in enumerate(steps):
        put_torch(hf(root, step) / "rng_state.pth")
        age(root / f"checkpoint-{step}", (len(steps) - place + 1) * 3600)
    return root


def thinning(*roots: Path, last: int = 4, full: int = 2, **more: object) -> RunSettings:
    return run_of(*roots, keep=Keep(last=last, full=full), **more)


def inside(root: Path, step: int) -> set[str]:
    return set(os.listdir(root / f"checkpoint-{step}"))


def thinned(outcome) -> list[tuple[int, str]]:  # type: ignore[no-untyped-def]
    return [(copy.step, copy.replica) for copy in outcome.thinned]


def test_old_kept_steps_lose_what_only_resuming_needs_and_nothing_else(tmp_path: Path, state: Path) -> None:
    primary = build(tmp_path / "P")
    mirror = mirrored(primary, tmp_path / "M")

    outcome = applied(thinning(primary, mirror), state)

    assert thinned(outcome) == [(10, "mirror"), (10, "primary"), (20, "mirror"), (20, "primary")]
    assert (outcome.deleted, outcome.failed) == ((), ())
    for root in (primary, mirror):
        assert [inside(root, step) for step in STEPS] == [THIN, THIN, FULL, FULL]
        assert os.listdir(root / ".prune" / "trash") == []


def test_no_mtime_of_a_checkpoint_changes_so_that_the_trainer_still_knows_which_is_newest(
    tmp_path: Path, state: Path
) -> None:
    """The Trainer rotates by the mtime of its directories; taking a file out would make the oldest the newest."""
    primary = build(tmp_path / "P")
    before = {step: os.stat(primary / f"checkpoint-{step}").st_mtime_ns for step in STEPS}

    applied(thinning(primary), state)

    assert {step: os.stat(primary / f"checkpoint-{step}").st_mtime_ns for step in STEPS} == before


def test_what_goes_is_what_was_planned_in_steps_paths_and_bytes(tmp_path: Path, state: Path) -> None:
    primary = build(tmp_path / "P")
    run = thinning(primary)
    plan = plan_to_json(plan_of(run, state))["runs"][0]
    steps = {step["step"]: step for step in plan["steps"]}

    outcome = applied(run, state)

    assert plan["summary"]["thin"] == 2
    assert steps[10]["decision"] == "keep"
    assert steps[10]["reasons"] == ["last", "thin"]
    assert steps[10]["thin"]["paths"] == [f"checkpoint-10/{name}" for name in PARTS]
    assert steps[30]["thin"] is None
    assert {c.step: {c.replica: c.bytes} for c in outcome.thinned} == {s: steps[s]["thin"]["bytes"] for s in (10, 20)}
    assert plan["summary"]["bytes_to_free"] == {"primary": sum(copy.bytes for copy in outcome.thinned)}
    assert [copy.files for copy in outcome.thinned] == [2, 2]


def test_a_plan_changes_nothing_anywhere(tmp_path: Path, state: Path) -> None:
    primary = build(tmp_path / "P")
    before = snapshot(tmp_path)
    planned(thinning(primary), state)
    assert snapshot(tmp_path) == before


def test_a_second_pass_has_nothing_to_do(tmp_path: Path, state: Path) -> None:
    run = thinning(build(tmp_path / "P"), mirrored(tmp_path / "P", tmp_path / "M"))
    applied(run, state)
    before = snapshot(tmp_path / "P")
    assert applied(run, state).thinned == ()
    assert snapshot(tmp_path / "P") == before


def test_a_thinned_step_restores_is_weights_only_and_is_nobodys_resume_candidate(tmp_path: Path, state: Path) -> None:
    run = thinning(build(tmp_path / "P"))
    applied(run, state)
    plan = planned(run, state)
    copies = {step.step: step.copies[0] for step in plan.steps}
    assert all(copy.health.restorable for copy in copies.values())
    assert [step for step, copy in copies.items() if copy.weights_only] == [10, 20]
    assert plan.resume_candidate.step == 40
    assert plan.cutoff == 10


def test_the_manifest_of_a_thinned_step_speaks_of_what_stays(tmp_path: Path, state: Path) -> None:
    from prune.integrity.hashing import hash_many
    from prune.integrity.manifest import Manifest, ManifestFile, serialise
    from prune.stores.local import LocalRoot

    primary = build(tmp_path / "P")
    run = thinning(primary)
    applied(run_of(primary, last=4), state)
    (primary / ".prune" / "manifests").mkdir(parents=True, exist_ok=True)
    with LocalRoot(str(primary)) as root:
        paths = [f"checkpoint-10/{name}" for name in sorted(FULL)]
        hashes = hash_many(root, paths)
    files = tuple(ManifestFile(path, hashes[path].size, hashes[path].sha256) for path in paths)
    written = os.stat(primary / "checkpoint-10" / "optimizer.pt").st_mtime_ns
    manifest = serialise(Manifest("checkpoint-10", 10, written, files))
    (primary / ".prune" / "manifests" / "checkpoint-10.json").write_bytes(manifest)
    applied(run, state)

    thin = planned(run, state).steps[0].copies[0]
    (primary / "checkpoint-10" / "pytorch_model.bin").unlink()
    age(primary / "checkpoint-10", 6 * 3600)
    damaged = planned(run, state).steps[0].copies[0]

    assert (thin.health, thin.weights_only, bool(thin.content)) == (Health.WHOLE, True, True)
    assert damaged.health is Health.BROKEN


@pytest.mark.parametrize("again", ["undo", "undo of that plan"])
def test_undo_puts_back_what_waits_in_the_trash_and_pins_the_step(tmp_path: Path, state: Path, again: str) -> None:
    primary = build(tmp_path / "P")
    run = thinning(primary, grace=DAY)
    before = {name: values for name, values in snapshot(primary).items() if name.startswith("checkpoint-")}
    outcome = outcome_of(run, state)
    assert [copy.purged for copy in outcome.runs[0].thinned] == [False, False]
    assert inside(primary, 10) == THIN

    journal = open_journal(f"sqlite:///{state}", write=True)
    plan_id = None if again == "undo" else outcome.plan
    settled = undo(run, plan_id, now_ns=os.stat(primary).st_mtime_ns, wait_ns=0, journal=journal)
    journal.close()

    assert sorted((step, replica) for step, replica, _ in settled.done) == [(10, "primary"), (20, "primary")]
    after = {name: values for name, values in snapshot(primary).items() if name.startswith("checkpoint-")}
    assert {n: v[4] for n, v in after.items()} == {n: v[4] for n, v in before.items()}, "every mtime is as it was"
    plan = planned(run, state)
    assert [step.step for step in plan.steps if step.copies[0].weights_only] == []
    assert applied(run, state).thinned == ()


@pytest.mark.parametrize(
    "left_out",
    [{"rng_state.pth"}, {"optimizer.pt", "rng_state.pth"}],
    ids=["without one of the parts", "weights alone"],
)
def test_old_parts_are_never_put_into_a_step_that_was_saved_anew_since(
    tmp_path: Path, state: Path, left_out: set[str]
) -> None:
    primary = build(tmp_path / "P")
    run = thinning(primary, grace=DAY)
    applied(run, state)
    shutil.rmtree(primary / "checkpoint-10")
    put_torch(hf(primary, 10) / "rng_state.pth")
    for name in left_out:
        (primary / "checkpoint-10" / name).unlink()
    before = os.stat(primary / "checkpoint-10").st_mtime_ns

    settled = undo(run, None, now_ns=time.time_ns(), wait_ns=0, journal=NoJournal(""))

    assert {step for step, _, _ in settled.failed} == {10}
    assert inside(primary, 10) == FULL - left_out
    assert os.stat(primary / "checkpoint-10").st_mtime_ns == before
    assert inside(primary, 20) == FULL


def test_what_somebody_lays_beside_the_weights_of_a_thinned_step_is_no_hindrance(tmp_path: Path, state: Path) -> None:
    primary = build(tmp_path / "P")
    run = thinning(primary, grace=DAY)
    applied(run, state)
    (primary / "checkpoint-10" / "README.md").write_text("the one of the paper")

    assert not undo(run, None, now_ns=time.time_ns(), wait_ns=0, journal=NoJournal("")).failed
    assert inside(primary, 10) == FULL | {"README.md"}


def test_a_step_deleted_and_thinned_before_comes_back_whole_by_undo(tmp_path: Path, state: Path) -> None:
    primary = build(tmp_path / "P")
    applied(thinning(primary, grace=DAY), state)
    applied(thinning(primary, last=2, grace=DAY), state)
    assert names(primary) == {"checkpoint-30", "checkpoint-40"}

    journal = open_journal(f"sqlite:///{state}", write=True)
    settled = undo(thinning(primary), None, now_ns=os.stat(primary).st_mtime_ns, wait_ns=0, journal=journal)
    journal.close()

    assert settled.failed == []
    assert [inside(primary, step) for step in STEPS] == [FULL] * 4


def test_purging_ends_what_waits(tmp_path: Path, state: Path) -> None:
    primary = build(tmp_path / "P")
    run = thinning(primary, grace=DAY)
    applied(run, state)
    journal = open_journal(f"sqlite:///{state}", write=True)
    purge(run, now_ns=os.stat(primary).st_mtime_ns, wait_ns=0, journal=journal)
    journal.close()
    assert os.listdir(primary / ".prune" / "trash") == []
    assert planned(run, state).steps[0].copies[0].weights_only


def test_a_reviewed_plan_thins_at_most_what_it_names(tmp_path: Path, state: Path) -> None:
    primary = build(tmp_path / "P", (10, 20, 30))
    run = thinning(primary, last=5)
    reviewed = plan_from_json(json.loads(json.dumps(plan_to_json(plan_of(run, state)))))
    put_torch(hf(primary, 40) / "rng_state.pth")
    age(primary / "checkpoint-40", 1000)

    outcome = outcome_of(run, state, reviewed=reviewed).runs[0]

    assert thinned(outcome) == [(10, "primary")]
    assert inside(primary, 20) == FULL


def test_a_reviewed_plan_does_not_thin_what_changed_since(tmp_path: Path, state: Path) -> None:
    primary = build(tmp_path / "P")
    run = thinning(primary)
    reviewed = plan_from_json(json.loads(json.dumps(plan_to_json(plan_of(run, state)))))
    put_torch(primary / "checkpoint-10" / "optimizer.pt", other=1)
    age(primary / "checkpoint-10", 5 * 3600)

    outcome = outcome_of(run, state, reviewed=reviewed).runs[0]

    assert thinned(outcome) == [(20, "primary")]
    assert inside(primary, 10) == FULL


def test_a_step_written_to_while_it_is_thinned_is_put_back(tmp_path: Path, state: Path, monkeypatch) -> None:
    from prune.deletion import withdraw

    primary = build(tmp_path / "P")
    rename_out = withdraw._rename_out

    def meddle(going):  # type: ignore[no-untyped-def]
        if going.copy.step == 10:
            with open(primary / "checkpoint-10" / "optimizer.pt", "ab") as file:
                file.write(b"more")
        rename_out(going)

    monkeypatch.setattr(withdraw, "_rename_out", meddle)
    outcome = applied(thinning(primary), state)

    assert [(held.step, held.guard) for held in outcome.guarded] == [(10, "changed")]
    assert thinned(outcome) == [(20, "primary")]
    assert inside(primary, 10) == FULL


def test_what_holds_thinning_back_is_told_when_it_is_applied(tmp_path: Path, state: Path) -> None:
    primary = build(tmp_path / "P")
    (primary / "checkpoint-10" / "notes.txt").write_text("just now")

    outcome = applied(thinning(primary), state)

    assert thinned(outcome) == [(20, "primary")]
    assert {held.step for held in outcome.guarded} == {10}
    assert "in-flight" in {held.guard for held in outcome.guarded}
    assert all(held.detail.startswith("not thinned: ") for held in outcome.guarded)


def test_where_the_mtime_of_a_directory_cannot_be_set_nothing_is_taken_out_of_it(
    tmp_path: Path, state: Path, monkeypatch
) -> None:
    from prune.stores.local import LocalRoot

    def refuse(_self: LocalRoot, path: str, _mtime_ns: int) -> None:
        raise PermissionError(1, "Operation not permitted", path)

    primary = build(tmp_path / "P")
    before = {step: os.stat(primary / f"checkpoint-{step}").st_mtime_ns for step in STEPS}
    monkeypatch.setattr(LocalRoot, "set_mtime", refuse)

    outcome = applied(thinning(primary), state)

    assert [copy.step for copy in outcome.failed] == [10, 20]
    assert "mtime" in outcome.failed[0].error
    assert [inside(primary, step) for step in STEPS] == [FULL] * 4
    assert {step: os.stat(primary / f"checkpoint-{step}").st_mtime_ns for step in STEPS} == before
    assert planned(thinning(primary), state).thinned


def test_deletes_come_first_and_thinned_steps_are_deleted_like_any_other(tmp_path: Path, state: Path) -> None:
    primary = build(tmp_path / "P", (10, 20, 30, 40, 50))
    applied(thinning(primary, last=5), state)
    outcome = applied(thinning(primary, last=3), state)
    assert [copy.step for copy in outcome.deleted] == [10, 20]
    assert names(primary) == {"checkpoint-30", "checkpoint-40", "checkpoint-50"}
    assert inside(primary, 30) == THIN


def test_a_step_saved_again_after_it_was_thinned_is_full_again(tmp_path: Path, state: Path) -> None:
    primary = build(tmp_path / "P")
    run = thinning(primary)
    applied(run, state)
    put_torch(hf(primary, 10) / "rng_state.pth")
    age(primary / "checkpoint-10", 6 * 3600)
    assert not planned(run, state).steps[0].copies[0].weights_only
    assert thinned(applied(run, state)) == [(10, "primary")]


def test_a_layout_whose_completeness_needs_what_was_taken_knows_it_by_the_record(tmp_path: Path, state: Path) -> None:
    """verl's own files look half saved without them; a mirror that has no record of its own believes the primary's."""
    primary = tmp_path / "P"
    for step in STEPS:
        verl(primary, step)
        age(primary / f"global_step_{step}", 3600 * (100 - step))
    (primary / "latest_checkpointed_iteration.txt").write_text("40")
    applied(thinning(primary), state)
    mirror = mirrored(primary, tmp_path / "M")
    for path in (mirror / ".prune").rglob("*"):
        if path.is_file():
            path.unlink()

    plan = planned(thinning(primary, mirror), state)

    copies = [copy for step in plan.steps for copy in step.copies]
    assert all(copy.health.restorable for copy in copies)
    assert {(copy.step, copy.replica) for copy in copies if copy.weights_only} == {
        (step, replica) for step in (10, 20) for replica in ("primary", "mirror")
    }


def test_what_a_dead_pass_took_out_of_a_step_that_is_gone_is_no_trouble(tmp_path: Path, state: Path) -> None:
    from prune.control import Control, record
    from prune.control.record import THINNED, Withdrawal
    from prune.model import Identity

    primary = build(tmp_path / "P")
    applied(run_of(primary, last=2), state)
    control = Control.make(str(primary / ".prune"))
    gone = Withdrawal(
        "dead", "plan", 5, (("checkpoint-5/optimizer.pt", "a" * 16),), Identity(0, 0, 0, 0, 0, 0), 1,
        at_ns=os.stat(primary).st_mtime_ns, why=THINNED, folders=(("checkpoint-5", 1),),
    )  # fmt: skip
    control.append_record(record.intent_line(gone))
    (primary / ".prune" / "trash" / ("a" * 16)).write_bytes(b"optimizer")
    control.close()

    outcome = applied(run_of(primary, last=2), state)

    assert outcome.failed == ()
    assert os.listdir(primary / ".prune" / "trash") == ["a" * 16], "it waits for a person"


def test_history_tells_what_was_thinned_and_why(tmp_path: Path, state: Path) -> None:
    primary = build(tmp_path / "P")
    applied(thinning(primary), state)
    journal = open_journal(f"sqlite:///{state}", write=False)
    events = [event for event in journal.history(run="tiny") if event.kind == "thinned"]
    journal.close()
    assert {event.step for event in events} == {10, 20}
    assert "only the newest 2 keep more than weights" in events[0].data["why"]


def test_thinning_is_off_unless_it_is_asked_for(tmp_path: Path, state: Path) -> None:
    primary = build(tmp_path / "P")
    assert applied(run_of(primary, last=4), state).thinned == ()
    assert [inside(primary, step) for step in STEPS] == [FULL] * 4


def test_a_run_set_up_with_the_engine_alone_thins_the_same(tmp_path: Path, state: Path) -> None:
    from tests.runs import settings_of

    primary = build(tmp_path / "P")
    outcome = engine.apply(settings_of(thinning(primary), state=state))
    assert [copy.step for copy in outcome.runs[0].thinned] == [10, 20]


def test_a_thinned_step_is_sealed_verified_and_mirrored_as_what_it_is(tmp_path: Path, state: Path) -> None:
    from prune.mirror import mirror as bring_up_to_date
    from prune.seal import seal_all
    from prune.verify import verify
    from tests.runs import settings_of

    primary, mirror = tmp_path / "P", tmp_path / "M"
    mirror.mkdir()
    for step in STEPS:
        verl(primary, step)
        age(primary / f"global_step_{step}", 3600 * (100 - step))
    (primary / "latest_checkpointed_iteration.txt").write_text("40")
    applied(thinning(primary), state)
    alone, both = settings_of(thinning(primary), state=state), settings_of(thinning(primary, mirror), state=state)

    sealed = seal_all(alone)[0]
    mirrored_run = bring_up_to_date(both)[0]
    verified = verify(both)[0]

    assert (sorted(each.step for each in sealed.sealed), sealed.refused) == ([10, 20, 30, 40], ())
    assert mirrored_run.failed == ()
    assert {copy.health for copy in verified.copies} == {Health.INTACT}
    assert {(copy.step, copy.replica) for copy in verified.copies if copy.weights_only} == {
        (step, replica) for step in (10, 20) for replica in ("primary", "mirror")
    }
    assert applied(thinning(primary, mirror), state).thinned == ()
