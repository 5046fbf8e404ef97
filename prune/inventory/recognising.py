"""Which layout a run is of: the one its settings name, or the one its roots show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prune.inventory.site import OpenReplica, Site
from prune.model import Attention, Block

if TYPE_CHECKING:
    from prune.layouts.base import Layout
    from prune.layouts.detect import Detection, Places

_OR_ALL = "or let `prune init` on it write a primary that stands for all of them"
_ONE_OR_ALL = f"point at one of them, {_OR_ALL}"
_NEARER = "point at the directory that holds the checkpoints"


def find_layout(site: Site) -> None:
    """The layout the configuration names, or the one the primary shows, or a mirror where it shows none.

    Several places that hold checkpoints, or a search that was cut short, are a block: neither is an empty run.
    """
    from prune import layouts
    from prune.layouts.detect import detect, find_places

    if site.layout is not None:
        return
    name, options = site.run.layout, site.run.layout_options
    shown: list[tuple[OpenReplica, str]] = []
    for replica in site.replicas:
        if replica.root is None:
            continue
        try:
            if name != "auto":
                layout = layouts.get(name, options)
                seen = _of_one_layout(layout, find_places(replica.root, layout))
            else:
                seen = _of_any(detect(replica.root))
        except OSError as error:
            replica.block("listing-incomplete", f"{error.filename or replica.settings.root}: {error.strerror}")
            continue
        if seen.block:
            site.blocks.append(Block(seen.block, replica.name, seen.why))
            return
        if seen.base is not None:
            site.layout, site.base = seen.layout, seen.base
            return
        shown.append((replica, seen.why))
        site.layout = site.layout or seen.layout
    for replica, why in shown:
        if site.layout is None:
            site.attention.append(
                Attention("no-checkpoints", replica.name, f"{replica.settings.root}: {why}",
                          "point at the directory that holds the checkpoints, or name the layout with --layout")
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Found:
    """What one replica shows: a base, or why there is none, or why that cannot be told (a block)."""

    layout: Layout | None
    base: str | None = None
    why: str = ""
    block: str = ""


def _of_one_layout(layout: Layout, places: Places) -> _Found:
    if len(places.bases) == 1 and not places.unsure:
        return _Found(layout, places.bases[0])
    if places.bases:
        shown = ", ".join(places.bases[:5])
        more = f" and {len(places.bases) - 5} more" if len(places.bases) > 5 else ""
        why = f"{layout.title} checkpoints lie in {shown}{more}{places.unsure}: {_ONE_OR_ALL}"
        return _Found(layout, why=why, block="layout-ambiguous")
    why = f"nothing there is named as {layout.name} names checkpoints"
    if places.unsure:
        return _Found(layout, why=f"{why}{places.unsure}: {_NEARER}", block="listing-incomplete")
    return _Found(layout, why=why)


def _of_any(found: Detection) -> _Found:
    if found.layout is not None:
        return _Found(found.layout, found.base)
    if found.places:
        return _Found(None, why=f"{found.why}; {_OR_ALL}", block="layout-ambiguous")
    if found.rivals:
        mend = 'name one with --layout, or layout = "…" in the configuration'
        return _Found(None, why=f"{found.why}; {mend}", block="layout-ambiguous")
    if not found.complete:
        return _Found(None, why=f"{found.why}: {_NEARER}", block="listing-incomplete")
    return _Found(None, why=found.why)
