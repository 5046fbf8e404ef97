"""Shards divide a fleet: each run in exactly one, and a new run moves no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune.errors import UsageError
from prune.settings.schema import ReplicaSettings, RunSettings, Settings
from prune.settings.shards import parse_shard, shard, shard_of


def fleet(names: list[str]) -> Settings:
    return Settings(tuple(RunSettings(name, (ReplicaSettings("primary", f"/r/{name}", "primary"),)) for name in names))


@given(st.lists(st.text(min_size=1), unique=True), st.integers(1, 9))
def test_every_run_is_in_exactly_one_shard(names, count):
    shards = [shard(fleet(names), index, count) for index in range(1, count + 1)]
    assert sorted(run.name for settings in shards for run in settings.runs) == sorted(names)


def test_a_shard_depends_on_the_name_alone():
    alone = {name: shard_of(name, 4) for name in ("tiny", "big", "a\udcff")}
    among = {run.name: index for index in range(1, 5) for run in shard(fleet([*alone, "new"]), index, 4).runs}
    assert alone.items() <= among.items()
    assert {shard_of(f"run-{number}", 4) for number in range(100)} == {1, 2, 3, 4}


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "a/b", "-1/2", "1/0", "1/2/3"])
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(UsageError):
        parse_shard(text)
    assert parse_shard("2/8") == (2, 8)
