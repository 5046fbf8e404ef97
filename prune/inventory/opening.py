"""How the replicas of a run are opened: roots, room, control folders and who their volumes are."""

from __future__ import annotations

import os

from prune.control import Control, Place, find_place
from prune.control.tombstones import Tombstone
from prune.inventory.site import OpenReplica, Site
from prune.layouts.base import Layout
from prune.model import Block
from prune.settings.schema import ReplicaSettings, RunSettings
from prune.stores.local import LocalRoot
from prune.stores.mounts import Mount, keeps_inodes, mount_of, mounted_below, mounts


def open_site(run: RunSettings) -> Site:
    """Opens every replica; free space is read first, before anything is listed."""
    table = mounts()
    return Site(run, [_open(settings, table) for settings in run.replicas])


def look_afresh(site: Site) -> None:
    """Forgets what the last look found, and whether each root is still the directory that was opened."""
    site.blocks.clear()
    site.attention.clear()
    for replica in site.replicas:
        replica.listing = None
        replica.trouble = list(replica.opening)
        if replica.in_store:
            replica.forget_listing()
        if replica.root is not None and not replica.root.still_there():
            replica.block("replica-vanished", f"{replica.settings.root} is no longer the directory it was a moment ago")


def open_control(site: Site, layout: Layout | None) -> None:
    """Finds and opens the control folders that exist, and reads who each volume is; writes nothing."""
    stand_beside = layout is not None and layout.reads_every_entry and not site.base
    for replica in site.replicas:
        if replica.root is None:
            continue
        place = find_place(replica.root.real, stand_beside=stand_beside, override=replica.settings.control)
        replica.place = place
        if place.trouble is not None:
            replica.block("control-unusable", place.trouble)
        elif place.exists:
            _read_control(replica, place)
        _same_file_system(replica, site.base)
    _learn_thinnings(site)


def _same_file_system(replica: OpenReplica, base: str) -> None:
    """Room is measured and trash is kept at the root, so the checkpoints must lie on its file system."""
    assert replica.root is not None
    try:
        elsewhere = bool(base) and replica.root.stat(base).dev != replica.root.dev
    except OSError:  # not there yet, or listing will tell
        return
    if elsewhere:
        folder = f"{replica.settings.root}/{base}"
        replica.block(
            "control-unusable", f"{folder} is on another file system than its root; name {folder} as the root"
        )


def _learn_thinnings(site: Site) -> None:
    """A copy that was made of a thinned one on another replica is as thin, and only that one's record knows it."""
    found: dict[int, list[Tombstone]] = {}
    for replica in site.replicas:
        if replica.control is not None:
            try:
                for stone in replica.control.thinned():
                    found.setdefault(stone.step, []).append(stone)
            except OSError as error:
                replica.block("control-unusable", f"{replica.control.path}/tombstones: {error.strerror}")
    for replica in site.replicas:
        replica.thinnings = found


def _read_control(replica: OpenReplica, place: Place) -> None:
    try:
        if replica.control is not None and not replica.control.folder.still_there():
            replica.block("volume-changed", f"{place.path} was replaced while a pass was under way")
            return
        replica.control = replica.control or Control.open(place.path)
        replica.volume = replica.control.volume()
        replica.control.withdrawals()
    except ValueError as error:
        replica.block("control-unusable", f"{place.path}/volume.json: {error}; restore it, or accept this volume as "
                      f"new with: prune adopt {replica.name}")  # fmt: skip
    except OSError as error:
        replica.block("control-unusable", f"{error.filename or place.path}: {error.strerror}")


def _open(settings: ReplicaSettings, table: list[Mount]) -> OpenReplica:
    replica = OpenReplica(settings)
    if replica.in_store:
        return _open_in_store(replica)
    try:
        replica.root = LocalRoot(settings.root)
    except OSError as error:
        replica.opening.append(Block("replica-unreachable", replica.name, f"{settings.root}: {error.strerror}"))
        return replica
    replica.mount, replica.mounted = mount_of(replica.root.real, table), mounted_below(replica.root.real, table)
    replica.root.keeps_inodes = keeps_inodes(replica.mount)
    if settings.mountpoint and (replica.mount is None or replica.mount.point == "/"):
        detail = f"{settings.root} is declared a mount point and nothing is mounted there"
        replica.opening.append(Block("replica-vanished", replica.name, detail))
    read_space(replica)
    return replica


def _open_in_store(replica: OpenReplica) -> OpenReplica:
    from prune.stores.object.root import ObjectRoot
    from prune.stores.object.troubles import Unnameable

    try:
        root = ObjectRoot(replica.settings.root)
        root.reach()
        replica.root = root
        read_space(replica)
    except OSError as error:
        block = "listing-incomplete" if isinstance(error, Unnameable) else "replica-unreachable"
        replica.opening.append(Block(block, replica.name, f"{replica.settings.root}: {error.strerror}"))
    return replica


def read_space(replica: OpenReplica) -> None:
    """Free space as it is now; in an object store, what is left of the budget where one is given. Raises OSError
    where that cannot be listed."""
    assert replica.root is not None
    if replica.in_store:
        from prune.stores.object.root import room

        replica.space = room(replica.root, replica.settings.capacity)
        return
    replica.opening[:] = [block for block in replica.opening if block.block != "free-space-unknown"]
    try:
        replica.space = replica.root.space()
        replica.read_only = bool(os.fstatvfs(replica.root.fd).f_flag & os.ST_RDONLY)
    except OSError as error:
        if replica.settings.free_space != "none":
            replica.opening.append(
                Block("free-space-unknown", replica.name, f"{replica.settings.root}: {error.strerror}")
            )
        return
    if replica.settings.free_space == "none":
        replica.space = None
    elif replica.space.total_bytes == 0:
        detail = (
            f'{replica.settings.root}: its file system says it has no room at all; declare free_space = "none" '
            "for this replica if that is how it is"
        )
        replica.opening.append(Block("free-space-unknown", replica.name, detail))
