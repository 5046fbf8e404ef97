"""A copy under construction on its target: under no final name, continued after an interruption, compared when done."""

from __future__ import annotations

import contextlib
import json
import os
import stat as modes
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from prune.errors import Failed
from prune.integrity.hashing import cores
from prune.inventory.copies import with_measure, without_what_is_withdrawn
from prune.inventory.judging import members_of
from prune.inventory.site import OpenReplica
from prune.layouts.base import Members
from prune.mirror import place as places
from prune.mirror.order import Order
from prune.mirror.place import Place
from prune.mirror.staging import clear, read_note, token_of
from prune.mirror.transfer import SMALL, Differs, Landed, Transfer
from prune.model import Copy, Kind
from prune.publish.claim import claim
from prune.publish.target import Target
from prune.stores.base import FileStat
from prune.stores.local import LocalRoot
from prune.stores.pace import measure_copy

SCHEMA = "prune.build/1"
_SMALL_AT_ONCE = 4  # what waits is the disk's sync
_BIG_AT_ONCE = 2  # one is compared and synced while the other is copied


class Changed(Exception):
    """The source is no longer what it was when copying it began."""


@dataclass
class Build:
    """One copy being brought to one replica. Use :func:`under_construction`."""

    order: Order
    source: OpenReplica
    target: OpenReplica
    token: str
    places: tuple[Place, ...]
    members: Members
    landed: dict[str, Landed] = field(default_factory=dict)

    # --- the work --------------------------------------------------------------------------------------------

    def run(self, transfer: Transfer, expected: Mapping[str, str]) -> None:
        """Copies every file and compares what landed; ``expected`` are the SHA-256 recorded for the source's files.

        Raises Changed, Differs, SourceDamaged, Busy, OSError, and what the transfer's ``tick`` raises. What was built
        so far stays, to be continued; ``discard`` removes it. What an interrupted build left and does not compare is
        thrown away and copied afresh.
        """
        going_on = self._continue_or_begin()
        try:
            self._fill(transfer, expected)
        except Differs:
            if not going_on:
                raise
            self.discard()
            self._continue_or_begin()
            self._fill(transfer, expected)
        if not self.source_unchanged():
            raise Changed(f"{self.order.source.paths[0]} changed while it was copied")

    def _fill(self, transfer: Transfer, expected: Mapping[str, str]) -> None:
        for place in self.places:
            self._make_folders(place)
        small = [path for path, stat in self._files() if stat.size <= SMALL]
        big = [path for path, stat in self._files() if stat.size > SMALL]
        for paths, threads in ((small, _SMALL_AT_ONCE), (big, min(_BIG_AT_ONCE, cores()))):
            with ThreadPoolExecutor(max(1, min(threads, len(paths)))) as pool:
                found = pool.map(lambda path: self._copy_file(path, transfer, expected), paths)
                self.landed.update(zip(paths, found, strict=True))
        for place in self.places:
            self._dress_folders(place)

    def source_unchanged(self) -> bool:
        """Whether the source is still exactly what was copied. Raises OSError."""
        assert self.source.root is not None
        if self.source.in_store:
            self.source.forget_listing()
        try:
            measure, first = measure_copy(self.source.root, self.order.source.paths)
        except FileNotFoundError:
            return False
        return measure.identity(first) == self.order.source.identity

    def replaced_unchanged(self) -> bool:
        """Whether the damaged copy that is to give way is still the one that was judged. Raises OSError."""
        old = self.order.replaces
        if old is None or not old.measured:
            return True
        assert self.target.root is not None
        try:
            measure, first = measure_copy(self.target.root, old.paths)
        except FileNotFoundError:
            return False
        return measure.identity(first) == old.identity

    def discard(self) -> None:
        """Removes everything that was built here; what another process writes beside a final name stays."""
        assert self.target.control is not None
        for place in self.places:
            if place.holder is not self.target.root or self._continues():
                places.remove_quietly(place.holder, place.at)
        self.forget()

    def forget(self) -> None:
        """Removes what only the building needed; what was built has its names by now."""
        assert self.target.control is not None
        for name in (self.token, f"{self.token}.json"):
            places.remove_quietly(self.target.control.folder, f"staging/{name}")

    @property
    def staged_bytes(self) -> int:
        """Blocks that an earlier, interrupted build has taken already."""
        return sum(_allocated(place.holder, place.at) for place in self.places) if self._continues() else 0

    # --- begin or continue -----------------------------------------------------------------------------------

    def _continue_or_begin(self) -> bool:
        """Whether there is something to go on with; else all is made ready to begin."""
        assert self.target.control is not None
        assert self.target.root is not None
        going_on = self._continues()
        if not going_on:
            clear(self._noted(), self.target)
            self.discard()
            self.target.control.folder.write_atomic(f"staging/{self.token}.json", json.dumps(self._note()).encode())
        for place in self.places:
            if place.holder is not self.target.root:
                places.ensure(self.target.control, f"staging/{self.token}")
                continue
            places.make_directories(place.holder, place.at.rpartition("/")[0])
            if not going_on:
                places.claim_part(place, self.target.root)
        return going_on

    def _continues(self) -> bool:
        return self._noted() == self._note()

    def _noted(self) -> object:
        assert self.target.control is not None
        return read_note(self.target.control.folder, f"staging/{self.token}.json")

    def _note(self) -> dict[str, object]:
        """What a later build must be of, to go on with what this one leaves."""
        files = {
            path: [stat.dev, stat.ino, stat.size, stat.mtime_ns, stat.ctime_ns]
            for path, stat in sorted(self.members.files.items())
        }
        beside = [place.at for place in self.places if place.holder is self.target.root]
        return {"schema": SCHEMA, "step": self.order.step, "files": files, "beside": beside}

    # --- entries ---------------------------------------------------------------------------------------------

    def _files(self) -> list[tuple[str, FileStat]]:
        return sorted((path, stat) for path, stat in self.members.files.items() if stat.kind is Kind.FILE)

    def _at(self, path: str) -> tuple[LocalRoot, str, bool]:
        """Where a path of the copy is built, and whether it is a top-most file of its own."""
        for place in self.places:
            if path == place.path:
                return place.holder, place.at, place.holder is self.target.root
            if path.startswith(place.path + "/"):
                return place.holder, place.at + path[len(place.path) :], False
        raise AssertionError(path)

    def _make_folders(self, place: Place) -> None:
        for path in sorted(self._folders(place)):
            holder, at, _ = self._at(path)
            places.open_folder(holder, at)
        assert self.source.root is not None
        for path, stat in self.members.files.items():
            if not _belongs(path, place):
                continue
            if stat.kind is Kind.LINK:
                holder, at, _ = self._at(path)
                places.remake_link(holder, at, self.source.root.readlink(path))
                places.dress(holder, at, places.status(self.source.root, path))
            elif stat.kind is not Kind.FILE:
                raise Failed(f"{path} is no plain file, directory or link: it cannot be copied")

    def _folders(self, place: Place) -> list[str]:
        return [path for path in self.members.dirs if _belongs(path, place)]

    def _copy_file(self, path: str, transfer: Transfer, expected: Mapping[str, str]) -> Landed:
        assert self.source.root is not None
        holder, at, lone = self._at(path)
        if self.source.in_store:
            return self._fetch_file(path, transfer, expected)
        with self.source.root.open(path) as source, places.written(holder, at, lone=lone) as target:
            like = os.fstat(source.fileno())
            listed = self.members.files[path]
            inode = like.st_ino if self.source.root.keeps_inodes else 0
            if (like.st_size, like.st_mtime_ns, inode) != (listed.size, listed.mtime_ns, listed.ino):
                raise Changed(f"{path} changed while it was copied")
            landed = transfer.copy(source.fileno(), target, expected.get(path))
        places.dress(holder, at, like)
        return landed

    def _fetch_file(self, path: str, transfer: Transfer, expected: Mapping[str, str]) -> Landed:
        from prune.mirror.download import fetch

        assert self.source.root is not None
        holder, at, lone = self._at(path)
        with self.source.root.open(path) as source, places.written(holder, at, lone=lone) as target:
            landed = fetch(source, target, self.members.files[path].size, transfer, expected.get(path))
        places.dress(holder, at, places.status(self.source.root, path))
        return landed

    def _dress_folders(self, place: Place) -> None:
        """Modes and times of directories, the deepest first, since making entries changed them; and their syncs."""
        assert self.source.root is not None
        for path in sorted(self._folders(place), reverse=True):
            holder, at, _ = self._at(path)
            holder.fsync(at)
            # a directory that its owner may not write cannot be renamed into another: the top-most waits for its name
            for_now = modes.S_IRWXU if path == place.path else 0
            places.dress(holder, at, places.status(self.source.root, path), and_mode=for_now)
        place.holder.fsync(place.at.rpartition("/")[0])


