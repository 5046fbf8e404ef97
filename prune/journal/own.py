"""Whose an event is: runs in different places may bear one name, and none answers for what another deleted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from prune.journal.base import Event, Journal
from prune.model import Block, Inventory
from prune.report.times import iso
from prune.settings.roots import is_url

if TYPE_CHECKING:
    from prune.inventory.site import Site

MARKS = ("root", "volume")
ABOUT_COPIES = ("deleted", "undone", "fallback", "damage", "mirrored", "published", "sealed")
MANY = 1000


def marking(journal: Journal, site: Site) -> Journal:
    """A journal in front of another that notes with each event the primary's root, its mount and its volume's id."""
    return cast(Journal, _Marking(journal, site))


def of_one_run(events: Iterable[Event], root: str, volume: str | None) -> list[Event]:
    """Those of the run whose primary is this root, or this volume wherever it was then; and those that tell neither."""
    place = _place(root)
    return [event for event in events if _fits(event, place, volume)]


def missed(journal: Journal, site: Site) -> str | None:
    """For a run without any checkpoint: a sentence where history tells of some on another mount by the same path.

    A root that has a record of its own, such as a volume adopted as a new one, speaks for itself. On the mount that it
    was on before, an empty root without any is one that somebody emptied to begin anew.
    """
    primary = site.primary
    if primary.volume is not None or primary.mount is None:
        return None
    place = _place(primary.settings.root)
    events = journal.history(site.run.name, kinds=ABOUT_COPIES, limit=MANY)
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


def _place(root: str) -> str:
    return root if is_url(root) else os.path.realpath(root)


def _fits(event: Event, root: str, volume: str | None) -> bool:
    was_root, was_volume = (event.data.get(mark) for mark in MARKS)
    if was_root is None and was_volume is None:
        return True
    return was_root == root or (volume is not None and was_volume == volume)


@dataclass(frozen=True)
class _Marking:
    journal: Journal
    site: Site

    def __getattr__(self, name: str) -> Any:
        return getattr(self.journal, name)

    def add(self, events: Sequence[Event]) -> None:
        primary = self.site.primary
        marks = {"root": _place(primary.settings.root)}
        if primary.volume is not None:
            marks["volume"] = primary.volume.id
        if primary.mount is not None:
            marks["mount"] = primary.mount.point
        self.journal.add([replace(event, data={**event.data, **marks}) for event in events])
