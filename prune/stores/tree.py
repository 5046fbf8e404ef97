"""Everything below an open directory, summed or removed; by a helper process too, which this file is the whole of.

Helpers start it as a script without site packages, so it imports nothing that is not loaded anyway.
"""

from __future__ import annotations

import errno
import os
import stat as modes
import sys

DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 512  # the unit of st_blocks, whatever the file system's own is
_NONE = "-"


class Sums:
    """Over everything in a copy, gathered in one pass without holding the files.

    ``linked`` is what files with other links hold, which deleting does not free; ``inner_ctime_ns`` leaves out the
    top's, which a rename changes; ``top_links`` are symlinks at the copy's top. ``seen`` are those of ``inodes`` that
    were met. ``tag`` is made of the tags of all files, where a store has such.
    """

    __slots__ = ("ctime_ns", "files", "freed", "inner_ctime_ns", "inodes", "linked", "mtime_ns", "oldest_mtime_ns",
                 "seen", "size", "tag", "top_links")  # fmt: skip

    def __init__(self, inodes: set[int] | None = None) -> None:
        self.files = self.size = self.freed = self.linked = 0
        self.mtime_ns: int | None = None
        self.oldest_mtime_ns: int | None = None
        self.ctime_ns = self.inner_ctime_ns = self.tag = 0
        self.top_links: list[str] = []
        self.inodes = inodes
        self.seen: set[int] = set()

    def add(self, status: os.stat_result) -> bool:
        """Takes one entry into account; whether it is a directory."""
        mtime = status.st_mtime_ns
        if self.mtime_ns is None or self.oldest_mtime_ns is None:
            self.mtime_ns = self.oldest_mtime_ns = mtime
        elif mtime > self.mtime_ns:
            self.mtime_ns = mtime
        elif mtime < self.oldest_mtime_ns:
            self.oldest_mtime_ns = mtime
        if status.st_ctime_ns > self.ctime_ns:
            self.ctime_ns = status.st_ctime_ns
        if self.inodes is not None and status.st_ino in self.inodes:
            self.seen.add(status.st_ino)
        if modes.S_ISDIR(status.st_mode):
            self.freed += status.st_blocks * _BLOCK
            return True
        self.files += 1
        self.size += status.st_size
        if status.st_nlink <= 1:
            self.freed += status.st_blocks * _BLOCK
        else:
            self.linked += status.st_blocks * _BLOCK
        return False

    def merge(self, other: Sums) -> None:
        """Adds what another pass over other paths found."""
        self.files += other.files
        self.size += other.size
        self.freed += other.freed
        self.linked += other.linked
        self.ctime_ns = max(self.ctime_ns, other.ctime_ns)
        self.inner_ctime_ns = max(self.inner_ctime_ns, other.inner_ctime_ns)
        self.top_links += other.top_links
        self.seen |= other.seen
        self.tag ^= other.tag
        if other.mtime_ns is not None:
            self.mtime_ns = other.mtime_ns if self.mtime_ns is None else max(self.mtime_ns, other.mtime_ns)
        if other.oldest_mtime_ns is not None:
            oldest = self.oldest_mtime_ns
            self.oldest_mtime_ns = other.oldest_mtime_ns if oldest is None else min(oldest, other.oldest_mtime_ns)


def sum_at(parent: int, name: str, path: str, total: Sums) -> os.stat_result:
    """Adds ``name`` in an open directory, with all below it, to a total. Returns its own status. Raises OSError."""
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if total.add(status):
        inner = Sums(total.inodes)
        fd = os.open(name, DIR, dir_fd=parent)
        try:
            _sum_below(fd, inner, path)
        finally:
            os.close(fd)
        inner.inner_ctime_ns = inner.ctime_ns
        total.merge(inner)
    return status


def _sum_below(fd: int, total: Sums, top: str | None) -> None:
    deeper: list[str] = []
    add = total.add
    with os.scandir(fd) as entries:
        for entry in entries:
            if add(entry.stat(follow_symlinks=False)):
                deeper.append(entry.name)
            elif top is not None and entry.is_symlink():
                total.top_links.append(f"{top}/{entry.name}")
    for name in deeper:
        below = os.open(name, DIR, dir_fd=fd)
        try:
            _sum_below(below, total, None)
        finally:
            os.close(below)


