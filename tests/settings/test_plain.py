"""A run's settings written as a table are read back as the same run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prune.settings.keys import Where
from prune.settings.plain import run_table
from prune.settings.runs import Source, read_run
from prune.settings.schema import Best, Guards, Keep, Pressure, ReplicaSettings, RunSettings, Share

counts = st.integers(1, 10_000)
times = st.integers(1, 10**18)
maybe = lambda strategy: st.none() | strategy  # noqa: E731
keeps = st.builds(
    Keep,
    last=counts,
    every=maybe(counts),
    every_time=maybe(times),
    within=maybe(times),
    hourly=maybe(counts),
    daily=maybe(counts),
    weekly=maybe(counts),
    best=maybe(st.builds(Best, st.sampled_from(["eval_loss", "a:b"]), st.sampled_from(["min", "max"]), counts)),
    full=maybe(counts),
)
guards = st.builds(
    Guards,
    in_flight=st.integers(0, 10**15),
    verify=st.sampled_from(["newest", "off"]),
    max_delete=maybe(counts | st.sampled_from([Share(75.0), Share(12.5)])),
)
mirrors = st.lists(
    st.builds(
        ReplicaSettings,
        name=st.just("mirror"),
        root=st.sampled_from(["/mnt/b", "s3://bucket/tiny"]),
        role=st.just("mirror"),
        optional=st.booleans(),
        max_lag_steps=maybe(counts),
        free_space=st.sampled_from(["auto", "none"]),
        mountpoint=st.booleans(),
        capacity=maybe(counts),
    ),
    max_size=1,
)


@given(keeps, guards, mirrors, maybe(keeps), times, maybe(times))
def test_a_run_survives_being_written_as_a_table(keep, guards, mirrors, final, grace, finished_after):
    pressure = Pressure(Share(10.0), Share(20.0), 1)
    primary = ReplicaSettings("primary", "/data/a", "primary", control="/data/ctl")
    run = RunSettings(
        "tiny", (primary, *mirrors), keep, guards, pressure, "custom", {"pattern": "m-{step}"}, None, grace, final,
        finished_after,
    )  # fmt: skip
    assert read_run(run_table(run), Source(Where("plan"), "/")) == run
