"""What is left on a target of a copy whose payload is gone: sidecars alone. It gives way as a damaged copy does.

A person removes a bad file and not its ``.sha256``; a copier dies between two names. Such files belong to no copy, are
in the way of the next one, and would speak of bytes that they were not made of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from prune.inventory.copies import listed_copy
from prune.inventory.site import OpenReplica, Site
from prune.mirror.order import Order
from prune.model import Copy, Health


@dataclass(frozen=True, slots=True)
class Aims:
    """Orders that may be carried out, and those that wait because somebody may be writing where they lead."""

    orders: list[Order]
    waiting: list[Order]


def over_remains(site: Site, orders: Iterable[Order], *, now_ns: int) -> Aims:
    """The orders, each replacing what is left of an earlier copy where there is such."""
    aims = Aims([], [])
    for order in orders:
        left = _remains(site, site.by_name(order.target), order)
        if left is None:
            aims.orders.append(order)
        elif left.mtime_ns is None or left.mtime_ns > now_ns - site.run.guards.in_flight:
            aims.waiting.append(replace(order, replaces=left))
        else:
            aims.orders.append(replace(order, replaces=left))
    return aims


def in_the_way(order: Order, error: FileExistsError) -> str:
    """The sentence for what stands under a name that a copy needs, and may not be moved."""
    taken = error.filename2 or order.name
    return f"{order.name}: {taken} is in the way on {order.target}, part of no checkpoint there; move it away"


def _remains(site: Site, target: OpenReplica, order: Order) -> Copy | None:
    if order.replaces is not None or order.pointer or target.in_store:
        return None
    claims = target.listing.remains.get(order.step) if target.listing is not None else None
    if not claims or site.layout is None:
        return None
    left = listed_copy(target, site.layout, order.step, claims)
    if left is None or left.link is not None or left.health is not None:
        return None  # nothing any more, or nothing that may be moved: publishing says what is in the way
    return replace(left, health=Health.BROKEN, detail="what it belongs to is not there")
