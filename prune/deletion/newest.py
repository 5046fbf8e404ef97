"""The newest kept step is checked by content before the first delete; where it fails, less is deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from prune.inventory.content import checked, content_verdict
from prune.inventory.site import Site
from prune.journal import Event, Journal
from prune.model import Copy, Decision, Health, Inventory, RunPlan, Verdict

Progress = Callable[[str, int, int], None]


def check_newest(
    site: Site,
    inventory: Inventory,
    plan: RunPlan,
    planned: Callable[[Inventory], RunPlan],
    journal: Journal,
    now_ns: int,
    progress: Progress,
) -> tuple[Inventory, RunPlan]:
    """The inventory with what was found, and the plan that follows from it.

    Goes down from the newest kept step until one passes or cannot be checked; results are remembered by identity.
    """
    while (plan.victims or plan.thinned) and site.run.guards.verify == "newest":
        copies = _newest_copies(plan)
        _note_checked(site, copies, journal)
        target = [copy for copy in copies if copy.verified_ns is None]
        if not target:
            return inventory, plan
        progress("verifying", 0, len(target))
        found = {copy.replica: check_copy(site, copy, journal, now_ns) for copy in target}
        every = {step: dict(of_step) for step, of_step in inventory.copies.items()}
        every[target[0].step].update(found)
        inventory = replace(inventory, copies=every)
        plan = planned(inventory)
        if all(copy.health is not Health.BROKEN for copy in found.values()):
            return inventory, plan
    return inventory, plan


def _newest_copies(plan: RunPlan) -> list[Copy]:
    """The restorable copies, on required replicas, of the newest kept step that has any."""
    required = {replica.name for replica in plan.replicas if replica.required}
    for step in reversed(plan.steps):
        if step.decision is Decision.DELETE:
            continue
        copies = [c for c in step.copies if c.replica in required and c.health is not None and c.health.restorable]
        if copies:
            return copies
    return []


def _note_checked(site: Site, copies: list[Copy], journal: Journal) -> None:
    """What was read in full while it was looked at counts as checked from now on."""
    for copy in copies:
        root = site.by_name(copy.replica).root
        if root is None or copy.verified_ns is None:
            continue
        if journal.evidence(root.real, copy.paths, copy.identity) is None:
            verdict = Verdict(Health.INTACT, copy.detail)
            journal.verified(root.real, copy.paths, copy.identity, verdict, copy.verified_ns)


def check_copy(site: Site, copy: Copy, journal: Journal, now_ns: int) -> Copy:
    """The copy with the health that reading all of it gives; damage is remembered and told."""
    replica = site.by_name(copy.replica)
    assert site.layout is not None
    verdict, identity = content_verdict(replica, site.layout, copy)
    if verdict.health in (Health.INTACT, Health.BROKEN) and replica.root is not None:
        journal.verified(replica.root.real, copy.paths, identity, verdict, now_ns)
    if verdict.health is Health.BROKEN:
        journal.add([Event(now_ns, site.run.name, "damage", copy.step, copy.replica, data={"detail": verdict.detail})])
    return checked(copy, verdict, identity, now_ns)
