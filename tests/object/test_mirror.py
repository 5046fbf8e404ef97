"""Mirroring into a bucket, and back out of one."""

from __future__ import annotations

import os
from pathlib import Path

import boto3
import pytest

from prune import mirror as mirroring
from prune.journal import open_journal
from prune.mirror.outcome import Mirrored
from prune.resume import Terms, find, on_primary
from prune.settings.schema import RunSettings
from tests.object.proxy import Answer, Passing, Proxy, Request, only, refuse, truncate
from tests.object.store import keys, put, put_all, run_on, step_keys, uploaded
from tests.runs import applied, deleted_steps, planned, settings_of
from tests.trees.build import step_dirs, step_files, torch_zip


def mirrored(run: RunSettings, state: Path, *steps: int) -> Mirrored:
    return mirroring.mirror(settings_of(run, state=state), steps)[0]


def test_missing_steps_are_uploaded_newest_first_and_verify(bucket: str, state: Path, tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    run = run_on(primary, f"{bucket}/mirror")

    done = mirrored(run, state)

    assert [copied.step for copied in done.copied] == [5, 4, 3]
    assert (done.failed, done.blocks) == ((), ())
    assert keys(f"{bucket}/mirror") == ["step_0003.pt", "step_0004.pt", "step_0005.pt"]
    assert ".prune/manifests/step_0005.pt.json" in keys(f"{bucket}/mirror", ours=True)
    assert planned(run, state).cutoff == 3
    assert mirrored(run, state).copied == ()
    assert deleted_steps(applied(run, state)) == [1, 2]


def test_what_tells_completeness_is_uploaded_last_and_after_the_manifest(
    bucket: str, state: Path, tmp_path: Path, proxy: Proxy
) -> None:
    primary = step_dirs(tmp_path / "P", (10,), files=2)
    (primary / "step-10" / "big.pt").write_bytes(torch_zip(200 << 10))
    os.utime(primary / "step-10" / "big.pt", (1.7e9, 1.7e9))
    proxy.forget()

    done = mirrored(run_on(primary, bucket, last=1), state)

    assert done.failed == ()
    puts = [request.target for request in proxy.seen if request.method == "PUT"]
    order = [next(at for at, target in enumerate(puts) if name in target)
             for name in ("big.pt", "manifests/step-10.json", "rank_0.pt")]  # fmt: skip
    assert done.failed == ()
    assert order == sorted(order)


def test_a_big_file_goes_up_in_parts_and_is_not_seen_before_it_is_whole(
    bucket: str, state: Path, tmp_path: Path, proxy: Proxy
) -> None:
    primary = step_files(tmp_path / "P", (10,), size=40 << 20)
    sights: list[list[str]] = []

    def look(request: Request, passing: Passing) -> Answer | None:
        answer = passing(request)
        if "partNumber" in request.target:
            sights.append(keys(bucket))
        return answer

    proxy.fault = only(lambda request: "partNumber" in request.target, look)
    done = mirrored(run_on(primary, bucket, last=1), state)

    assert sights == [[], [], []]
    assert [copied.bytes for copied in done.copied] == [(primary / "step_0010.pt").stat().st_size]
    assert keys(bucket) == ["step_0010.pt"]


def test_an_upload_that_fails_leaves_nothing_under_a_final_name(
    bucket: str, state: Path, tmp_path: Path, proxy: Proxy
) -> None:
    primary = step_files(tmp_path / "P", (10,), size=40 << 20)
    proxy.fault = only(lambda request: "partNumber=2" in request.target, refuse(403, "AccessDenied"))

    done = mirrored(run_on(primary, bucket, last=1), state)

    assert [failed.step for failed in done.failed] == [10]
    assert "access was denied" in done.failed[0].error
    assert keys(bucket) == []


def test_a_damaged_copy_in_the_bucket_is_replaced_and_what_it_had_more_goes(
    bucket: str, state: Path, tmp_path: Path
) -> None:
    primary = step_dirs(tmp_path / "P", (10, 20))
    uploaded(primary, bucket)
    put(bucket, "step-20/rank_1.pt", b"")
    put(bucket, "step-20/left_over.bin", b"x")

    done = mirrored(run_on(primary, bucket, last=2), state)

    assert [(copied.step, copied.repaired) for copied in done.copied] == [(20, True)]
    assert "step-20/left_over.bin" not in keys(bucket)


def test_what_was_pruned_is_not_uploaded_again(bucket: str, state: Path, tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 6))
    uploaded(primary, bucket)
    old = (primary / "step_0001.pt").read_bytes(), (primary / "step_0001.pt").stat()
    applied(run_on(primary, bucket), state)
    (primary / "step_0001.pt").write_bytes(old[0])
    os.utime(primary / "step_0001.pt", ns=(old[1].st_atime_ns, old[1].st_mtime_ns))

    done = mirrored(run_on(primary, bucket, last=5), state)

    assert done.copied == ()


