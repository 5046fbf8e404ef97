"""What `prune resume` names, what it passes over, and how it says so."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

import prune
from prune.candidates import Skipped
from prune.control import Control
from prune.control.volume import Held, Volume
from prune.deletion.undo import adopt
from prune.errors import Blocked, Damaged, Failed, NothingYet
from prune.journal import open_journal
from prune.layouts import detect
from prune.model import SECOND, Health
from prune.resume import Resumption, Terms, find, held, on_primary
from prune.settings.schema import RunSettings
from tests.runs import applied, planned, run_of
from tests.scenarios.small_disks import tmpfs
from tests.trees.build import age, mirrored, names, snapshot, step_dirs, step_files, torch_zip
from tests.trees.damage import DAMAGES, damage, flip, largest_file
from tests.trees.real import EXPECTED, unpack


@pytest.fixture(autouse=True)
def _state_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path}/state/prune.db")


@pytest.fixture
def state(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/state/prune.db"


def asked(run: RunSettings, state: str, **terms: object) -> Resumption:
    journal = open_journal(state, write=True)
    try:
        return find(run, Terms(**terms), journal)  # type: ignore[arg-type]
    finally:
        journal.close()


@pytest.mark.parametrize("tree", sorted(EXPECTED))
def test_the_newest_whole_step_is_named_on_trees_of_the_stacks(tree: str, tmp_path: Path) -> None:
    expected = EXPECTED[tree]
    root = unpack(tree, tmp_path)
    before = snapshot(root)

    candidate = prune.resume(root)

    assert snapshot(root) == before
    assert candidate.step in {expected["resume"], expected["resume_ignoring_silent"]}
    places = [expected["resume_path"]] if expected.get("resume_path") else expected["units"][str(candidate.step)]
    assert {os.path.relpath(path, root) for path in candidate.paths} <= set(places)
    assert any(path.startswith(candidate.path) for path in candidate.paths)
    newer = {int(step) for step in expected["damaged"]} & {skipped.step for skipped in candidate.skipped}
    assert all(step > candidate.step for step in newer)


@pytest.mark.parametrize("how", sorted(DAMAGES))
@pytest.mark.parametrize(
    "tree", ["torch_plain", "lightning_last_link", "tf_manager", "keras_epochs", "deepspeed_zero1"]
)
def test_resume_lands_on_the_newest_good_step_whatever_happened_to_the_newest(
    tree: str, how: str, tmp_path: Path
) -> None:
    root = unpack(tree, tmp_path)
    steps = sorted(EXPECTED[tree]["complete"])
    paths = [root / path for path in EXPECTED[tree]["units"][str(steps[-1])]]
    damage(max(map(largest_file, paths), key=lambda path: path.stat().st_size), how)

    candidate = prune.resume(root)

    assert candidate.step == steps[-2]
    assert [skipped.step for skipped in candidate.skipped] == [steps[-1]]
    assert candidate.skipped[0].detail


def test_the_primary_comes_first_and_a_mirror_when_only_it_is_good(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20, 30])
    mirror = mirrored(primary, tmp_path / "M")
    assert prune.resume(primary, mirrors=[mirror]).replica == "primary"

    damage(primary / "step_0030.pt", "4 KiB zeroed")
    candidate = prune.resume(primary, mirrors=[mirror])

    assert (candidate.step, candidate.replica) == (30, "mirror")
    assert candidate.path == str(mirror / "step_0030.pt")


def test_a_step_that_only_the_mirror_has_is_newer(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20])
    mirror = step_files(tmp_path / "M", [10, 20, 30])

    assert prune.resume(primary, mirrors=[mirror]).path == str(mirror / "step_0030.pt")


def test_steps_are_compared_as_numbers(tmp_path: Path) -> None:
    root = unpack("safetensors_unpadded", tmp_path)

    assert prune.resume(root).step == 10000


@pytest.mark.parametrize("state_of_mirroring", ["known", "lost"])
def test_the_primary_is_named_where_its_copy_is_what_a_verified_one_holds(
    state_of_mirroring: str, tmp_path: Path, state: str
) -> None:
    """Formats without checksums: only the mirror's copy got a manifest when it was made."""
    from tests.mirror.helpers import mirrored_now

    root = unpack("safetensors_unpadded", tmp_path)
    (tmp_path / "M").mkdir()
    elsewhere = tmp_path / ("state" if state_of_mirroring == "known" else "elsewhere") / "prune.db"
    mirrored_now(run_of(root, tmp_path / "M", last=2), elsewhere)

    found = asked(run_of(root, tmp_path / "M"), state)

    assert found.candidate is not None
    assert (found.candidate.replica, found.candidate.health) == ("primary", Health.INTACT)
    assert found.skipped == ()


