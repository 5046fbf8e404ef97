"""The replicas of one run, opened: root, room, control folder, identity. Nothing is listed yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prune.control import Control, Place
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
from prune.stores.mounts import Mount


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
