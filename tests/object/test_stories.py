"""What a person meets with a root in a bucket: mirrors, grace, pins, budgets, versions, resuming, verifying."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import boto3
import pytest

import prune
from prune import holds
from prune.deletion.undo import undo
from prune.doctor.examine import examine
from prune.errors import NothingYet, UsageError
from prune.journal import open_journal
from prune.pressure.relief import make_room
from prune.report.json import bytes_to_free
from prune.resume import Terms, find, held
from prune.seal import seal_all
from prune.settings.schema import SECOND, Guards, Keep
from prune.verify import verify
from tests.object.proxy import Proxy, only, refuse, without
from tests.object.store import SETTLED, keys, put, put_all, run_on, step_keys, step_prefixes, uploaded
from tests.runs import applied, deleted_steps, planned, settings_of
from tests.trees.build import age, step_dirs, step_files, torch_zip
from tests.trees.stacks import hf, put_torch

HOUR = 3600 * SECOND


def test_a_local_primary_and_its_mirror_in_a_bucket_lose_the_same_steps(
    bucket: str, state: Path, tmp_path: Path
) -> None:
    primary = step_files(tmp_path / "P", range(1, 9))
    uploaded(primary, bucket)

    outcome = applied(run_on(primary, bucket), state)

    assert deleted_steps(outcome) == deleted_steps(outcome, "mirror") == [1, 2, 3, 4, 5]
    assert keys(bucket) == sorted(path.name for path in primary.glob("*.pt"))


def test_what_the_bucket_lacks_is_not_aligned_and_keeps_older_steps(bucket: str, state: Path, tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 9))
    uploaded(primary, bucket)
    for step in (7, 8):
        (primary / f"step_000{step}.pt").rename(tmp_path / f"{step}")
        uploaded(primary, bucket)
        (tmp_path / f"{step}").rename(primary / f"step_000{step}.pt")
    from tests.object.store import store_of

    store_of(bucket).delete(["step_0007.pt", "step_0008.pt"])

    assert planned(run_on(primary, bucket), state).cutoff == 4


def test_a_changed_local_copy_keeps_the_one_in_the_bucket(bucket: str, state: Path, tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", range(1, 6))
    uploaded(primary, bucket)
    run = run_on(primary, bucket, last=2, guards=Guards(in_flight=300 * SECOND))
    fresh = time.time()

    import os

    os.utime(primary / "step-1" / "rank_0.pt", (fresh, fresh))
    outcome = applied(run, state)

    assert 1 not in deleted_steps(outcome, "mirror")
    assert [key for key in keys(bucket) if key.startswith("step-1/")]


def test_grace_leaves_objects_in_place_until_its_end_and_undo_takes_the_note_away(bucket: str, state: Path) -> None:
    put_all(bucket, step_prefixes(range(1, 6)))
    run = run_on(bucket, last=2, grace=24 * HOUR)
    before = keys(bucket)
    outcome = applied(run, state)
    plan = planned(run, state)
    journal = open_journal(f"sqlite:///{state}", write=True)

    back = undo(run, None, now_ns=time.time_ns(), wait_ns=0, journal=journal)

    assert [(copy.step, copy.purged) for copy in outcome.deleted] == [(1, False), (2, False), (3, False)]
    assert [step.step for step in plan.steps] == [4, 5]
    assert plan.replicas[0].trash_until_ns is not None
    assert keys(bucket) == before
    assert sorted(step for step, _, _ in back.done) == [1, 2, 3]
    assert [step.step for step in planned(run, state).steps] == [1, 2, 3, 4, 5]
    journal.close()


def test_when_grace_is_over_what_was_withdrawn_goes(bucket: str, state: Path) -> None:
    put_all(bucket, step_prefixes(range(1, 6)))
    applied(run_on(bucket, last=2, grace=2 * SECOND), state)
    time.sleep(3.5)

    outcome = applied(run_on(bucket, last=2, grace=2 * SECOND), state)

    assert outcome.failed == ()
    assert {key.partition("/")[0] for key in keys(bucket)} == {"step-4", "step-5"}


def test_a_step_saved_again_while_the_old_one_waits_is_a_new_one(bucket: str, state: Path) -> None:
    put_all(bucket, step_keys(range(1, 6)))
    run = run_on(bucket, grace=2 * SECOND)
    applied(run, state)
    put_all(bucket, step_keys(range(1, 2), size=2048))
    shown = planned(run, state)
    time.sleep(3.5)

    applied(run, state)

    assert 1 in [step.step for step in shown.steps]
    assert keys(bucket) == ["step_0001.pt", "step_0003.pt", "step_0004.pt", "step_0005.pt"]


def test_pins_and_leases_are_keys_that_hold(bucket: str, state: Path) -> None:
    put_all(bucket, step_keys(range(1, 8)))
    run = run_on(bucket)
    holds.pin(run, 2, reason="the paper's", now_ns=time.time_ns())
    lease = holds.lease(run, 1, until_ns=time.time_ns() + HOUR)

    outcome = applied(run, state)

    assert deleted_steps(outcome) == [3, 4]
    assert ".prune/pins/2.json" in keys(bucket, ours=True)
    holds.unpin(run, 2)
    holds.release(run, lease)
    assert deleted_steps(applied(run, state)) == [1, 2]


def test_an_unreadable_pin_blocks(bucket: str, state: Path) -> None:
    put_all(bucket, step_keys(range(1, 8)))
    put(bucket, ".prune/pins/3.json", b"{")

    plan = planned(run_on(bucket), state)

    assert plan.blocked is not None
    assert plan.blocked.block == "pins-unreadable"


def test_a_bucket_that_held_steps_and_holds_none_blocks(bucket: str, state: Path, tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 9))
    uploaded(primary, bucket)
    applied(run_on(primary, bucket), state)
    from tests.object.store import store_of

    store_of(bucket).delete(keys(bucket))

    outcome = applied(run_on(primary, bucket, last=2), state)

    assert outcome.blocked is not None
    assert outcome.blocked.block == "replica-vanished"
    assert len(list(primary.glob("*.pt"))) == 3


def test_a_budget_stands_for_free_space(bucket: str, state: Path) -> None:
    put_all(bucket, step_keys(range(1, 6), size=4096))
    used = sum(len(data) for data in step_keys(range(1, 6), size=4096).values())

    with_budget = planned(run_on(bucket, capacity=1 << 20), state).replicas[0]
    without = planned(run_on(bucket), state)

    assert (with_budget.free_bytes, with_budget.total_bytes) == ((1 << 20) - used, 1 << 20)
    assert without.replicas[0].free_bytes is None
    assert without.blocked is None


def test_room_is_made_within_a_budget(bucket: str, state: Path) -> None:
    put_all(bucket, step_keys(range(1, 9), size=64 << 10))
    budget = 8 * (66 << 10)

    relief = make_room(settings_of(run_on(bucket, capacity=budget), state=state), 150 << 10)

    assert relief.reached
    assert keys(bucket) == [f"step_000{step}.pt" for step in (4, 5, 6, 7, 8)], "no more than it takes"


def test_room_in_a_store_without_a_budget_is_refused_with_the_mend(bucket: str, state: Path) -> None:
    put_all(bucket, step_keys(range(1, 9)))

    with pytest.raises(UsageError, match="capacity"):
        make_room(settings_of(run_on(bucket), state=state), 1 << 20)


def test_seals_are_keys(bucket: str, state: Path) -> None:
    put_all(bucket, step_keys(range(1, 3)))

    sealed = seal_all(settings_of(run_on(bucket), state=state), sidecar=True)

    assert [len(run.sealed) for run in sealed] == [2]
    assert ".prune/manifests/step_0001.pt.json" in keys(bucket, ours=True)
    assert "step_0002.pt.sha256" in keys(bucket)
    assert {copy.health for copy in verify(settings_of(run_on(bucket), state=state), [])[0].copies} == {"intact"}


def test_a_bucket_that_keeps_versions_frees_nothing_yet_and_says_so(bucket: str, state: Path, s3_server: str) -> None:
    s3 = boto3.client("s3", endpoint_url=s3_server)
    s3.put_bucket_versioning(Bucket=bucket.removeprefix("s3://"), VersioningConfiguration={"Status": "Enabled"})
    put_all(bucket, step_keys(range(1, 8)))

    outcome = applied(run_on(bucket), state)

    assert {copy.bytes for copy in outcome.deleted} == {0}
    assert "versioned" in {note.kind for note in outcome.attention}
    assert len(keys(bucket)) == 3


def test_resume_prints_the_url_of_what_verifies(bucket: str, state: Path) -> None:
    put_all(bucket, step_keys(range(1, 6)))
    put(bucket, "step_0005.pt", step_keys(range(5, 6))["step_0005.pt"][:-100])
    run = run_on(bucket, guards=SETTLED)
    journal = open_journal(f"sqlite:///{state}", write=True)

    found = find(run, Terms(), journal)

    assert found.candidate is not None
    assert (found.candidate.step, found.candidate.path) == (4, f"{bucket}/step_0004.pt")
    assert [skipped.step for skipped in found.skipped] == [5]
    kept = held(run, found, Terms(), journal, HOUR)
    assert kept.lease is not None
    assert [key for key in keys(bucket, ours=True) if key.startswith(".prune/leases/")]
    journal.close()


def test_resume_falls_back_to_a_mirror_in_a_bucket(bucket: str, state: Path, tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    uploaded(primary, bucket)
    for path in primary.glob("*.pt"):
        path.write_bytes(b"")
    journal = open_journal(f"sqlite:///{state}", write=True)

    found = find(run_on(primary, bucket), Terms(), journal)

    assert found.candidate is not None
    assert (found.candidate.replica, found.candidate.path) == ("mirror", f"{bucket}/step_0005.pt")
    journal.close()


def test_an_empty_bucket_is_a_new_run(bucket: str, state: Path) -> None:
    journal = open_journal(f"sqlite:///{state}", write=True)

    found = find(run_on(bucket), Terms(), journal)

    assert isinstance(found.error, NothingYet)
    journal.close()


def test_verify_reads_objects_and_tells_damage(bucket: str, state: Path) -> None:
    put_all(bucket, step_keys(range(1, 5)))
    whole = step_keys(range(3, 4))["step_0003.pt"]
    put(bucket, "step_0003.pt", whole.replace(b"3" * 64, b"4" * 64, 1))

    found = verify(settings_of(run_on(bucket), state=state), [])

    health = {copy.step: copy.health for copy in found[0].copies}
    assert health == {1: "intact", 2: "intact", 3: "broken", 4: "intact"}


def test_two_folders_of_control_are_trouble(bucket: str, state: Path) -> None:
    root = f"{bucket}/runs/tiny"
    put_all(root, step_keys(range(1, 6)))
    put(root, ".prune/pins/1.json", b"{}")
    put(f"{bucket}/runs", ".tiny.prune/pins/1.json", b"{}")

    plan = planned(run_on(root), state)

    assert plan.blocked is not None
    assert plan.blocked.block == "control-unusable"


@pytest.mark.parametrize("name", ["epoch=1-step=20.ckpt", "a b#c%d+e~(f)!.pt", "ünïcode-20.pt"])
def test_names_with_any_characters_are_listed_read_and_deleted(bucket: str, name: str) -> None:
    from prune.stores.object.root import ObjectRoot

    root = ObjectRoot(f"{bucket}/a=b c")
    put(f"{bucket}/a=b c", f"step 1/{name}", b"payload")

    assert [entry.path for entry, _ in root.walk("step 1")] == [f"step 1/{name}"]
    with root.open(f"step 1/{name}") as file:
        assert file.read() == b"payload"
    root.remove("step 1")
    assert keys(bucket) == []


def trainer_prefixes(steps: range) -> dict[str, bytes]:
    """``checkpoint-10/`` …, as the Hugging Face Trainer writes them."""
    found: dict[str, bytes] = {}
    for step in steps:
        for name in ("pytorch_model.bin", "optimizer.pt", "rng_state.pth"):
            found[f"checkpoint-{step}/{name}"] = torch_zip(256, fill=b"%d" % step)
        found[f"checkpoint-{step}/trainer_state.json"] = b'{"global_step": %d, "log_history": []}' % step
    return found


def test_a_prefix_is_thinned_of_the_objects_that_only_resuming_needs(bucket: str, state: Path) -> None:
    put_all(bucket, trainer_prefixes(range(1, 4)))
    run = replace(run_on(bucket, last=3), keep=Keep(last=3, full=1))

    outcome = applied(run, state)
    plan = planned(run, state)

    assert [copy.step for copy in outcome.thinned] == [1, 2]
    assert [key for key in keys(bucket) if "checkpoint-1/" in key] == [
        "checkpoint-1/pytorch_model.bin", "checkpoint-1/trainer_state.json",
    ]  # fmt: skip
    assert [step.step for step in plan.steps if step.copies[0].weights_only] == [1, 2]
    assert plan.thinned == ()


def test_what_thinning_withdrew_waits_in_place_and_counts_as_gone(bucket: str, state: Path) -> None:
    put_all(bucket, trainer_prefixes(range(1, 4)))
    run = replace(run_on(bucket, last=3, grace=24 * HOUR), keep=Keep(last=3, full=1))
    before = keys(bucket)

    outcome = applied(run, state)
    plan = planned(run, state)
    journal = open_journal(f"sqlite:///{state}", write=True)
    undo(run, None, now_ns=time.time_ns(), wait_ns=0, journal=journal)
    journal.close()
    again = planned(run, state)

    assert [copy.step for copy in outcome.thinned] == [1, 2]
    assert keys(bucket) == before
    assert [step.step for step in plan.steps if step.copies[0].weights_only] == [1, 2]
    assert plan.thinned == ()
    assert [step.step for step in again.steps if step.copies[0].weights_only] == []


@pytest.mark.usefixtures("conditional_deletes")
def test_the_doctor_tells_what_a_store_can_and_leaves_nothing(bucket: str) -> None:
    put_all(bucket, step_keys(range(1, 3)))
    replica = run_on(bucket, capacity=1 << 40).primary

    found = {finding.check: finding for finding in examine(replica, stand_beside=False)}

    assert {check: finding.state for check, finding in found.items()} == {
        "reach": "ok", "free-space": "ok", "clock": "ok", "conditions": "ok", "versions": "ok", "deletes": "ok"
    }  # fmt: skip
    assert keys(bucket, ours=True) == []


def test_the_doctor_tells_of_a_store_that_deletes_whatever_stands_under_a_name(bucket: str, proxy: Proxy) -> None:
    proxy.fault = only(lambda request: request.method == "DELETE", without("if-match"))

    found = {finding.check: finding for finding in examine(run_on(bucket).primary, stand_beside=False)}

    assert (found["deletes"].state, "write" in found) == ("attention", False)
    assert keys(bucket, ours=True) == []


def test_the_doctor_tells_of_a_store_that_does_not_answer(bucket: str, proxy: Proxy) -> None:
    proxy.fault = refuse(403, "AccessDenied")

    found = examine(run_on(bucket).primary, stand_beside=False)

    assert [(finding.check, finding.state) for finding in found] == [("reach", "bad")]
    assert "access was denied" in found[0].found


def test_a_reader_leases_a_url(bucket: str, state: Path) -> None:
    root = f"{bucket}/runs/tiny"
    put_all(root, step_prefixes(range(1, 6)))

    with prune.lease(f"{root}/step-1"):
        held = deleted_steps(applied(run_on(root, last=2), state))

    assert held == [2, 3]
    assert deleted_steps(applied(run_on(root, last=2), state)) == [1]


def test_the_library_resumes_from_a_url(bucket: str, monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{state}")
    put_all(bucket, step_keys(range(1, 4)))

    assert prune.resume(bucket).path == f"{bucket}/step_0003.pt"


def test_a_thinned_step_whose_parts_wait_in_a_bucket_equals_its_thinned_local_copy(
    bucket: str, state: Path, tmp_path: Path
) -> None:
    mirror = tmp_path / "M"
    for step in (10, 20, 30):
        put_torch(hf(mirror, step) / "rng_state.pth")
        age(mirror / f"checkpoint-{step}", 60)  # a store tells the time in whole seconds: it may be behind
    uploaded(mirror, bucket)
    run = replace(run_on(bucket, mirror, grace=HOUR), keep=Keep(last=3, full=1))

    assert [(copy.step, copy.replica) for copy in applied(run, state).thinned] == [
        (10, "mirror"), (10, "primary"), (20, "mirror"), (20, "primary")
    ]  # fmt: skip
    found = verify(settings_of(run, state=state), [])[0].copies
    sizes = {(copy.step, copy.replica): (copy.size, copy.files, copy.weights_only) for copy in found}
    assert all(sizes[step, "primary"] == sizes[step, "mirror"] for step in (10, 20, 30))
    assert "suspect" not in {copy.health for copy in found}
    plan = planned(run, state)
    assert (plan.cutoff, plan.attention) == (10, ())

    fewer = replace(run, keep=Keep(last=1, full=1))
    assert sorted(set(deleted_steps(applied(fewer, state)))) == [10, 20], "parts that wait hold no deletion up"
    undo(fewer, None, now_ns=time.time_ns(), wait_ns=0, journal=open_journal(f"sqlite:///{state}", write=True))
    assert [len(step.copies) for step in planned(fewer, state).steps] == [2, 2, 2]
    assert planned(fewer, state).attention == ()


def test_a_preview_of_a_bucket_that_keeps_versions_promises_no_room(bucket: str, state: Path, s3_server: str) -> None:
    s3 = boto3.client("s3", endpoint_url=s3_server)
    s3.put_bucket_versioning(Bucket=bucket.removeprefix("s3://"), VersioningConfiguration={"Status": "Enabled"})
    put_all(bucket, step_prefixes(range(1, 8)))

    plan = planned(run_on(bucket), state)

    assert [step.step for step in plan.victims] == [1, 2, 3, 4]
    assert "versioned" in {note.kind for note in plan.attention}
    assert bytes_to_free(plan) == {"primary": 0}