def test_the_mirror_is_named_where_the_primarys_copy_differs_from_its_verified_one(tmp_path: Path, state: str) -> None:
    from tests.mirror.helpers import mirrored_now

    root = unpack("safetensors_unpadded", tmp_path)
    (tmp_path / "M").mkdir()
    mirrored_now(run_of(root, tmp_path / "M", last=2), tmp_path / "state" / "prune.db")
    flip(root / "step_10000.safetensors", 9000)

    found = asked(run_of(root, tmp_path / "M"), state)

    assert found.candidate is not None
    assert (found.candidate.step, found.candidate.replica) == (10000, "mirror")
    assert [(skipped.step, skipped.replica) for skipped in found.skipped] == [(10000, "primary")]


def test_within_a_step_a_verified_copy_beats_an_unverified_one(tmp_path: Path) -> None:
    primary = unpack("safetensors_unpadded", tmp_path)
    mirror = mirrored(primary, tmp_path / "M")
    import hashlib

    sums = mirror / "step_10000.safetensors.sha256"
    digest = hashlib.sha256((mirror / "step_10000.safetensors").read_bytes()).hexdigest()
    sums.write_text(f"{digest}  step_10000.safetensors\n")
    shutil.copystat(mirror / "step_10000.safetensors", sums)

    candidate = prune.resume(primary, mirrors=[mirror])

    assert (candidate.replica, candidate.health) == ("mirror", Health.INTACT)
    assert [(s.step, s.replica, s.health) for s in candidate.skipped] == [(10000, "primary", Health.WHOLE)]


def test_a_shallower_check_takes_what_a_deeper_one_refuses(tmp_path: Path) -> None:
    root = step_files(tmp_path / "P", [10, 20], size=20000)
    flip(root / "step_0020.pt", 9000)

    assert prune.resume(root, check="structure").step == 20
    assert prune.resume(root).step == 10


def test_every_skip_is_told_to_the_notifier_and_to_history(tmp_path: Path, state: str) -> None:
    root = step_files(tmp_path / "P", [10, 20, 30])
    damage(root / "step_0030.pt", "truncated to 50 %")
    damage(root / "step_0020.pt", "0 bytes")
    told: list[Skipped] = []

    candidate = prune.resume(root, notify=told.append)

    assert candidate.step == 10
    assert [(skipped.step, skipped.health) for skipped in told] == [(30, Health.BROKEN), (20, Health.BROKEN)]
    journal = open_journal(state, write=False)
    assert [event.step for event in journal.history(kinds=["fallback"])] == [20, 30]
    journal.close()


def test_a_notifier_that_fails_keeps_nobody_from_resuming(tmp_path: Path) -> None:
    root = step_files(tmp_path / "P", [10, 20])
    damage(root / "step_0020.pt", "0 bytes")

    def fail(_skipped: Skipped) -> None:
        raise RuntimeError("the pager is down")

    assert prune.resume(root, notify=fail).step == 10


def test_an_empty_root_is_a_new_run(tmp_path: Path) -> None:
    (tmp_path / "P").mkdir()

    with pytest.raises(NothingYet):
        prune.resume(tmp_path / "P")


