"""What lies in the trash: put back where it was, never replacing, or gone for good."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from prune.control.record import THINNED, Withdrawal
from prune.deletion import objects
from prune.inventory.site import OpenReplica
from prune.model import Kind
from prune.stores.local import LocalRoot
from prune.stores.pace import Measured, measure_copy


@dataclass(frozen=True, slots=True)
class Purged:
    """How a purge ended."""

    files: int
    error: str | None = None


def trash_paths(withdrawal: Withdrawal) -> list[str]:
    return [f"trash/{name}" for _, name in withdrawal.moves]


def misfit(replica: OpenReplica, withdrawal: Withdrawal) -> str | None:
    """Why what lies in the trash is not what was planned; None: it is."""
    assert replica.control is not None
    if replica.in_store:
        return differs(withdrawal, objects.look(replica, [withdrawal])[0])
    try:
        found: Measured = measure_copy(replica.control.folder, trash_paths(withdrawal))
    except OSError as error:
        found = error
    return differs(withdrawal, found)


def differs(withdrawal: Withdrawal, found: Measured) -> str | None:
    """The same for what was found there. The top's own ctime is left out: the rename changed it."""
    if isinstance(found, OSError):
        return f"cannot be looked at after it was withdrawn: {found.strerror}"
    planned, (measure, top) = withdrawal.identity, found
    if planned.ino and top.ino and planned.ino != top.ino and not measure.tag:
        return "another one stood under its name than was planned"
    if (measure.files, measure.size) != (planned.files, planned.size):
        return f"{planned.files} files of {planned.size} bytes became {measure.files} of {measure.size}"
    if measure.mtime_ns != planned.mtime_ns:
        return "it was written to since it was planned"
    if measure.tag and measure.ctime_ns ^ measure.tag != planned.ctime_ns:
        return "an object in it was written again since it was planned"
    if measure.inner_ctime_ns > planned.ctime_ns and not measure.tag:
        return "something in it changed since it was planned"
    return None


def put_back(replica: OpenReplica, withdrawal: Withdrawal) -> str | None:
    """Puts every entry back under its final name, the last one out first. Returns what stood in the way.

    Entries that are not in the trash were never withdrawn. Nothing is ever replaced, and nothing is put beside what was
    saved anew since: old parts in a new checkpoint would be neither of the two.
    """
    assert replica.control is not None
    assert replica.root is not None
    if replica.in_store:
        return None  # it never left its names
    trash = replica.control.folder
    try:
        if (why := in_the_way(replica, withdrawal)) is not None:
            return why
    except OSError as error:
        return f"{withdrawal.moves[0][0]}: {error.strerror}; the withdrawn copy is in {trash.root}/trash"
    for path, name in reversed(withdrawal.moves):
        try:
            if trash.exists(f"trash/{name}"):
                trash.rename_new(f"trash/{name}", path, into=replica.root)
        except FileExistsError:
            return f"{path} exists again; the withdrawn copy stays in {trash.root}/trash/{name}"
        except OSError as error:
            return f"{path}: {error.strerror}; the withdrawn copy is in {trash.root}/trash/{name}"
    try:
        times_as_before(replica, withdrawal)
        sync_parents(replica.root, [path for path, _ in withdrawal.moves])
        trash.fsync("trash")
    except OSError as error:
        return f"{replica.root.root}: {error.strerror}"
    return None


def in_the_way(replica: OpenReplica, withdrawal: Withdrawal) -> str | None:
    """What was saved since where a withdrawn copy would go back to; None: nothing. Raises OSError."""
    assert replica.control is not None
    assert replica.root is not None
    trash = replica.control.folder
    left = [(path, name) for path, name in withdrawal.moves if trash.exists(f"trash/{name}")]
    for path, name in left:
        if replica.root.exists(path):
            return f"{path} exists again; the withdrawn copy stays in {trash.root}/trash/{name}"
    if left and (folder := _saved_anew(replica.root, withdrawal)) is not None:
        return f"{folder} was saved anew since; what was taken out of it stays in {trash.root}/trash/{left[0][1]}"
    return None


def _saved_anew(root: LocalRoot, withdrawal: Withdrawal) -> str | None:
    """The step that parts were taken out of, where every file in it was written since."""
    if not withdrawal.folders:
        return None
    step, parts = os.path.commonpath([path for path, _ in withdrawal.folders]), {path for path, _ in withdrawal.moves}
    try:
        stay = [status for entry, status in root.walk(step) if status.kind is Kind.FILE and entry.path not in parts]
    except FileNotFoundError:
        return None
    return step if stay and all(status.mtime_ns > withdrawal.at_ns for status in stay) else None


def times_as_before(replica: OpenReplica, withdrawal: Withdrawal) -> None:
    """Gives the directories that parts were taken out of, or put back into, the mtimes they had.

    Trainers rotate, and choose what is newest, by the mtimes of directories: an old step must not become the newest
    because something in it was renamed. Raises OSError.
    """
    assert replica.root is not None
    for folder, mtime_ns in withdrawal.folders:
        with contextlib.suppress(FileNotFoundError):  # the step has gone meanwhile
            replica.root.set_mtime(folder, mtime_ns)


Remove = Callable[[LocalRoot, str], int]


def purge(replica: OpenReplica, withdrawal: Withdrawal, remove: Remove = LocalRoot.remove) -> Purged:
    """Removes what was withdrawn, for good, and the manifest that spoke of it."""
    assert replica.control is not None
    if replica.in_store:
        return objects.purge(replica, [withdrawal])[withdrawal.id]
    files = 0
    trouble: str | None = None
    for name in trash_paths(withdrawal):
        try:
            files += remove(replica.control.folder, name)
        except FileNotFoundError:
            continue
        except OSError as error:
            trouble = trouble or f"{name}: {error.strerror}"
    if trouble is None and withdrawal.why != THINNED:
        _forget_manifests(replica, withdrawal)
    return Purged(files, trouble)


def _forget_manifests(replica: OpenReplica, withdrawal: Withdrawal) -> None:
    """A manifest goes with its checkpoint, unless a new one of that name is there or on its way."""
    assert replica.control is not None
    assert replica.root is not None
    for path, _ in withdrawal.moves:
        name = os.path.basename(path)
        with contextlib.suppress(OSError):
            if not replica.root.exists(path) and replica.control.manifest_text(name, upcoming=True) is None:
                replica.control.remove_manifest(name)


def sync_parents(root: LocalRoot, paths: list[str]) -> None:
    """Makes the names of these paths durable."""
    for parent in dict.fromkeys(path.rpartition("/")[0] for path in paths):
        root.fsync(parent)
