"""Where an entry of a copy is built until it may be seen, and what it takes from the entry it was made of."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat as modes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from prune.control import Control
from prune.errors import Busy
from prune.inventory.site import OpenReplica
from prune.model import Kind
from prune.publish.claim import claim
from prune.publish.target import Target
from prune.publish.writer import sign, unsign
from prune.stores.local import LocalRoot

PART = ".part"
_LONGEST_NAME = 255  # bytes, on all file systems that checkpoints live on


@dataclass(frozen=True, slots=True)
class Place:
    """One top-most entry: its final ``path`` in the root, and ``at`` where it is built."""

    path: str
    holder: LocalRoot  # the root itself, or the control folder
    at: str

    @property
    def shown(self) -> str:
        return os.path.join(self.holder.real, self.at)


def place_of(path: str, kind: Kind, target: OpenReplica, *, token: str, number: int, hidden: bool) -> Place:
    """A file is built as ``NAME.part`` beside its name, all else in the control folder's ``staging/``.

    ``hidden``: the stack reads every entry of the root, so that nothing of ours may stand there.
    """
    assert target.root is not None
    assert target.control is not None
    name = path.rpartition("/")[2]
    if kind is Kind.FILE and not hidden and len(os.fsencode(name)) + len(PART) <= _LONGEST_NAME:
        return Place(path, target.root, path + PART)
    return Place(path, target.control.folder, f"staging/{token}/{number}")


def claim_part(place: Place, root: LocalRoot) -> None:
    """An empty ``NAME.part``, whatever a dead writer left under that name. Raises Busy while a living one has it."""
    head, _, name = place.path.rpartition("/")
    with LocalRoot(os.path.join(root.real, head)) as parent:
        claim(Target(parent, name, root.real)).close()


@contextlib.contextmanager
def written(holder: LocalRoot, at: str, *, lone: bool) -> Iterator[int]:
    """An open descriptor of a file under construction; what it holds already stays.

    A ``lone`` one, which stands beside final names, is locked and signed so that all can tell its writer. Raises Busy
    when another process writes it, OSError for anything that is no plain file.
    """
    with holder.parent(at) as (parent, name):
        fd = _open(parent, name)
    try:
        if not modes.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a plain file", at)
        if lone:
            _lock(fd, os.path.join(holder.real, at))
            sign(fd, os.path.join(holder.real, at))
        yield fd
        if lone:
            unsign(fd, os.path.join(holder.real, at))
    finally:
        os.close(fd)


def _open(parent: int, name: str) -> int:
    """One that is complete already may have got the mode of a file that nobody writes any more."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        return os.open(name, flags, 0o600, dir_fd=parent)
    except PermissionError:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{fd}", 0o600)
        finally:
            os.close(fd)
    return os.open(name, flags, 0o600, dir_fd=parent)


def _lock(fd: int, shown: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise Busy(f"{shown} is being written by another process") from error


def status(root: LocalRoot, path: str) -> os.stat_result:
    """All of an entry's status, links not followed; of an object what a file made of it is to have."""
    if "://" in root.root:
        from prune.mirror.download import as_made

        return cast(os.stat_result, as_made(root.stat(path)))
    with root.parent(path) as (parent, name):
        return os.stat(name, dir_fd=parent, follow_symlinks=False)


def dress(root: LocalRoot, path: str, like: os.stat_result, *, and_mode: int = 0) -> None:
    """Gives an entry the mode, owner and times of another; an owner that this user may not give is left.

    ``and_mode`` are permissions that it has for now whatever the other has.
    """
    with root.parent(path) as (parent, name):
        with contextlib.suppress(PermissionError):
            os.chown(name, like.st_uid, like.st_gid, dir_fd=parent, follow_symlinks=False)
        if not modes.S_ISLNK(like.st_mode):
            os.chmod(name, modes.S_IMODE(like.st_mode) | and_mode, dir_fd=parent)
        os.utime(name, ns=(like.st_atime_ns, like.st_mtime_ns), dir_fd=parent, follow_symlinks=False)


def make_directories(root: LocalRoot, path: str) -> None:
    """Makes a directory below the root and all above it, where they are missing, and syncs those it made."""
    parts = path.split("/") if path else []
    for depth in range(1, len(parts) + 1):
        with contextlib.suppress(FileExistsError):
            root.mkdir("/".join(parts[:depth]))
            root.fsync("/".join(parts[: depth - 1]))


def open_folder(holder: LocalRoot, path: str) -> None:
    """A directory that its owner may write, made or found there already with the mode of another."""
    try:
        holder.mkdir(path, modes.S_IRWXU)
    except FileExistsError:
        with holder.directory(path) as fd:
            os.fchmod(fd, modes.S_IRWXU)


def remake_link(root: LocalRoot, path: str, text: str) -> None:
    """A symbolic link with this text, whatever stood there before (a link or a file of ours)."""
    with contextlib.suppress(FileNotFoundError):
        root.unlink(path)
    with root.parent(path) as (parent, name):
        os.symlink(text, name, dir_fd=parent)


def remove_quietly(holder: LocalRoot, path: str) -> None:
    """Removes a leftover; one that refuses is swept as an orphan in time."""
    with contextlib.suppress(OSError):
        holder.remove(path)


def ensure(control: Control, path: str) -> None:
    """A directory in the control folder."""
    with contextlib.suppress(FileExistsError):
        control.folder.mkdir(path)