def test_roots_that_history_knows_on_a_disk_that_is_not_mounted_are_no_new_run_until_they_are_adopted(
    tmp_path: Path, state: str
) -> None:
    journal = tmp_path / "state/prune.db"
    with tmpfs(tmp_path / "mnt", size="16m") as disk:
        root, mirror = step_files(disk / "P", range(1, 6)), disk / "M"
        mirrored(root, mirror)
        run = run_of(root, mirror, last=2)
        applied(run, journal)
    root.mkdir()
    mirror.mkdir()

    found, outcome = asked(run, state), applied(run, journal)
    assert isinstance(found.error, Blocked)
    assert "is its disk mounted" in str(found.error)
    assert outcome.blocked is not None
    assert outcome.blocked.block == "replica-vanished"
    assert [block.block for block in planned(run, journal).blocks] == ["replica-vanished"]
    assert isinstance(asked(run_of(mirror, last=2), state).error, NothingYet), "nobody trained there"

    for name in ("primary", "mirror"):
        with closing(open_journal(state, write=True)) as opened:
            adopt(run, name, now_ns=0, wait_ns=0, journal=opened)
    assert isinstance(asked(run, state).error, NothingYet)
    assert applied(run, journal).blocked is None


def test_a_root_removed_and_made_anew_on_the_same_disk_is_a_new_run(tmp_path: Path, state: str) -> None:
    run = run_of(step_files(tmp_path / "P", range(1, 6)), last=2)
    applied(run, tmp_path / "state/prune.db")
    shutil.rmtree(tmp_path / "P")
    (tmp_path / "P").mkdir()

    assert isinstance(asked(run, state).error, NothingYet)
    assert applied(run, tmp_path / "state/prune.db").blocked is None


def test_a_killed_first_save_is_still_a_new_run(tmp_path: Path) -> None:
    (tmp_path / "P").mkdir()
    (tmp_path / "P" / "step_0010.pt.part").write_bytes(torch_zip()[:900])

    with pytest.raises(NothingYet):
        prune.resume(tmp_path / "P", layout="step-file")


def test_where_one_is_expected_a_new_run_is_an_error_like_none_usable(tmp_path: Path, state: str) -> None:
    (tmp_path / "P").mkdir()

    assert isinstance(asked(run_of(tmp_path / "P"), state, expect=True).error, Damaged)


def test_checkpoints_and_none_usable_is_never_a_new_run(tmp_path: Path) -> None:
    root = step_files(tmp_path / "P", [10, 20])
    for path in root.iterdir():
        damage(path, "truncated to 73 %")

    with pytest.raises(Damaged, match="2 checkpoints were found and none is usable"):
        prune.resume(root)


@pytest.mark.parametrize("cut", [False, True])
def test_a_backup_without_any_step_is_never_a_new_run(cut: bool, tmp_path: Path, state: str) -> None:
    root = unpack("keras_backup", tmp_path)
    if cut:
        os.truncate(root / "latest.weights.h5", 100)
    with pytest.raises(Damaged, match=r"no new run: .* latest\.weights\.h5 \(BackupAndRestore\)"):
        prune.resume(root)
    found = asked(run_of(root), state)
    assert found.trainer is not None
    assert found.trainer.usable is not cut


def test_a_root_that_is_not_there_is_never_a_new_run(tmp_path: Path) -> None:
    with pytest.raises(Blocked):
        prune.resume(tmp_path / "not mounted")


@pytest.mark.parametrize("layout", ["auto", "step-file"])
def test_several_directories_of_checkpoints_are_never_a_new_run(tmp_path: Path, layout: str) -> None:
    for name in ("a", "b"):
        step_files(tmp_path / "runs" / name / "checkpoints", [10, 20])
    with pytest.raises(Blocked, match="a/checkpoints, b/checkpoints"):
        prune.resume(tmp_path / "runs", layout=layout)


@pytest.mark.parametrize("layout", ["auto", "step-file"])
def test_a_search_for_them_that_was_cut_short_is_never_a_new_run(tmp_path: Path, layout: str) -> None:
    for at in range(detect.FOLDERS + 1):
        (tmp_path / "runs" / f"{at:04d}").mkdir(parents=True)
    step_files(tmp_path / "runs" / "last" / "checkpoints", [10, 20])
    with pytest.raises(Blocked, match="point at the directory that holds the checkpoints"):
        prune.resume(tmp_path / "runs", layout=layout)


