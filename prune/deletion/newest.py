"""The newest kept step is checked by content before the first delete; where it fails, less is deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from prune.inventory.content import checked, content_verdict
from prune.inventory.site import Site
from prune.journal import Event, Journal
from prune.model import Copy, Decision, Health, Inventory, RunPlan
from prune.settings.schema import RunSettings

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
    while plan.victims and site.run.guards.verify == "newest":
        target = _newest_unchecked(plan, site.run)
        if target is None:
            return inventory, plan
        progress("verifying", 0, len(target))
        found = {copy.replica: check_copy(site, copy, journal, now_ns) for copy in target}
        copies = {step: dict(of_step) for step, of_step in inventory.copies.items()}
        copies[target[0].step].update(found)
        inventory = replace(inventory, copies=copies)
        plan = planned(inventory)
        if all(copy.health is not Health.BROKEN for copy in found.values()):
            return inventory, plan
    return inventory, plan


def _newest_unchecked(plan: RunPlan, run: RunSettings) -> list[Copy] | None:
    """The restorable copies of the newest kept step, None where they have all been checked by content."""
    required = {replica.name for replica in plan.replicas if replica.required}
    for step in reversed(plan.steps):
        if step.decision is Decision.DELETE:
            continue
        copies = [c for c in step.copies if c.replica in required and c.health is not None and c.health.restorable]
        if copies:
            unchecked = [copy for copy in copies if copy.verified_ns is None]
            return unchecked or None
    return None


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
