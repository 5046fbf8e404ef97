"""Many runs at a glance."""

from __future__ import annotations

from dataclasses import replace

from prune.model import Attention, Block, Decision, Replica
from prune.report.fleet import SHOWN, Fleet
from prune.report.render import plain
from tests.report.plans import GIB, NOW, copy, run_plan, step

LATE = Attention("mirror-behind", "mirror", "three steps", "prune mirror")


def run(name: str, *steps, **more):
    return replace(run_plan(*steps, **more), run=name)


def fleet(*plans) -> Fleet:
    found = Fleet()
    for plan in plans:
        found.add(plan)
    return found


def test_the_worst_come_first_blocked_then_in_trouble_then_with_most_to_win():
    runs = fleet(
        run("well", step(1)),
        run("a-little", step(1, Decision.DELETE)),
        run("a-lot", step(1, Decision.DELETE), step(2, Decision.DELETE)),
        run("late", step(1), attention=(LATE,)),
        run("stuck", step(1), blocks=(Block("read-only", "mirror", "so"),)),
    )
    assert [row.run for row in runs.worst_first()] == ["stuck", "late", "a-lot", "a-little", "well"]


def test_volumes_are_summed_by_device_whatever_runs_lie_there():
    on_other = (replace(copy(5), identity=replace(copy(5).identity, dev=9)),)
    runs = fleet(
        run("one", step(1, Decision.DELETE, copies=(copy(1),))),
        run("two", step(1, copies=(copy(1),)), step(2, Decision.DELETE, copies=(copy(2),))),
        run("three", step(5, copies=on_other)),
    )
    shared = runs.volumes["device", 1]
    assert (shared.runs, shared.held, shared.freed) == (2, 3 * GIB, 2 * GIB)
    assert len(runs.volumes) == 3  # that device, the other, and the mirrors of which nothing is known


def test_a_volume_is_called_by_what_its_roots_have_in_common():
    def at(name, root):
        return replace(run(name, step(1, copies=(copy(1),))), replicas=(Replica("primary", "primary", root),))

    runs = fleet(at("a", "/lustre/ckpt/a"), at("b", "/lustre/ckpt/b"))
    assert [volume["place"] for volume in runs.volumes_to_json()] == ["/lustre/ckpt"]


def test_buckets_are_volumes_too():
    bucket = Replica("primary", "primary", "s3://bucket/runs/a")
    runs = fleet(replace(run("a", step(1, copies=(copy(1),))), replicas=(bucket,)))
    assert [volume["place"] for volume in runs.volumes_to_json()] == ["s3://bucket"]


def test_the_report_shows_what_tells_and_counts_the_rest():
    quiet = [run(f"quiet-{number}", step(1)) for number in range(5)]
    loud = [run(f"loud-{number:03}", step(1, Decision.DELETE)) for number in range(SHOWN + 3)]
    text = plain(fleet(*quiet, *loud).report(now_ns=NOW))
    assert f"{SHOWN + 8} runs: {SHOWN + 3} steps of {SHOWN + 3} runs would go" in text
    assert "8 more runs; --verbose shows all" in text
    assert "quiet-0" not in text
    assert "quiet-0" in plain(fleet(*quiet, *loud).report(now_ns=NOW, all_rows=True))


def test_what_concerns_the_whole_fleet_is_told_in_full_and_once():
    over = Attention("over-budget", None, "the volume of /a keeps 2 GiB, 1 GiB over its 1 GiB", "raise the budget")
    lowered = "budget: the fleet keeps to 1 GiB for the volume of /a, so keep.last is 1 here"
    told = plain(fleet(
        run("one", step(1), attention=(over,), notes=(lowered,)),
        run("two", step(1), notes=(lowered,)),
        run("three", step(1), notes=("finished: no new step for 30 days",)),
    ).report(now_ns=NOW))  # fmt: skip
    assert told.count("over-budget: the volume of /a keeps 2 GiB, 1 GiB over its 1 GiB") == 1
    assert "→ raise the budget" in told
    assert "note: 2 runs keep fewer steps than their keep.last, to share a budget" in told
    assert "note: 1 run is finished and falls to its final policy" in told