def test_a_mirror_over_its_budget_is_told(bucket: str, state: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    primary = step_files(tmp_path / "P", range(1, 4), size=64 << 10)
    run = run_on(primary, bucket)
    run = replace(run, replicas=(run.replicas[0], replace(run.replicas[1], capacity=150 << 10)))

    done = mirrored(run, state)

    assert [copied.step for copied in done.copied] == [3]
    assert "mirror-too-small" in {note.kind for note in done.attention}


def test_a_pointer_follows_as_an_object(bucket: str, state: Path, tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 4))
    (primary / "latest").write_text("step_0003.pt")

    mirrored(run_on(primary, bucket), state)

    assert "latest" in keys(bucket)
    assert planned(run_on(primary, bucket), state).blocked is None


@pytest.mark.parametrize("make", [step_files, step_dirs])
def test_restore_brings_a_copy_back_out_of_the_bucket(bucket: str, state: Path, tmp_path: Path, make: object) -> None:
    primary = make(tmp_path / "P", range(1, 4))  # type: ignore[operator]
    uploaded(primary, bucket)
    newest = next(path for path in sorted(primary.iterdir(), reverse=True) if not path.name.startswith("."))
    before = {path.name: path.read_bytes() for path in [newest, *newest.rglob("*")] if path.is_file()}
    for path in [newest, *newest.rglob("*")]:
        if path.is_file():
            path.write_bytes(b"")
            os.utime(path, (1.7e9, 1.7e9))
    run = run_on(primary, bucket)
    journal = open_journal(f"sqlite:///{state}", write=True)

    found = on_primary(run, find(run, Terms(), journal), Terms(), journal, f"sqlite:///{state}")

    assert found.candidate is not None
    assert (found.candidate.step, found.candidate.replica) == (3, "primary")
    assert {path.name: path.read_bytes() for path in [newest, *newest.rglob("*")] if path.is_file()} == before
    journal.close()


def test_a_bucket_is_mirrored_into_another_and_onto_a_disk(
    bucket: str, state: Path, tmp_path: Path, s3_server: str
) -> None:
    boto3.client("s3", endpoint_url=s3_server).create_bucket(Bucket="second-" + bucket[5:])
    other = f"s3://second-{bucket[5:]}"
    put_all(bucket, step_keys(range(1, 4)))
    (tmp_path / "M").mkdir()

    done = mirrored(run_on(bucket, other, tmp_path / "M"), state)

    assert (done.failed, done.blocks) == ((), ())
    assert len(done.copied) == 6
    assert keys(other) == keys(bucket) == sorted(path.name for path in (tmp_path / "M").glob("*.pt"))


def test_a_download_that_breaks_off_is_begun_again(bucket: str, state: Path, tmp_path: Path, proxy: Proxy) -> None:
    put_all(bucket, step_keys(range(1, 2), size=3 << 20))
    (tmp_path / "M").mkdir()
    from tests.object.proxy import first

    proxy.fault = first(1, lambda request: request.method == "GET" and "step_0001" in request.target, truncate)
    done = mirrored(run_on(bucket, tmp_path / "M", last=1), state)

    assert [copied.step for copied in done.copied] == [1]


def test_a_copy_on_its_way_is_none_for_others(bucket: str, state: Path, tmp_path: Path, proxy: Proxy) -> None:
    primary = step_dirs(tmp_path / "P", (10, 20), files=2)
    for step in (10, 20):
        (primary / f"step-{step}" / "big.pt").write_bytes(torch_zip(200 << 10))
        os.utime(primary / f"step-{step}" / "big.pt", (1.7e9, 1.7e9))
    uploaded(primary / "step-10", f"{bucket}/step-10")
    seen: list[list[int]] = []

    def look(request: Request, passing: Passing) -> Answer | None:
        answer = passing(request)
        if request.method == "PUT" and "step-20/big.pt" in request.target:
            held = [step.step for step in planned(run_on(bucket), tmp_path / "other.db").steps]
            seen.append(held)
        return answer

    proxy.fault = look
    done = mirrored(run_on(primary, bucket, last=2), state)

    assert seen == [[10]]
    assert [copied.step for copied in done.copied] == [20]
    assert [key for key in keys(bucket, ours=True) if "arriving" in key] == []


def test_what_a_dead_upload_left_is_sent_again_whole(bucket: str, state: Path, tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (10, 20), files=2)
    uploaded(primary, bucket)
    put(bucket, "step-20/big.pt", b"half of something")
    put(bucket, ".prune/arriving/copyingabc.json", b'{"schema": "prune.arriving/1", "step": 20, "paths": ["step-20"]}')

    before = [step.step for step in planned(run_on(bucket, last=2), state).steps]
    done = mirrored(run_on(primary, bucket, last=2), state)

    assert before == [10]
    assert [copied.step for copied in done.copied] == [20]


def test_a_link_has_no_place_in_a_bucket_and_is_told(bucket: str, state: Path, tmp_path: Path) -> None:
    primary = step_dirs(tmp_path / "P", (10,), files=2)
    os.symlink("rank_0.pt", primary / "step-10" / "optim" / "link")

    done = mirrored(run_on(primary, bucket, last=1), state)

    assert "no plain file" in done.failed[0].error
    assert keys(bucket) == []