def remove_at(parent: int, name: str, dev: int) -> int:
    """Removes ``name`` in an open directory, with all below it, links as links, never onto another device.

    Returns how many entries other than directories went. Raises OSError.
    """
    try:
        os.unlink(name, dir_fd=parent)
        return 1
    except IsADirectoryError:
        pass
    except PermissionError:  # POSIX says EPERM where Linux says EISDIR
        if not modes.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise
    fd = os.open(name, DIR, dir_fd=parent)
    try:
        status = os.fstat(fd)
        if status.st_dev != dev:
            raise OSError(errno.EXDEV, "another file system is mounted here", name)
        if not status.st_mode & modes.S_IWUSR:
            _make_writable(fd, status.st_mode)
        removed, trouble = _empty(fd, dev)
    finally:
        os.close(fd)
    if trouble is not None:
        raise trouble
    os.rmdir(name, dir_fd=parent)
    return removed


def _make_writable(fd: int, mode: int) -> None:
    """What a directory is part of goes: that nobody may write it does not keep it."""
    try:
        os.fchmod(fd, modes.S_IMODE(mode) | modes.S_IRWXU)
    except OSError:
        pass  # somebody else's: what refuses is told


def _empty(fd: int, dev: int) -> tuple[int, OSError | None]:
    """Removes everything in an open directory; goes on past entries that refuse and returns the first refusal."""
    removed = 0
    trouble: OSError | None = None
    with os.scandir(fd) as listing:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]
    for name, is_dir in names:
        try:
            if is_dir:
                removed += remove_at(fd, name, dev)
            else:
                os.unlink(name, dir_fd=fd)
                removed += 1
        except FileNotFoundError:
            continue
        except OSError as error:
            trouble = trouble or error
    return removed, trouble


def parts(path: str) -> list[str]:
    """The components of a path below a root. Raises OSError for one that could lead elsewhere."""
    found = path.split("/") if path else []
    if "" in found or "." in found or ".." in found:
        raise OSError(errno.EINVAL, "not a path below the root", path)
    return found


def open_below(root: int, path: str) -> int:
    """A new descriptor of a directory below an open one, reached component by component without links."""
    fd = os.open(".", DIR, dir_fd=root)
    try:
        for part in parts(path):
            deeper = os.open(part, DIR, dir_fd=fd)
            os.close(fd)
            fd = deeper
    except BaseException:
        os.close(fd)
        raise
    return fd


# --- what a helper is asked, and answers -------------------------------------------------------------------------


def hexed(text: str) -> str:
    return os.fsencode(text).hex() or _NONE


def unhexed(word: str) -> str:
    return "" if word == _NONE else os.fsdecode(bytes.fromhex(word))


def serve() -> None:
    """A helper's whole life: one line asked, one line answered."""
    for line in sys.stdin.buffer:
        what, root, dev, *paths = line.decode("ascii").split()
        try:
            work = _sums_of if what == "sum" else _removed
            answer = "ok " + work(int(root), int(dev), [unhexed(path) for path in paths])
        except OSError as error:
            name = error.filename if isinstance(error.filename, str) else ""
            answer = f"error {error.errno or 0} {hexed(error.strerror or str(error))} {hexed(name)}"
        sys.stdout.buffer.write(answer.encode("ascii") + b"\n")
        sys.stdout.buffer.flush()


def _sums_of(root: int, _dev: int, paths: list[str]) -> str:
    total = Sums()
    found = [_in_its_folder(root, path, lambda fd, name, path=path: sum_at(fd, name, path, total)) for path in paths]
    top = found[0]
    numbers = (total.files, total.size, total.freed, total.linked, total.mtime_ns, total.oldest_mtime_ns,
               total.ctime_ns, total.inner_ctime_ns, top.st_mode, top.st_size, top.st_blocks, top.st_nlink,
               top.st_mtime_ns, top.st_ctime_ns, top.st_dev, top.st_ino)  # fmt: skip
    return " ".join([*map(str, numbers), *map(hexed, total.top_links)])


def _removed(root: int, dev: int, paths: list[str]) -> str:
    return str(sum(_in_its_folder(root, path, lambda fd, name: remove_at(fd, name, dev)) for path in paths))


def _in_its_folder(root: int, path: str, work):  # type: ignore[no-untyped-def]
    head, _, name = path.rpartition("/")
    (name,) = parts(name)
    fd = open_below(root, head)
    try:
        return work(fd, name)
    finally:
        os.close(fd)


if __name__ == "__main__":
    serve()