def test_a_mirror_that_is_not_there_leaves_the_question_open_only_where_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "P").mkdir()
    with pytest.raises(Blocked):
        prune.resume(tmp_path / "P", mirrors=[tmp_path / "not mounted"])

    step_files(tmp_path / "P", [10])
    assert prune.resume(tmp_path / "P", mirrors=[tmp_path / "not mounted"]).step == 10


def test_an_empty_primary_that_held_steps_before_is_no_new_run(tmp_path: Path) -> None:
    (tmp_path / "P").mkdir()
    control = Control.make(str(tmp_path / "P" / ".prune"))
    control.write_volume(Volume("a" * 32, "primary", Held(3, 30)))
    control.close()

    with pytest.raises(Blocked, match="held 3 steps"):
        prune.resume(tmp_path / "P")


def test_an_empty_mount_point_as_primary_resumes_from_the_mirror(tmp_path: Path, state: str) -> None:
    primary = step_files(tmp_path / "P", [10, 20, 30])
    mirror = mirrored(primary, tmp_path / "M")
    applied(run_of(primary, mirror), tmp_path / "state" / "prune.db")
    shutil.rmtree(primary)
    primary.mkdir()

    candidate = prune.resume(primary, mirrors=[mirror])

    assert (candidate.step, candidate.replica) == (30, "mirror")


def test_none_older_than_what_is_asked_for(tmp_path: Path, state: str) -> None:
    root = step_files(tmp_path / "P", [10, 20, 30])
    assert asked(run_of(root), state, min_step=30).candidate is not None
    damage(root / "step_0030.pt", "0 bytes")

    found = asked(run_of(root), state, min_step=30)

    assert found.candidate is None
    assert isinstance(found.error, Damaged)
    assert isinstance(asked(run_of(root), state, min_step=31).error, Damaged)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    root = unpack("hf_sharded_missing_shard", tmp_path)

    candidate = prune.resume(root)

    assert any("model-00002-of-00005.safetensors" in (skipped.detail or "") for skipped in candidate.skipped)


def test_a_good_copy_under_a_pointers_name_stands_in_for_its_step(tmp_path: Path) -> None:
    root = unpack("lightning_last_link", tmp_path)
    folder = root / "lightning_logs" / "version_0" / "checkpoints"
    newest = folder / "epoch=2-step=80.ckpt"
    (folder / "last.ckpt").unlink()
    shutil.copy2(newest, folder / "last.ckpt")
    damage(newest, "truncated to 73 %")

    candidate = prune.resume(root)

    assert (candidate.step, candidate.path) == (80, str(folder / "last.ckpt"))
    assert [skipped.path for skipped in candidate.skipped] == [str(newest)]


def test_a_step_is_preferred_to_the_copy_under_a_pointers_name(tmp_path: Path) -> None:
    root = unpack("lightning_last_link", tmp_path)
    folder = root / "lightning_logs" / "version_0" / "checkpoints"
    (folder / "last.ckpt").unlink()
    shutil.copy2(folder / "epoch=2-step=80.ckpt", folder / "last.ckpt")

    assert prune.resume(root).path == str(folder / "epoch=2-step=80.ckpt")


def test_of_two_copies_under_pointers_names_the_trainers_own_is_named(tmp_path: Path) -> None:
    weights = unpack("ultralytics_run", tmp_path) / "weights"
    damage(weights / "epoch1.pt", "truncated to 73 %")
    assert (weights / "best.pt").read_bytes() == (weights / "last.pt").read_bytes()

    assert prune.resume(weights.parent).path == str(weights / "last.pt")


def test_what_the_trainer_would_pick_is_told_and_whether_it_could(tmp_path: Path, state: str) -> None:
    root = unpack("torch_plain_newest_truncated_73", tmp_path)

    found = asked(run_of(root), state)

    assert found.trainer is not None
    assert (found.trainer.step, found.trainer.usable) == (100, False)
    assert "damaged-pick" in {note.kind for note in found.attention}