@contextlib.contextmanager
def under_construction(order: Order, source: OpenReplica, target: OpenReplica, *, hidden: bool) -> Iterator[Build]:
    """A build that this process alone may work on. Raises Busy while another one does, OSError, Changed."""
    assert source.root is not None
    assert target.root is not None
    assert target.control is not None
    members, total, first, _ = members_of(source.root, order.source)
    if not order.source.measured:
        measured = without_what_is_withdrawn(source, with_measure(order.source, total, first))
        order = replace(order, source=measured)
    if total.identity(first) != order.source.identity:
        raise Changed(f"{order.source.paths[0]} changed before it was copied")
    token = token_of(order)
    if target.in_store:
        from prune.mirror.upload import Upload

        yield Upload(order, source, target, token, (), members)
        return
    with LocalRoot(os.path.join(target.control.path, "staging")) as staging:
        held = claim(Target(staging, token, target.root.real, label=os.path.join(target.root.real, order.name)))
        try:
            yield Build(order, source, target, token, _places(order.source, members, target, token, hidden), members)
        finally:
            held.discard()
            held.close()


def _places(copy: Copy, members: Members, target: OpenReplica, token: str, hidden: bool) -> tuple[Place, ...]:
    return tuple(
        places.place_of(path, _kind(path, members), target, token=token, number=number, hidden=hidden)
        for number, path in enumerate(copy.paths)
    )


def _kind(path: str, members: Members) -> Kind:
    return Kind.DIR if path in members.dirs else members.files[path].kind


def _belongs(path: str, place: Place) -> bool:
    return path == place.path or path.startswith(place.path + "/")


def _allocated(holder: LocalRoot, at: str) -> int:
    try:
        return holder.measure(at).freed
    except OSError:
        return 0


def bytes_needed(members: Members) -> int:
    """Room that a copy takes: whole blocks of its files, and a little for names and folders."""
    blocks = sum(-(-stat.size // 4096) * 4096 for stat in members.files.values())
    return blocks + 4096 * (len(members.dirs) + 1) + (64 << 10)


def entries_needed(members: Members) -> int:
    """Inodes that a copy takes."""
    return len(members.files) + len(members.dirs) + 4
