"""The control folder of one root: opened for reading by previews, made and locked by what deletes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from prune.control import holds, record, tombstones, volume
from prune.control.in_place import reserve
from prune.control.record import Withdrawal
from prune.control.tombstones import Tombstone
from prune.control.volume import Volume
from prune.model import Kind, Lease, Pin
from prune.stores.base import read_text
from prune.stores.local import LocalRoot

FOLDERS = ("trash", "manifests", "staging", "pins", "leases")
LOGS = ("record", "tombstones")
_RESERVE = 64 * 1024  # room kept in the logs, so that a full disk can still be pruned
_PIN_NAME = re.compile(r"(\d{1,18})\.json")


@dataclass
class Control:
    """An existing control folder, held open."""

    path: str
    folder: LocalRoot
    _stones: list[Tombstone] | None = field(default=None, repr=False)

    @classmethod
    def open(cls, path: str) -> Control:
        """Raises OSError when it is not there or cannot be opened."""
        return _in_store(path) or cls(path, LocalRoot(path))

    @classmethod
    def make(cls, path: str) -> Control:
        """Opens the folder, making it and everything in it that later needs an inode of its own.

        Raises OSError when it cannot be made: no room, read-only, no permission.
        """
        if (keys := _in_store(path)) is not None:
            return keys
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
            _sync(os.path.dirname(path))
        control = cls.open(path)
        try:
            control.furnish()
        except BaseException:
            control.close()
            raise
        return control

    def close(self) -> None:
        self.folder.close()

    def furnish(self) -> None:
        """Makes what is missing in the folder, early, so that nothing needs an inode when the disk is full."""
        present = {entry.name for entry in self.folder.scan()}
        for name in FOLDERS:
            if name not in present:
                with contextlib.suppress(FileExistsError):
                    self.folder.mkdir(name)
        for name in LOGS:
            if name not in present:
                with contextlib.suppress(FileExistsError), self.folder.create(name) as file:
                    reserve(file.fileno(), _RESERVE)
        if "lock" not in present:
            with contextlib.suppress(FileExistsError):
                self.folder.create("lock").close()
        if not {*FOLDERS, *LOGS, "lock"} <= present:
            self.folder.fsync()

    # --- who this volume is ----------------------------------------------------------------------------------

    def volume(self) -> Volume | None:
        """None where there is no volume.json. Raises ValueError when it cannot be understood, OSError when unread."""
        try:
            return volume.parse(read_text(self.folder, "volume.json"))
        except FileNotFoundError:
            return None

    def write_volume(self, value: Volume) -> None:
        self.folder.write_atomic("volume.json", value.to_bytes())

    # --- withdrawals -----------------------------------------------------------------------------------------

    def withdrawals(self) -> dict[str, Withdrawal]:
        """Every withdrawal on record, by id. Raises OSError when the record cannot be read."""
        return record.parse(self._log("record"))

    def trashed(self) -> list[Withdrawal]:
        """Withdrawals with something in the trash, by the record."""
        return list(record.open_ones(self.withdrawals()))

    def append_record(self, *lines: bytes, sync: bool = True) -> None:
        """Raises OSError. ``sync=False`` for what may be lost: it only saves a later look."""
        self.folder.append("record", b"".join(lines), sync=sync)

    def clear_record(self) -> None:
        """Empties the record once nothing on it is open; keeps its room on the disk."""
        with self.folder.parent("record") as (parent, name):
            fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            try:
                os.ftruncate(fd, 0)
                reserve(fd, _RESERVE)
            finally:
                os.close(fd)

    def trash_names(self) -> list[str]:
        return sorted(entry.name for entry in self.folder.scan("trash"))

    # --- tombstones ------------------------------------------------------------------------------------------

    def tombstones(self, *, afresh: bool = False) -> list[Tombstone]:
        """What was pruned here; ``afresh`` also by another process since the last call. Raises OSError when it cannot
        be read."""
        if self._stones is None or afresh:
            self._stones = tombstones.parse(self._log("tombstones"))
        return self._stones

    def thinned(self) -> list[Tombstone]:
        """What was taken out of steps that stay, here, as the log stands now. Raises OSError."""
        return tombstones.parse_thinned(self._log("tombstones"))

    def bury(self, stones: Sequence[Tombstone]) -> None:
        self.folder.append("tombstones", b"".join(tombstones.line(stone) for stone in stones))
        self._stones = None

    def lift(self, stones: Sequence[Tombstone]) -> None:
        self.folder.append("tombstones", b"".join(tombstones.line(stone, lifted=True) for stone in stones))
        self._stones = None

    # --- pins and leases -------------------------------------------------------------------------------------

    def pins(self, replica: str) -> list[Pin]:
        """Raises ValueError or OSError when any of them cannot be read: an unread pin may protect anything."""
        return [holds.parse_pin(text, replica) for name, text in self._small("pins") if _PIN_NAME.fullmatch(name)]

    def write_pin(self, pin: Pin) -> None:
        self._need("pins")
        self.folder.write_atomic(f"pins/{pin.step}.json", holds.pin_bytes(pin))

    def remove_pin(self, step: int) -> bool:
        """Whether there was one."""
        if not self._taken_off(f"pins/{step}.json"):
            return False
        self.folder.fsync("pins")
        return True

    def leases(self, replica: str) -> list[Lease]:
        """Raises ValueError or OSError when any of them cannot be read."""
        return [holds.parse_lease(text, replica) for _, text in self._small("leases")]

    def write_lease(self, lease: Lease, name: str) -> None:
        self._need("leases")
        self.folder.write_atomic(f"leases/{name}.json", holds.lease_bytes(lease))

    def remove_lease(self, name: str) -> None:
        self._taken_off(f"leases/{name}.json")

    def _taken_off(self, name: str) -> bool:
        """Whether there was such a file. That is asked first: a read-only volume refuses whatever it is told."""
        with contextlib.suppress(FileNotFoundError):
            if self.folder.exists(name):
                self.folder.unlink(name)
                return True
        return False

    # --- manifests -------------------------------------------------------------------------------------------

    def manifest_names(self) -> frozenset[str]:
        """Names of checkpoints that have a manifest here."""
        try:
            names = {entry.name for entry in self.folder.scan("manifests")}
        except FileNotFoundError:
            return frozenset()
        return frozenset(name[: -len(end)] for name in names for end in (".json", ".json.next") if name.endswith(end))

    def manifest_text(self, name: str, *, upcoming: bool = False) -> str | None:
        """The manifest of a checkpoint as it stands; ``upcoming``: the one a publisher was about to install."""
        try:
            return read_text(self.folder, f"manifests/{name}.json{'.next' if upcoming else ''}", limit=256 << 20)
        except FileNotFoundError:
            return None

    def upcoming_ns(self, name: str) -> int:
        """The time that a manifest about to be installed carries: when its data were last written. Raises OSError."""
        return self.folder.stat(f"manifests/{name}.json.next").mtime_ns

    def write_manifest(self, name: str, data: bytes) -> None:
        self._need("manifests")
        self.folder.write_atomic(f"manifests/{name}.json", data)

    def remove_manifest(self, name: str) -> None:
        for end in (".json", ".json.next"):
            with contextlib.suppress(FileNotFoundError):
                self.folder.unlink(f"manifests/{name}{end}")

    # --- small memories --------------------------------------------------------------------------------------

    def remembered(self, name: str) -> dict[str, object]:
        """A small JSON memory of ours (``rewound``, ``observed``); empty where there is none.

        Raises ValueError or OSError when it is there and cannot be read.
        """
        try:
            data = json.loads(read_text(self.folder, f"{name}.json", limit=64 << 20))
        except FileNotFoundError:
            return {}
        if not isinstance(data, dict):
            raise ValueError(f"{self.path}/{name}.json is not an object")
        return data

    def remember(self, name: str, data: dict[str, object]) -> None:
        if data:
            self.folder.write_atomic(f"{name}.json", (json.dumps(data) + "\n").encode())
        else:
            with contextlib.suppress(FileNotFoundError):
                self.folder.unlink(f"{name}.json")

    # --- inside ----------------------------------------------------------------------------------------------

    def _log(self, name: str) -> bytes:
        try:
            with self.folder.open(name) as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def _small(self, folder: str) -> Iterator[tuple[str, str]]:
        try:
            entries = [entry for entry in self.folder.scan(folder) if entry.kind is Kind.FILE]
        except FileNotFoundError:
            return
        for entry in entries:
            if not entry.name.endswith(".json"):
                continue
            try:
                yield entry.name, read_text(self.folder, entry.path)
            except FileNotFoundError:
                continue  # taken away between listing and reading
            except ValueError as error:
                raise ValueError(f"{self.path}/{entry.path}: {error}") from error

    def _need(self, folder: str) -> None:
        with contextlib.suppress(FileExistsError):
            self.folder.mkdir(folder)


def _in_store(path: str) -> Control | None:
    """The control folder of a root in an object store, which needs no making; None for a local one."""
    if "://" not in path:
        return None
    from prune.stores.object.control import ObjectControl

    return ObjectControl.open(path)


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
            raise
    finally:
        os.close(fd)
