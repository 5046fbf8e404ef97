"""What a pass costs: requests follow thousands of objects, not each of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from prune.deletion import sweep
from prune.stores.object.client import Object
from prune.stores.object.control import ObjectControl
from tests.object.proxy import Proxy
from tests.object.store import keys, put_all, run_on, step_prefixes
from tests.runs import applied, planned


def small(count: int) -> dict[str, bytes]:
    return {f"step_{step:05d}.pt": b"\x80\x02}q\x00.%d" % step for step in range(1, count + 1)}


def test_a_thousand_victims_go_in_bulk(bucket: str, state: Path, proxy: Proxy) -> None:
    put_all(bucket, small(1003))
    proxy.forget()

    outcome = applied(run_on(bucket), state)

    assert len(outcome.deleted) == 1000
    assert len(keys(bucket)) == 3
    bulk = [request for request in proxy.seen if request.is_bulk_delete]
    assert sum(request.body.count(b"<Key>step_") for request in bulk) == 1000
    assert max(request.body.count(b"<Key>") for request in bulk) <= 1000
    assert len(proxy.seen) < 60


def test_nothing_is_written_after_the_lock_was_given_back(bucket: str, state: Path, proxy: Proxy) -> None:
    put_all(bucket, small(9))
    proxy.forget()

    applied(run_on(bucket), state)

    assert [request.target for request in proxy.seen if request.writes][-1].endswith("/.prune/lock")


def test_a_pass_with_nothing_to_do_writes_nothing(bucket: str, state: Path, proxy: Proxy) -> None:
    put_all(bucket, small(9))
    applied(run_on(bucket), state)
    proxy.forget()

    applied(run_on(bucket), state)

    assert [request.target for request in proxy.seen if request.writes] == []


def test_a_preview_asks_for_pages_and_reads_what_is_kept(bucket: str, state: Path, proxy: Proxy) -> None:
    put_all(bucket, step_prefixes(range(1, 60), files=20))
    proxy.forget()

    planned(run_on(bucket, last=2), state)

    kept = 2 * 21  # objects whose heads tell whether they are whole
    assert len(proxy.seen) < 2 * kept + 20, "of 1,239 objects"


def test_no_more_objects_are_held_in_mind_than_a_batch_of_them(
    bucket: str, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "FILES_IN_STORE", 100)
    put_all(bucket, step_prefixes(range(1, 25), files=20))
    held: list[int] = []
    note_keys = ObjectControl.note_keys

    def noted(control: ObjectControl, id: str, found: Mapping[str, Object]) -> None:
        note_keys(control, id, found)
        held.append(sum(len(fresh) for fresh in control._fresh.values()))

    monkeypatch.setattr(ObjectControl, "note_keys", noted)
    outcome = applied(run_on(bucket, last=4), state)

    assert len(outcome.deleted) == 20
    assert len(held) == 20
    assert max(held) <= 100, "of 420 objects"
    assert len({key.partition("/")[0] for key in keys(bucket) if key.startswith("step")}) == 4
