"""The claim on ``NAME.part``: one writer at a time, a dead one's leftover replaced, a living one's never.

The claim is a BSD lock on the file. A leftover is unlinked and a new file made, never reused: a writer that
was taken for dead then still holds its own file, finds another one at the name, and publishes nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat as modes
import time
from dataclasses import dataclass, field
from enum import Enum

from prune.errors import Busy, Failed, UsageError
from prune.model import SECOND
from prune.publish.target import PART, Target
from prune.publish.writer import Writer, forget, is_alive, sign, unsign, writer_of

FRESH = 5 * 60 * SECOND  # a temporary this young may belong to a living writer that cannot be seen from here
_ATTEMPTS = 200  # two processes that start at once step aside for one another; each round is short
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Grip(Enum):
    """What came of trying to lock a file."""

    OURS = "ours"
    THEIRS = "theirs"  # another open file has it: this or another process's
    NONE = "none"  # this file system knows no such locks


@dataclass(slots=True)
class Part:
    """A ``NAME.part`` that this process alone may write, held open and locked.

    A child that is forked meanwhile shares the descriptor and owns nothing: there the part is not ours.
    """

    target: Target
    fd: int
    owner: int = field(default_factory=os.getpid)

    @property
    def name(self) -> str:
        return self.target.name + PART

    @property
    def path(self) -> str:
        return os.path.join(self.target.parent.real, self.name)

    def still_ours(self) -> bool:
        """Whether this process made the part, and the file at the name is the one held open."""
        return os.getpid() == self.owner and is_at(self.target.parent.fd, self.name, self.fd)

    def reopen(self) -> bool:
        """Takes the file that now stands at the name: a library wrote beside it and renamed onto it.

        Returns whether there was one; another writer's is not taken. The new file gets the mode of the old.
        """
        parent = self.target.parent.fd
        if os.getpid() != self.owner or writer_of(self.path) is not None:
            return False
        try:
            fd = os.open(self.name, _OLD, dir_fd=parent)
        except OSError:
            return False
        if not modes.S_ISREG(os.fstat(fd).st_mode) or lock(fd) is Grip.THEIRS:
            os.close(fd)
            return False
        with contextlib.suppress(OSError):  # the mode is a courtesy: temporaries of libraries are often private
            os.fchmod(fd, modes.S_IMODE(os.fstat(self.fd).st_mode))
        os.close(self.fd)
        self.fd = fd
        return True

    def unsign(self) -> None:
        unsign(self.fd, self.path)

    def discard(self) -> None:
        """Removes the temporary, unless it is another writer's by now.

        One that cannot be removed is a leftover that nobody holds: the next writer or the next prune clears it.
        """
        if self.still_ours():
            with contextlib.suppress(OSError):
                os.unlink(self.name, dir_fd=self.target.parent.fd)
            forget(self.path)

    def close(self) -> None:
        if self.fd >= 0:
            if os.getpid() == self.owner:
                with contextlib.suppress(OSError):  # else forked children, such as data loaders, would keep the lock
                    fcntl.flock(self.fd, fcntl.LOCK_UN)
            os.close(self.fd)
            self.fd = -1


def claim(target: Target, *, mode: int = 0o666) -> Part:
    """Makes ``NAME.part`` and locks it. The mode is subject to the umask.

    Raises Busy while another writer has it, UsageError where something else stands at that name, Failed where the
    file cannot be made.
    """
    parent = target.parent.fd
    name = target.name + PART
    for attempt in range(_ATTEMPTS):
        fd = _make(target, name, mode)
        if fd is None:
            _clear_leftover(target, name)
            continue
        if lock(fd) is not Grip.THEIRS and is_at(parent, name, fd):
            part = Part(target, fd)
            sign(fd, part.path)
            return part
        os.close(fd)
        time.sleep(0.001 * (attempt % 7))
    raise Busy(f"{target.shown} is being written by another process right now")


def lock(fd: int) -> Grip:
    """Tries to take the BSD lock on an open file, without waiting."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return Grip.THEIRS
        return Grip.NONE
    return Grip.OURS


def may_live(grip: Grip, writer: Writer | None, *, shared: bool, mtime_ns: int) -> bool:
    """Whether the writer of a temporary may still be there, by its lock, its note and the temporary's age.

    A lock outlives its writer only in a forked child that inherited it; where the note proves the writer dead, the
    lock is such a child's. Where locks may not reach other machines, youth counts as life.
    """
    alive = is_alive(writer, shared=shared) if writer is not None else None
    if grip is Grip.THEIRS:
        return alive is not False
    if grip is Grip.OURS and not shared:
        return False
    if alive is None:
        return time.time_ns() - mtime_ns < FRESH
    return alive and grip is Grip.NONE


def is_at(parent: int, name: str, fd: int) -> bool:
    """Whether the name leads to the open file."""
    try:
        there = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(there, os.fstat(fd))


def locks_are_local(real_path: str) -> bool:
    """Whether other machines can write here while a lock taken on this one may not reach them."""
    from prune.control.lock import SHARED
    from prune.stores.mounts import mount_of

    mount = mount_of(real_path)
    if mount is None:
        return True  # unknown is never "only we can write here"
    kind = mount.file_system
    return kind in SHARED or kind.startswith("fuse.")


def _make(target: Target, name: str, mode: int) -> int | None:
    """A new file, None where the name is taken."""
    try:
        return os.open(name, _NEW, mode, dir_fd=target.parent.fd)
    except FileExistsError:
        return None
    except OSError as error:
        raise Failed(f"{target.shown} cannot be written: {error.strerror}") from error


def _clear_leftover(target: Target, name: str) -> None:
    """Unlinks what a dead writer left. Raises Busy where the writer lives, or may."""
    parent = target.parent.fd
    path = os.path.join(target.parent.real, name)
    try:
        fd = os.open(name, _OLD, dir_fd=parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _in_the_way(path, error) from error
    try:
        status = os.fstat(fd)
        if not modes.S_ISREG(status.st_mode):
            raise UsageError(f"{path} is in the way and no plain file", mend="move it away")
        grip = lock(fd)
        if not is_at(parent, name, fd):
            return  # it was published, or cleared by another, between our two looks
        writer = writer_of(path)
        if may_live(grip, writer, shared=locks_are_local(target.parent.real), mtime_ns=status.st_mtime_ns):
            raise _busy(target, path, writer)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)
        forget(path)
    finally:
        os.close(fd)


def _busy(target: Target, path: str, writer: Writer | None) -> Busy:
    if writer is not None and writer.pid == os.getpid() and is_alive(writer):
        return Busy(f"{target.shown} is already being written by this very process")
    who = str(writer) if writer is not None else "another process"
    return Busy(f"{target.shown} is being written by {who}", mend=f"if that writer is surely dead, remove {path}")


def _in_the_way(path: str, error: OSError) -> Exception:
    if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
        return UsageError(f"{path} is in the way and no plain file", mend="move it away")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Failed(f"{path} is another user's and cannot be replaced", mend="remove it, or write as that user")
    return Failed(f"{path}: {error.strerror}")
