"""Cheap signs that something happened at a run's roots while a pass is at work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from prune.deletion import objects
from prune.inventory.site import Site
from prune.model import Inventory
from prune.stores.base import FileStat


@dataclass(frozen=True, slots=True)
class Signs:
    """Two that are equal: nobody did anything that would show."""

    shared: tuple[object, ...] = ()  # what changes when others act, and when we do
    foreign: tuple[object, ...] = ()  # what only others change: pointers, pins, leases, who the volumes are


def signs(site: Site, inventory: Inventory) -> Signs:
    """As they are now."""
    shared: list[object] = []
    foreign: list[object] = []
    for replica in site.replicas:
        if not replica.usable or replica.root is None or replica.control is None:
            continue
        foreign.append(replica.root.still_there())
        stat_now = replica.root.stat
        if replica.in_store:  # what a listing remembers tells of our own deletions alone
            stat_now = partial(objects.stat_now, replica)
        else:
            shared.append(_sign(replica.root.stat, site.base))
        foreign += [_sign(stat_now, each.path) for each in inventory.pointers if each.replica == replica.name]
        of_control = partial(_sign, replica.control.folder.stat, inodes=replica.root.keeps_inodes)
        foreign += [of_control(name) for name in ("pins", "leases", "volume.json")]
    return Signs(tuple(shared), tuple(foreign))


def _sign(stat: Callable[[str], FileStat], path: str, *, inodes: bool = True) -> object:
    try:
        status = stat(path)
    except OSError as error:
        return error.errno
    return status.ino if inodes else 0, status.mtime_ns, status.size
