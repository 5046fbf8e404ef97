"""Stores that answer wrongly, late or not at all: nothing is taken for gone, empty or done that is not."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from prune.deletion import sweep
from prune.model import RunOutcome
from prune.stores.object import client, delete, lock
from prune.stores.object.root import ObjectRoot
from tests.object.proxy import (  # fmt: skip
    Answer,
    Fault,
    Passing,
    Proxy,
    Request,
    delay,
    drop,
    drop_the_answer,
    first,
    only,
    refuse,
    short_page,
    truncate,
    without,
)
from tests.object.store import keys, put, put_all, run_on, step_keys, step_prefixes, uploaded
from tests.runs import applied, deleted_steps, plan_of, planned
from tests.trees.build import torch_zip
from tests.trees.stacks import deepspeed

OUT = 4.0  # seconds: longer than a request may take in these tests


def is_list(request: Request) -> bool:
    return request.is_list


def blocks(outcome: RunOutcome) -> str | None:
    return outcome.blocked.block if outcome.blocked else None


def test_a_listing_that_was_cut_short_blocks_and_nothing_is_deleted(bucket: str, state: Path, proxy: Proxy) -> None:
    put_all(bucket, step_keys(range(1, 31)))
    before = keys(bucket)
    proxy.fault = only(is_list, short_page)

    outcome = applied(run_on(bucket), state)

    assert blocks(outcome) == "listing-incomplete"
    assert "left out" in (outcome.blocked.detail if outcome.blocked else "")
    proxy.forget()
    assert keys(bucket) == before


@pytest.mark.parametrize("fault", [drop, truncate, refuse(503, "SlowDown"), refuse(500, "InternalError"),
                                   refuse(403, "AccessDenied")])  # fmt: skip
def test_a_store_that_cannot_be_listed_blocks(bucket: str, state: Path, proxy: Proxy, fault: Fault) -> None:
    put_all(bucket, step_keys(range(1, 8)))
    before = keys(bucket)
    proxy.fault = only(is_list, fault)

    outcome = applied(run_on(bucket), state)

    assert blocks(outcome) in ("replica-unreachable", "listing-incomplete")
    proxy.forget()
    assert keys(bucket) == before


@pytest.mark.parametrize("fault", [drop, truncate, refuse(503, "SlowDown"), delay(0.3)])
def test_troubles_that_pass_are_waited_out(bucket: str, state: Path, proxy: Proxy, fault: Fault) -> None:
    put_all(bucket, step_keys(range(1, 8)))
    proxy.fault = first(2, lambda request: True, fault)

    outcome = applied(run_on(bucket), state)

    assert deleted_steps(outcome) == [1, 2, 3, 4]


def test_access_denied_is_told_in_words_without_any_secret(bucket: str, state: Path, proxy: Proxy) -> None:
    put_all(bucket, step_keys(range(1, 8)))
    proxy.fault = refuse(403, "AccessDenied")

    plan = planned(run_on(bucket), state)

    assert plan.blocked is not None
    assert "access was denied" in plan.blocked.detail
    assert "AccessDenied" in plan.blocked.detail
    assert "a-key" not in plan.blocked.detail
    assert "a-secret" not in plan.blocked.detail


def test_a_delete_whose_answer_was_lost_is_done_all_the_same(bucket: str, state: Path, proxy: Proxy) -> None:
    put_all(bucket, step_prefixes(range(1, 7)))
    proxy.fault = first(1, lambda request: request.is_bulk_delete, drop_the_answer)

    outcome = applied(run_on(bucket, last=2), state)

    assert deleted_steps(outcome) == [1, 2, 3, 4]
    assert outcome.failed == ()
    assert {key.partition("/")[0] for key in keys(bucket)} == {"step-5", "step-6"}


def test_writes_whose_answers_were_lost_meet_their_own_work(bucket: str, state: Path, proxy: Proxy) -> None:
    put_all(bucket, step_keys(range(1, 8)))
    seen: set[str] = set()

    def lose_each_once(request: Request, passing: Passing) -> Answer | None:
        if request.method == "PUT" and ".prune" in request.target and request.target not in seen:
            seen.add(request.target)
            passing(request)
            return None
        return passing(request)

    proxy.fault = lose_each_once
    outcome = applied(run_on(bucket), state)

    assert len(seen) >= 4
    assert (blocks(outcome), deleted_steps(outcome)) == (None, [1, 2, 3, 4])


def test_what_a_failing_delete_leaves_is_told_and_finished_by_the_next_pass(
    bucket: str, state: Path, proxy: Proxy
) -> None:
    put_all(bucket, step_prefixes(range(1, 7)))
    proxy.fault = only(
        lambda request: request.is_bulk_delete or request.method == "DELETE", refuse(500, "InternalError")
    )
    failed = applied(run_on(bucket, last=2), state)
    proxy.forget()
    there = planned(run_on(bucket, last=2), state)

    again = applied(run_on(bucket, last=2), state)

    assert {copy.step for copy in failed.failed} == {1, 2, 3, 4}
    assert [step.step for step in there.steps] == [5, 6], "what is on its way out is no copy any more"
    assert again.failed == ()
    assert {key.partition("/")[0] for key in keys(bucket)} == {"step-5", "step-6"}
    assert [key for key in keys(bucket, ours=True) if "withdrawn" in key] == []


def test_a_step_uploaded_again_since_the_plan_stays(bucket: str, state: Path) -> None:
    put_all(bucket, step_prefixes(range(1, 7)))
    run = run_on(bucket, last=2)
    reviewed = plan_of(run, state)
    put(bucket, "step-2/rank_1.pt", torch_zip(512, fill=b"again"))

    outcome = applied(run, state, reviewed=reviewed)

    assert deleted_steps(outcome) == [1, 3, 4]
    assert {held.step for held in outcome.guarded} == {2}
    assert len([key for key in keys(bucket) if key.startswith("step-2/")]) == 4


@pytest.mark.usefixtures("conditional_deletes")
def test_a_step_uploaded_again_in_the_moment_of_deleting_stays(bucket: str, state: Path, proxy: Proxy) -> None:
    put_all(bucket, step_keys(range(1, 6)))
    done: list[str] = []

    def upload_first(request: Request, passing: Passing) -> Answer | None:
        if request.method == "DELETE" and "step_0001.pt" in request.target and not done:
            done.append(request.target)
            proxy.fault = lambda request, passing: passing(request)
            put(bucket, "step_0001.pt", torch_zip(1024, fill=b"again"))
        return passing(request)

    proxy.fault = upload_first
    outcome = applied(run_on(bucket), state)

    assert done
    assert [copy.step for copy in outcome.failed] == [1]
    assert "written again" in outcome.failed[0].error
    assert ([copy.step for copy in outcome.deleted], outcome.guarded) == ([2], ())
    assert {"step_0001.pt", "step_0003.pt", "step_0004.pt", "step_0005.pt"} <= set(keys(bucket))
    assert {1, 3, 4, 5} <= {step.step for step in planned(run_on(bucket), state).steps}, "a step like any other"


def test_two_passes_at_once_delete_once(bucket: str, state: Path, tmp_path: Path, proxy: Proxy) -> None:
    put_all(bucket, step_prefixes(range(1, 8)))
    proxy.fault = only(lambda request: request.writes, delay(0.05))
    outcomes: list[RunOutcome] = []

    def work(number: int) -> None:
        outcomes.append(applied(run_on(bucket, last=2), tmp_path / f"{number}.db"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(str(blocks(outcome)) for outcome in outcomes) == ["None", "locked"]
    assert sorted(len(outcome.deleted) for outcome in outcomes) == [0, 5]


def test_a_pass_that_slept_past_its_lease_deletes_nothing_more(
    bucket: str, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_all(bucket, step_keys(range(1, 8)))
    begun = lock.uptime_ns()
    held = lock.ObjectLock.still_held

    def asleep(self: lock.ObjectLock) -> bool:
        monkeypatch.setattr(lock, "uptime_ns", lambda: begun + 600 * 10**9)
        return held(self)

    monkeypatch.setattr(lock.ObjectLock, "still_held", asleep)
    outcome = applied(run_on(bucket), state)

    assert blocks(outcome) == "locked"
    assert len(keys(bucket)) == 7


def test_a_pass_that_was_stopped_between_two_deletes_deletes_nothing_more(
    bucket: str, state: Path, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = step_prefixes(range(1, 7), files=1) | {f"step-{step}/big.pt": torch_zip(80 << 10) for step in range(1, 7)}
    put_all(bucket, files)
    begun = delete.uptime_ns()

    def stopped(request: Request, passing: Passing) -> Answer | None:
        monkeypatch.setattr(delete, "uptime_ns", lambda: begun + 100 * 10**9)
        return passing(request)

    proxy.fault = only(lambda request: request.method == "DELETE", stopped)
    outcome = applied(run_on(bucket, last=2), state)
    proxy.forget()

    assert {copy.step for copy in outcome.failed} == {1, 2, 3, 4}
    assert "stood still" in outcome.failed[0].error
    assert len([key for key in keys(bucket) if key.endswith("big.pt")]) == 6


def test_a_lease_that_ran_out_is_taken_over_and_its_holder_sees_it(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ObjectRoot(f"{bucket}/.prune")
    monkeypatch.setattr(lock, "LEASE_NS", 1)
    sleeper = lock.acquire(folder)
    monkeypatch.setattr(lock, "LEASE_NS", 120 * 10**9)
    threading.Event().wait(1.1)  # the store tells whole seconds

    heir = lock.acquire(folder)

    assert heir.fence == sleeper.fence + 1
    assert heir.still_held()
    assert not sleeper.still_held()
    sleeper.release()
    assert heir.still_held(), "what the sleeper gives back is not the heir's"


def test_a_lock_in_use_is_not_taken(bucket: str) -> None:
    folder = ObjectRoot(f"{bucket}/.prune")

    with lock.acquire(folder), pytest.raises(lock.Held, match="leased by process"):
        lock.acquire(folder)
    lock.acquire(folder).release()


def test_requests_give_up_after_their_time(bucket: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PATIENCE", client.Patience(timeout_s=0.2, retries=1, for_s=1, first_pause_s=0.01))
    client.forget_buckets()
    proxy.fault = delay(OUT)

    with pytest.raises(OSError, match=r"timed out|error sending request|operation"):
        ObjectRoot(bucket).reach()


def test_a_store_that_passes_over_conditions_is_never_deleted_from(bucket: str, state: Path, proxy: Proxy) -> None:
    put_all(bucket, step_keys(range(1, 8)))

    proxy.fault = without("if-none-match")
    outcome = applied(run_on(bucket), state)

    assert blocks(outcome) == "control-unusable"
    assert "conditions" in (outcome.blocked.detail if outcome.blocked else "")
    assert len(keys(bucket)) == 7


def test_a_pointer_that_is_set_back_between_two_batches_keeps_what_it_names(
    bucket: str, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However seldom a large bucket is listed again."""
    for step in range(1, 7):
        deepspeed(tmp_path / "P", step)
    (tmp_path / "P" / "latest").write_text("global_step6")
    uploaded(tmp_path / "P", bucket)
    monkeypatch.setattr(sweep, "FILES_IN_STORE", 1)
    monkeypatch.setattr(sweep, "LOOK_EVERY_NS", 10**15)
    settle = sweep.Sweep._settle

    def then_set_back(self: sweep.Sweep, batch: sweep.Batch) -> None:
        settle(self, batch)
        put(bucket, "latest", b"global_step3")

    monkeypatch.setattr(sweep.Sweep, "_settle", then_set_back)
    outcome = applied(run_on(bucket, last=2), state)

    assert 3 not in deleted_steps(outcome)
    assert any(key.startswith("global_step3/") for key in keys(bucket))
