"""Whose an event is: runs in different places may bear one name, and none answers for what another deleted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from prune.journal.base import Event, Journal
from prune.settings.roots import is_url

if TYPE_CHECKING:
    from prune.inventory.site import Site

MARKS = ("root", "volume")


def marking(journal: Journal, site: Site) -> Journal:
    """A journal in front of another that notes with each event the primary's root, its mount and its volume's id."""
    return cast(Journal, _Marking(journal, site))


def of_one_run(events: Iterable[Event], root: str, volume: str | None) -> list[Event]:
    """Those of the run whose primary is this root, or this volume wherever it was then; and those that tell neither."""
    place = place_of(root)
    return [event for event in events if _fits(event, place, volume)]


def place_of(root: str) -> str:
    """A root by the path it really leads to."""
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
        marks = {"root": place_of(primary.settings.root)}
        if primary.volume is not None:
            marks["volume"] = primary.volume.id
        if primary.mount is not None:
            marks["mount"] = primary.mount.point
        self.journal.add([replace(event, data={**event.data, **marks}) for event in events])