@pytest.mark.parametrize(("cut", "usable"), [(False, True), (True, False)])
def test_a_backup_that_no_step_stands_for_is_judged_by_its_own_file(
    cut: bool, usable: bool, tmp_path: Path, state: str
) -> None:
    root = unpack("keras_backup", tmp_path)
    shutil.copy(root / "latest.weights.h5", root / "cp-0003.weights.h5")
    cut_one = root / ("latest.weights.h5" if cut else "cp-0003.weights.h5")
    os.truncate(cut_one, cut_one.stat().st_size // 2)

    found = asked(run_of(root), state)

    assert found.trainer is not None
    assert (os.path.basename(found.trainer.path), found.trainer.usable) == ("latest.weights.h5", usable)
    assert ("damaged-pick" in {note.kind for note in found.attention}) is not usable
    assert "damaged-pick" not in {note.kind for note in planned(run_of(root), tmp_path / "state.db").attention}


def test_a_pointer_that_lags_is_told_and_not_followed(tmp_path: Path, state: str) -> None:
    root = unpack("deepspeed_zero1", tmp_path)
    (root / "latest").write_text("global_step70")

    found = asked(run_of(root), state)

    assert found.candidate is not None
    assert found.candidate.step == 80
    assert found.trainer is not None
    assert found.trainer.step == 70
    assert "pointer-lags" in {note.kind for note in found.attention}


def test_a_pointer_that_dangles_is_told(tmp_path: Path, state: str) -> None:
    root = unpack("deepspeed_zero1", tmp_path)
    (root / "latest").write_text("global_step90")

    found = asked(run_of(root), state)

    assert found.candidate is not None
    assert found.candidate.step == 80
    assert "pointer-dangling" in {note.kind for note in found.attention}


def test_weights_alone_are_no_candidate_while_any_copy_holds_more(tmp_path: Path) -> None:
    root = unpack("hf_trainer", tmp_path)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (root / "checkpoint-100" / name).unlink()

    candidate = prune.resume(root)

    assert candidate.step == 90
    assert "weights alone" in (candidate.skipped[0].detail or "")


def test_what_is_fresh_and_cannot_be_checked_is_taken_unless_somebody_has_it_open(tmp_path: Path) -> None:
    root = tmp_path / "P"
    root.mkdir()
    for step in (10, 20):
        (root / f"step_{step}.bin").write_bytes(b"\x01opaque" * 1000)

    assert prune.resume(root).step == 20


# --- restoring and holding ---------------------------------------------------------------------------------------


def restored(run: RunSettings, state: str, **terms: object) -> Resumption:
    journal = open_journal(state, write=True)
    try:
        asked_for = Terms(**terms)  # type: ignore[arg-type]
        return on_primary(run, find(run, asked_for, journal), asked_for, journal, state)
    finally:
        journal.close()


@pytest.mark.parametrize("build", [step_files, step_dirs])
def test_restoring_puts_the_mirrors_copy_in_place_of_the_damaged_one(tmp_path: Path, state: str, build) -> None:  # type: ignore[no-untyped-def]
    primary = build(tmp_path / "P", [10, 20, 30])
    mirror = mirrored(primary, tmp_path / "M")
    name = max(names(primary))
    good = largest_file(primary / name).read_bytes()
    damaged = largest_file(primary / name)
    damage(damaged, "truncated to 73 %")

    found = restored(run_of(primary, mirror), state)

    assert found.candidate is not None
    assert (found.candidate.step, found.candidate.replica) == (30, "primary")
    assert damaged.read_bytes() == good
    assert damaged.stat().st_mtime_ns == (mirror / damaged.relative_to(primary)).stat().st_mtime_ns
    assert names(primary) == names(mirror)
    (withdrawn,) = Control.open(str(primary / ".prune")).trashed()
    assert (withdrawn.why, withdrawn.step) == ("repaired", 30)


def test_restoring_changes_nothing_where_the_primary_has_the_newest(tmp_path: Path, state: str) -> None:
    primary = step_files(tmp_path / "P", [10, 20])
    mirror = mirrored(primary, tmp_path / "M")
    before = snapshot(primary)

    assert restored(run_of(primary, mirror), state).candidate is not None
    assert snapshot(primary) == before


def test_a_pruned_step_is_restored_when_nothing_newer_verifies(tmp_path: Path, state: str) -> None:
    primary = step_files(tmp_path / "P", [10, 20, 30])
    mirror = mirrored(primary, tmp_path / "M")
    aside = tmp_path / "aside"
    mirror.rename(aside)
    applied(run_of(primary, last=1), tmp_path / "state" / "prune.db")
    aside.rename(mirror)
    for replica in (primary, mirror):
        damage(replica / "step_0030.pt", "0 bytes")
    run = run_of(primary, mirror)

    found = restored(run, state)

    assert found.candidate is not None
    assert (found.candidate.step, found.candidate.replica) == (20, "primary")
    assert 20 not in {stone.step for stone in Control.open(str(primary / ".prune")).tombstones()}


def test_nothing_is_restored_into_a_primary_that_vanished(tmp_path: Path, state: str) -> None:
    primary = step_files(tmp_path / "P", [10, 20, 30])
    mirror = mirrored(primary, tmp_path / "M")
    run = run_of(primary, mirror)
    applied(run, tmp_path / "state" / "prune.db")
    shutil.rmtree(primary)
    primary.mkdir()

    with pytest.raises(Blocked, match="cannot be restored to"):
        restored(run, state)
    assert list(primary.iterdir()) == []


def test_a_pointer_that_the_primary_lost_comes_back_with_its_step(tmp_path: Path, state: str) -> None:
    primary = unpack("deepspeed_zero1", tmp_path)
    mirror = mirrored(primary, tmp_path / "M")
    shutil.rmtree(primary / "global_step80")
    (primary / "latest").unlink()

    found = restored(run_of(primary, mirror), state)

    assert found.candidate is not None
    assert found.candidate.path == str(primary / "global_step80")
    assert (primary / "latest").read_text() == "global_step80"


def test_what_is_held_is_not_pruned(tmp_path: Path, state: str) -> None:
    primary = step_files(tmp_path / "P", [10, 20, 30])
    for step in (20, 30):
        damage(primary / f"step_{step:04d}.pt", "0 bytes")
    run = run_of(primary)
    journal = open_journal(state, write=True)
    terms = Terms()

    found = held(run, find(run, terms, journal), terms, journal, 3600 * SECOND)
    journal.close()

    assert found.lease is not None
    (lease,) = Control.open(str(primary / ".prune")).leases("primary")
    assert lease.step == 10
    for step in (20, 30, 40):
        (primary / f"step_{step:04d}.pt").write_bytes(torch_zip())
        age(primary / f"step_{step:04d}.pt", 7200 - step)
    outcome = applied(run_of(primary, last=1), tmp_path / "state" / "prune.db")
    assert "step_0010.pt" in names(primary)
    assert (10, "leased") in {(guarded.step, guarded.guard) for guarded in outcome.guarded}


def test_a_candidate_that_goes_away_before_it_is_leased_is_looked_for_again(tmp_path: Path, state: str) -> None:
    primary = step_files(tmp_path / "P", [10, 20])
    run = run_of(primary)
    journal = open_journal(state, write=True)
    found = find(run, Terms(), journal)
    (primary / "step_0020.pt").unlink()

    again = held(run, found, Terms(), journal, 3600 * SECOND)
    journal.close()

    assert again.candidate is not None
    assert again.candidate.step == 10
    assert [lease.step for lease in Control.open(str(primary / ".prune")).leases("primary")] == [10]


def test_restoring_what_is_open_elsewhere_is_refused(tmp_path: Path, state: str) -> None:
    import subprocess
    import sys

    primary = step_files(tmp_path / "P", [10, 20])
    mirror = mirrored(primary, tmp_path / "M")
    damage(primary / "step_0020.pt", "truncated to 73 %")
    code = "import sys; f = open(sys.argv[1], 'r+b'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(primary / "step_0020.pt")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(Failed, match="has it open"):
            restored(run_of(primary, mirror), state)
        assert writer.stdin is not None
        writer.stdin.close()
