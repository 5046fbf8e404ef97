"""What a pass remembers in the control folders for the next one: a rewind, and what was seen to stand still."""

from __future__ import annotations

from prune.evidence import has_unknown_mtime
from prune.inventory.site import OpenReplica, Site
from prune.model import Attention, Inventory, RunPlan

Memory = dict[str, object]


def memories_to_write(site: Site, plan: RunPlan, inventory: Inventory, now_ns: int) -> list[tuple[str, str, Memory]]:
    """Memories, as (replica, name, content), that differ from those on disk."""
    wanted = [(site.primary, "rewound", _rewound(plan))]
    wanted += [(replica, "observed", _observed(site, replica, inventory, now_ns)) for replica in site.replicas]
    return [
        (replica.name, name, content)
        for replica, name, content in wanted
        if replica.usable and replica.control is not None and _on_disk(replica, name) != content
    ]


def write_memories(site: Site, plan: RunPlan, inventory: Inventory, now_ns: int) -> list[Attention]:
    """Writes them; what cannot be written is told."""
    notes = []
    for replica_name, name, content in memories_to_write(site, plan, inventory, now_ns):
        control = site.by_name(replica_name).control
        assert control is not None
        try:
            control.remember(name, content)
        except OSError as error:
            detail = f"{control.path}/{name}.json: {error.strerror}"
            notes.append(Attention("state", replica_name, detail, "free some room there"))
    return notes


def _rewound(plan: RunPlan) -> Memory:
    return {} if plan.rewound_since_ns is None else {"since_ns": plan.rewound_since_ns}


def _observed(site: Site, replica: OpenReplica, inventory: Inventory, now_ns: int) -> Memory:
    """Since when each copy without a time of its own has stood as it stands."""
    if site.run.guards.unknown_mtime != "observe":
        return {}
    found: Memory = {}
    for step in inventory.steps:
        copy = inventory.copies[step].get(replica.name)
        if copy is None or copy.listed is None or not has_unknown_mtime(copy):
            continue
        since = inventory.observed_ns.get((step, replica.name), now_ns)
        top = copy.listed
        found[str(step)] = [since, top.dev, top.ino, top.size, top.mtime_ns, top.ctime_ns]
    return found


def _on_disk(replica: OpenReplica, name: str) -> Memory | None:
    assert replica.control is not None
    try:
        return replica.control.remembered(name)
    except (OSError, ValueError):
        return None
