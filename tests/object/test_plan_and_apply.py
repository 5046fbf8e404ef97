"""Plans of roots in a bucket, and plans carried out there."""

from __future__ import annotations

from pathlib import Path

from tests.object.proxy import Proxy
from tests.object.store import keys, put_all, run_on, step_keys, step_prefixes
from tests.runs import applied, deleted_steps, planned


def test_a_prefix_of_lone_objects_is_planned_and_pruned(bucket: str, state: Path) -> None:
    root = f"{bucket}/runs/tiny"
    put_all(root, step_keys(range(1, 9)))
    run = run_on(root)

    plan = planned(run, state)
    outcome = applied(run, state)

    assert (plan.cutoff, [step.step for step in plan.victims]) == (6, [1, 2, 3, 4, 5])
    assert deleted_steps(outcome) == [1, 2, 3, 4, 5]
    assert keys(root) == ["step_0006.pt", "step_0007.pt", "step_0008.pt"]
    assert outcome.failed == ()


def test_prefixes_of_many_objects_are_pruned_whole(bucket: str, state: Path) -> None:
    put_all(bucket, step_prefixes(range(1, 7)))

    outcome = applied(run_on(bucket, last=2), state)

    assert deleted_steps(outcome) == [1, 2, 3, 4]
    assert {key.partition("/")[0] for key in keys(bucket)} == {"step-5", "step-6"}


def test_a_preview_writes_nothing(bucket: str, state: Path, proxy: Proxy) -> None:
    put_all(bucket, step_keys(range(1, 6)))
    proxy.forget()

    planned(run_on(bucket), state)

    assert [request for request in proxy.seen if request.writes] == []
