"""The blocks: what sets each off, what does not, and in which order they stand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prune.guards.blocks import SEVERITY
from prune.model import Block, Decision, Inventory, Pointer, PointerState
from prune.settings.schema import Share
from tests.inventories import CLOUD, MIRROR, Case, blocks, case, gone, held, kinds, stays, temporary

STEPS = [100, 200, 300, 400]


def run() -> Case:
    return case(STEPS, STEPS, STEPS)


def test_a_blocked_run_deletes_nothing_and_shows_what_policy_would() -> None:
    plan = run().but(blocks=(Block("locked", "primary", "by another prune"),)).plan()
    assert gone(plan) == []
    assert stays(plan) == [300, 400]
    assert held(plan) == {100: ["blocked"], 200: ["blocked"]}
    assert plan.steps[0].guards[0].detail == "locked: by another prune"


def test_guards_are_told_beside_the_block() -> None:
    plan = run().but(blocks=(Block("locked", None, "…"),), best_recorded=100).plan()
    assert held(plan) == {100: ["referenced", "blocked"], 200: ["blocked"]}


def test_the_worst_block_is_told_first() -> None:
    met = tuple(Block(block, "primary", "…") for block in reversed(SEVERITY))
    plan = run().but(blocks=met).plan()
    assert blocks(plan) == list(SEVERITY)
    assert plan.blocked == Block("volume-changed", "primary", "…")


def test_a_block_that_is_not_known_here_counts_as_the_worst() -> None:
    assert (
        blocks(run().but(blocks=(Block("volume-changed", None, ""), Block("meteor", None, ""))).plan())[0] == "meteor"
    )


def test_orphans_stay_while_the_run_is_blocked() -> None:
    old = temporary(50, at=run().now_ns - 2 * 86_400 * 1_000_000_000)
    assert run().but(temporaries=(old,)).plan().orphans[0].decision is Decision.DELETE
    blocked = run().but(temporaries=(old,), blocks=(Block("locked", None, ""),)).plan()
    assert (blocked.orphans[0].decision, blocked.orphans[0].reason) == (Decision.KEEP, "blocked")


# Replicas.


@pytest.mark.parametrize(
    ("change", "block"),
    [
        ({"listed": False}, "replica-unreachable"),
        ({"read_only": True}, "read-only"),
        ({"free_bytes": None}, "free-space-unknown"),
        ({"total_bytes": None}, "free-space-unknown"),
        ({"total_bytes": 0}, "free-space-unknown"),
    ],
)
@pytest.mark.parametrize("name", ["primary", "mirror"])
def test_trouble_with_a_required_replica_blocks_the_run(name: str, change: dict[str, object], block: str) -> None:
    plan = run().replica(name, **change).plan()
    assert blocks(plan) == [block]
    assert plan.blocks[0].replica == name
    assert gone(plan) == []


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"listed": False}, "replica-unreachable"),
        ({"read_only": True}, "read-only"),
        ({"free_bytes": None}, "free-space-unknown"),
    ],
)
def test_the_same_trouble_with_an_optional_mirror_is_only_told(change: dict[str, object], kind: str) -> None:
    plan = run().replica("cloud", **change).plan()
    assert blocks(plan) == []
    assert kinds(plan) == [kind]
    assert gone(plan) == [100, 200]


def test_on_an_optional_mirror_that_is_read_only_nothing_is_taken() -> None:
    plan = case([300, 400], [300, 400], STEPS).keeping(last=1).replica("cloud", read_only=True).plan()
    assert [(step.step, list(step.bytes)) for step in plan.victims] == [(300, ["primary", "mirror"])]
    assert held(plan) == {100: ["blocked"], 200: ["blocked"]}


@pytest.mark.parametrize("change", [{"free_bytes": 0}, {"free_inodes": None, "total_inodes": 0}])
def test_a_full_volume_or_one_that_counts_no_inodes_does_not_block(change: dict[str, object]) -> None:
    assert blocks(run().replica("primary", **change).plan()) == []


def test_a_volume_declared_to_have_no_figures_does_not_block() -> None:
    blind = run().replica("mirror", free_bytes=None, total_bytes=None)
    declared = tuple(replace(s, free_space="none") if s == MIRROR else s for s in blind.run.replicas)
    assert blocks(replace(blind, run=replace(blind.run, replicas=declared)).plan()) == []


def test_an_object_store_has_no_free_space_and_that_is_no_block() -> None:
    assert blocks(run().replica("mirror", root="s3://bucket/run", free_bytes=None, total_bytes=None).plan()) == []


def test_a_replica_that_was_found_in_trouble_already_is_not_blocked_twice() -> None:
    met = Block("replica-vanished", "mirror", "held 46 steps before, now none")
    assert run().replica("mirror", listed=False).but(blocks=(met,)).plan().blocks == (met,)


def test_a_required_replica_that_was_never_looked_at_blocks() -> None:
    found = run()
    forgotten = tuple(replica for replica in found.inventory.replicas if replica.name != "mirror")
    assert blocks(found.but(replicas=forgotten).plan()) == ["replica-unreachable"]
    without_cloud = tuple(replica for replica in found.inventory.replicas if replica.name != CLOUD.name)
    assert blocks(found.but(replicas=without_cloud).plan()) == []


@pytest.mark.parametrize("inventory", [Inventory("run", "none", (), {}), Inventory("run", "none", (), {100: {}})])
def test_an_inventory_of_nothing_yields_a_blocked_plan(inventory: Inventory) -> None:
    plan = replace(run(), inventory=inventory).plan()
    assert blocks(plan) == ["replica-unreachable", "replica-unreachable"]
    assert plan.steps == ()


def test_an_inventory_without_a_primary_yields_a_blocked_plan() -> None:
    plan = run().replica("primary", role="mirror").plan()
    assert blocks(plan) == ["replica-unreachable"]
    assert gone(plan) == []


# Pointers.


def test_a_pointer_that_cannot_be_read_blocks_and_a_dangling_one_is_told() -> None:
    unreadable = Pointer("mirror", "latest", None, PointerState.UNREADABLE, "empty, written moments ago")
    plan = run().but(pointers=(unreadable,)).plan()
    assert plan.blocks == (Block("pointer-unreadable", "mirror", "latest: empty, written moments ago"),)
    dangling = run().but(pointers=(Pointer("mirror", "latest", 900, PointerState.DANGLING),)).plan()
    assert (blocks(dangling), kinds(dangling)) == ([], ["pointer-dangling"])


def test_an_unreadable_pointer_on_an_optional_mirror_is_only_told() -> None:
    plan = run().but(pointers=(Pointer("cloud", "latest", None, PointerState.UNREADABLE),)).plan()
    assert (blocks(plan), kinds(plan)) == ([], ["pointer-unreadable"])


# The brake.


@pytest.mark.parametrize(
    ("limit", "blocked"), [(None, False), (2, False), (1, True), (0, True), (Share(50.0), False), (Share(49.9), True)]
)
def test_the_brake_holds_a_pass_that_would_take_more_than_it_allows(limit: int | Share | None, blocked: bool) -> None:
    plan = run().guarding(max_delete=limit).plan()
    assert blocks(plan) == (["too-many"] if blocked else [])
    assert held(plan) == ({100: ["blocked"], 200: ["blocked"]} if blocked else {})


def test_the_brake_goes_by_the_replica_that_loses_most() -> None:
    plan = case(range(100, 1100, 100), [800, 900, 1000]).keeping(last=2).guarding(max_delete=Share(50.0)).plan()
    assert [(block.block, block.replica) for block in plan.blocks] == [("too-many", "primary")]
    assert "8 of 10" in plan.blocks[0].detail


def test_lowering_n_from_thirty_to_two_takes_twenty_eight_only_past_the_brake() -> None:
    thirty = case(range(100, 3100, 100)).keeping(last=2).guarding(max_delete=Share(75.0))
    assert blocks(thirty.plan()) == ["too-many"]
    assert "--allow-many" in thirty.plan().blocks[0].detail
    assert len(gone(thirty.plan(allow_many=True))) == 28


def test_what_guards_hold_does_not_count_against_the_brake() -> None:
    assert gone(run().guarding(max_delete=1).but(best_recorded=100).plan()) == [200]
