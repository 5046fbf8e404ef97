"""What kind of file system a path lies on, as the kernel's mount table tells."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Where the number of an inode may be another the next time it is asked for: nothing is recognised by it there.
_NUMBERS_CHANGE = frozenset({"fuse", "fuseblk", "overlay", "vfat", "msdos", "exfat", "cifs", "smb3", "smbfs", "9p"})
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    point: str
    file_system: str
    device: str = ""  # major and minor number: the same for every mount of one file system


def mounts() -> list[Mount]:
    """All mounts this process sees, in order; the last of two on one point is the one in force."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError:
        return []
    found = []
    for line in text.splitlines():
        fields = line.split(" ")
        if "-" not in fields:
            continue
        point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[4])
        found.append(Mount(point, fields[fields.index("-") + 1], fields[2]))
    return found


def keeps_inodes(mount: Mount | None) -> bool:
    """Whether files are known by the same inode numbers as long as they live; not knowing means they may not be."""
    if mount is None:
        return False
    return mount.file_system not in _NUMBERS_CHANGE and not mount.file_system.startswith("fuse.")


def mount_of(real_path: str, table: list[Mount] | None = None) -> Mount | None:
    """The mount a real path lies on, None where the kernel does not tell."""
    best: Mount | None = None
    for mount in mounts() if table is None else table:
        inside = mount.point == "/" or real_path == mount.point or real_path.startswith(mount.point + os.sep)
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def deepest_first(points: Iterable[str]) -> list[str]:
    """Mount points in the order in which ``point_of`` looks through them."""
    return sorted(set(points), key=len, reverse=True)


def point_of(path: str, points: Sequence[str]) -> str:
    """The mount point a path lies on by its text alone: no mount, which might hang, is touched to find out."""
    return next((point for point in points if path == point or path.startswith(point.rstrip("/") + "/")), "/")


def mounted_below(real_path: str, table: list[Mount]) -> tuple[str, ...]:
    """What is mounted below a directory, by path relative to it."""
    prefix = real_path.rstrip(os.sep) + os.sep
    return tuple(mount.point[len(prefix) :] for mount in table if mount.point.startswith(prefix))
