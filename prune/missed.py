"""What history misses: a run without any checkpoint whose disks may all be unmounted at once."""

from __future__ import annotations

from dataclasses import replace

from prune.inventory.site import Site
from prune.journal import Journal
from prune.journal.own import place_of
from prune.model import Block, Inventory
from prune.report.times import iso

_ABOUT_COPIES = ("deleted", "undone", "fallback", "damage", "mirrored", "published", "sealed")
_MANY = 1000


def missed(journal: Journal, site: Site) -> str | None:
    """For a run without any checkpoint: a sentence where history tells of some on another mount by the same path.

    A root that has a record of its own, such as a volume adopted as a new one, speaks for itself. On the mount that it
    was on before, an empty root without any is one that somebody emptied to begin anew.
    """
    primary = site.primary
    if primary.volume is not None or primary.mount is None:
        return None
    place = place_of(primary.settings.root)
    events = journal.history(site.run.name, kinds=_ABOUT_COPIES, limit=_MANY)
    last = next((event for event in events if event.step is not None and event.data.get("root") == place), None)
    before = None if last is None else last.data.get("mount")
    if last is None or before is None or before == primary.mount.point:
        return None
    return (
        f"{primary.settings.root} holds no checkpoint and no record of any, and history tells of step {last.step} "
        f"there ({last.kind}, {iso(last.at_ns)}), when {before} was mounted: is its disk mounted?"
    )


def with_what_is_missed(site: Site, inventory: Inventory, journal: Journal) -> Inventory:
    """Where every disk is gone at once no replica is left to tell of another: history does."""
    detail = None if inventory.copies else missed(journal, site)
    if detail is None:
        return inventory
    name = site.primary.name
    block = Block("replica-vanished", name, f"{detail} If it is a new, empty volume: prune adopt {name}")
    return replace(inventory, blocks=(*inventory.blocks, block))
