"""The replicas of one run, opened: root, room, control folder, identity. Nothing is listed yet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from prune.control import Control, Place, find_place
from prune.control.lock import SHARED
from prune.control.record import Withdrawal
from prune.control.tombstones import Tombstone
from prune.control.volume import Volume
from prune.inventory.listing import Listing
from prune.layouts.base import Layout
from prune.model import Attention, Block, Replica, Temporary, nothing
from prune.settings.schema import ReplicaSettings, RunSettings
from prune.stores.base import Space
from prune.stores.local import LocalRoot
from prune.stores.mounts import Mount, keeps_inodes, mount_of, mounted_below, mounts


@dataclass
class OpenReplica:
    """One replica as far as it could be opened; ``trouble`` holds what stood in the way."""

    settings: ReplicaSettings
    root: LocalRoot | None = None
    place: Place | None = None
    control: Control | None = None
    volume: Volume | None = None
    space: Space | None = None
    mount: Mount | None = None
    mounted: tuple[str, ...] = ()  # what is mounted below the root, by path relative to it
    read_only: bool = False
    listing: Listing | None = None
    thinnings: Mapping[int, list[Tombstone]] = field(default_factory=nothing)  # by step, on whichever replica
    opening: list[Block] = field(default_factory=list)  # what stood in the way of opening it
    trouble: list[Block] = field(default_factory=list)  # the same and what the latest look found
    uploads: list[Temporary] = field(default_factory=list)  # begun in parts and not finished, in an object store

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def in_store(self) -> bool:
        """Whether it is in an object store, where every look is a request."""
        return "://" in self.settings.root

    @property
    def usable(self) -> bool:
        """Whether it is open, listed, and the volume it should be."""
        return self.root is not None and self.listing is not None and not self.trouble

    @property
    def waits(self) -> bool:
        """Whether calls may wait for a network or another process: then many are made at once. Unknown is yes."""
        kind = self.mount.file_system if self.mount else None
        return kind is None or kind in SHARED or kind.startswith("fuse.")

    def thinned(self, step: int) -> tuple[str, ...]:
        """What was taken out of this step and has not come back here. Raises OSError.

        The first of what was taken out goes first and comes back last: while it is not there, the step is thinned.
        """
        if self.root is None:
            return ()
        mine = [stone for stone in self.thinnings.get(step, ()) if not self._stands(stone)]
        return tuple(dict.fromkeys(path for stone in mine for path in stone.parts))

    def _stands(self, stone: Tombstone) -> bool:
        """Whether what a tombstone names is there; what is withdrawn in an object store only seems to be."""
        assert self.root is not None
        if not self.root.exists(stone.name):
            return False
        if not self.in_store or self.control is None:
            return True
        from prune.stores.object import hidden
        from prune.stores.object.control import as_objects
        from prune.stores.object.root import in_store

        root, control = in_store(self.root), as_objects(self.control)
        return root is None or control is None or not hidden.parts_withdrawn(root, control, stone)

    @property
    def blank(self) -> bool:
        """Whether nothing of ours and no checkpoint stands there: its disk may be missing, so nothing is written."""
        listing = self.listing
        return self.control is None and listing is not None and not (listing.steps or listing.temporaries)

    def block(self, block: str, detail: str) -> None:
        self.trouble.append(Block(block, self.name, detail))

    def close(self) -> None:
        for held in (self.control, self.root):
            if held is not None:
                held.close()
        self.control = self.root = None

    def forget_listing(self) -> None:
        """What an object store listed is remembered until then."""
        from prune.stores.object.root import in_store

        for root in (self.root, self.control.folder if self.control else None):
            if (objects := in_store(root)) is not None:
                objects.refresh()

    def _trashed(self) -> list[Withdrawal]:
        """What the record says is in the trash. That it cannot be read was told when the folder was opened."""
        try:
            return self.control.trashed() if self.control else []
        except OSError:
            return []

    def describe(self) -> Replica:
        """This replica as a value for inventories and plans."""
        trashed = self._trashed()
        untils = [w.until_ns for w in trashed if w.until_ns is not None]
        held_before = self.volume is not None and self.volume.held.steps > 0
        return Replica(
            name=self.name,
            role=self.settings.role,
            root=self.root.real if self.root else self.settings.root,
            required=self.settings.required,
            identity=self.volume.id if self.volume else None,
            control=self.place.path if self.place else None,
            free_bytes=self.space.free_bytes if self.space else None,
            total_bytes=self.space.total_bytes if self.space else None,
            free_inodes=self.space.free_inodes if self.space else None,
            total_inodes=self.space.total_inodes if self.space else None,
            trash_bytes=sum(w.bytes for w in trashed),
            trash_until_ns=max(untils, default=None),
            listed=self.listing is not None,
            ever_held=held_before or bool(self.listing and self.listing.steps),
            read_only=self.read_only,
            file_system=self.mount.file_system if self.mount else None,
        )


@dataclass
class Site:
    """All replicas of a run, the primary first, with the layout they share."""

    run: RunSettings
    replicas: list[OpenReplica]
    layout: Layout | None = None
    base: str = ""
    blocks: list[Block] = field(default_factory=list)
    attention: list[Attention] = field(default_factory=list)

    @property
    def primary(self) -> OpenReplica:
        return self.replicas[0]

    def by_name(self, name: str) -> OpenReplica:
        return next(replica for replica in self.replicas if replica.name == name)

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: object) -> None:
        for replica in self.replicas:
            replica.close()


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
