"""Keys that no file system would hold, and names of which one goes on where another ends."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from urllib.parse import quote

import pytest

from prune.stores.object.look import found_now
from prune.stores.object.root import ObjectRoot
from tests.object.store import keys, put_all, run_on, step_prefixes
from tests.runs import applied, deleted_steps


@pytest.mark.parametrize("odd", ["step-1//rank_0.pt", "step-1/../rank_0.pt", "notes/./x"])
def test_a_key_that_no_path_can_stand_for_blocks_and_is_named(
    bucket: str, state: Path, s3_server: str, odd: str
) -> None:
    put_all(bucket, step_prefixes(range(1, 7)))
    url = f"{s3_server}/{bucket.removeprefix('s3://')}/{quote(odd)}"
    urllib.request.urlopen(urllib.request.Request(url, data=b"x", method="PUT"))

    outcome = applied(run_on(bucket), state)

    assert outcome.deleted == ()
    assert outcome.blocked is not None
    assert (outcome.blocked.block, outcome.blocked.replica) == ("listing-incomplete", "primary")
    assert f"it holds '{odd}'" in outcome.blocked.detail
    assert "rename that object, or delete it" in outcome.blocked.detail


def test_spaces_letters_and_signs_in_keys_are_taken_as_they_are(bucket: str, state: Path) -> None:
    url = f"{bucket}/run é (1)"
    odd = {f"step-{step}/{name}": b"x" for step in range(1, 6)
           for name in ("a b/ü ñ.pt", "a%2Fb+c&d=e?.bin", "'q\".txt", "#1", "step-9/x")}  # fmt: skip
    put_all(url, {**step_prefixes(range(1, 6)), **odd})

    assert deleted_steps(applied(run_on(url, last=2), state)) == [1, 2, 3]
    assert {key.partition("/")[0] for key in keys(url)} == {"step-4", "step-5"}
    assert len(keys(url)) == 2 * 9


def test_a_folder_is_found_beside_names_that_begin_as_it_does(bucket: str) -> None:
    """A store lists ``step-1-old/`` and ``step-1.json`` before ``step-1/``."""
    put_all(bucket, {"step-1/a.pt": b"1", "step-1/b.pt": b"2", "step-1.json": b"3", "step-1-old/a.pt": b"4"})

    beside, old = found_now(ObjectRoot(bucket), [["step-1", "step-1.json"], ["step-1-old"]])

    assert sorted(beside) == ["step-1.json", "step-1/a.pt", "step-1/b.pt"]
    assert list(old) == ["step-1-old/a.pt"]
