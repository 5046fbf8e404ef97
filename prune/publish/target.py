"""Where a publication goes: the root it belongs to, its name, the control folder that takes its manifest."""

from __future__ import annotations

import os
import re
import stat as modes
from dataclasses import dataclass
from hashlib import sha256

from prune.control.place import beside, find_place, inside
from prune.errors import UsageError
from prune.stores.local import LocalRoot

StrPath = str | os.PathLike[str]
PART = ".part"
_DEEPEST = 4  # how far below its root a stack keeps its steps: lightning_logs/version_0/checkpoints, and one more


@dataclass(frozen=True, slots=True)
class Target:
    """One final name. ``parent`` is its directory, held open; ``root`` the directory whose control folder counts."""

    parent: LocalRoot
    name: str
    root: str
    label: str | None = None  # what to call it where the name is one of our own making

    @property
    def shown(self) -> str:
        return self.label or self.path

    @property
    def path(self) -> str:
        return os.path.join(self.parent.real, self.name)

    @property
    def relative(self) -> str:
        """The name relative to the root: what its manifest is called by."""
        return os.path.relpath(self.path, self.root)


def locate(path: StrPath, *, root: StrPath | None = None) -> Target:
    """The target of a publication under ``path``, its directory opened.

    Raises UsageError where there can be none: no name, no such directory, not inside the root that was given.
    """
    given = os.fsdecode(os.fspath(path))
    head, name = os.path.split(given.rstrip(os.sep))
    if name in ("", ".", "..") or "\0" in given:
        raise UsageError(f"{given!r} is no name to publish under", mend="give the path of a file or directory")
    try:
        parent = LocalRoot(head or ".")
    except OSError as error:
        raise UsageError(
            f"{head}: {error.strerror}", mend="make the directory first; it is not made for you"
        ) from error
    real_root = root_of(parent.real) if root is None else os.path.realpath(os.fsdecode(os.fspath(root)))
    if os.path.commonpath([real_root, parent.real]) != real_root:
        parent.close()
        raise UsageError(f"{given} is not inside the root {real_root}")
    return Target(parent, name, real_root)


def opaque(name: str) -> str:
    """A name's own word of letters: no scanner of step numbers can read one out of it."""
    digest = sha256(os.fsencode(name)).hexdigest()[:24]
    return digest.translate(str.maketrans("0123456789", "ghijklmnop"))


def root_of(directory: str) -> str:
    """The root a directory belongs to: itself or the nearest above it that is known as one, else itself.

    A root is known by the ``volume.json`` of its control folder; roots never lie inside one another.
    """
    real = os.path.realpath(directory)
    above = real
    for _ in range(_DEEPEST):
        if any(os.path.exists(os.path.join(place, "volume.json")) for place in (inside(above), beside(above))):
            return above
        if os.path.ismount(above) or os.path.dirname(above) == above:
            break
        above = os.path.dirname(above)
    return real


def control_path(root: str, name: str = "") -> str:
    """Where the control folder of a root stands, or would once ``name`` is published there.

    It stands beside the root where the stack takes every entry of it for a checkpoint. Raises UsageError where it can
    stand nowhere.
    """
    place = find_place(root, stand_beside=False)
    if not place.exists and _reads_every_entry(root, name):
        place = find_place(root, stand_beside=True)
    if place.trouble is not None:
        raise UsageError(place.trouble)
    return place.path


def _reads_every_entry(root: str, name: str) -> bool:
    from prune.layouts.detect import detect

    if os.path.basename(root) == "checkpoints" and re.fullmatch(r"checkpoint_[0-9]+", name):
        return True  # Accelerate's automatic naming, of which the first save shows nothing yet
    try:
        with LocalRoot(root) as reader:
            layout = detect(reader).layout
    except OSError:
        return False
    return layout is not None and layout.reads_every_entry


def refuse_long_names(target: Target, *endings: str) -> None:
    """Raises UsageError while nothing is written yet, where a name with what is added to it would be too long."""
    try:
        longest = os.fpathconf(target.parent.fd, "PC_NAME_MAX")
    except (OSError, ValueError):
        longest = 255
    size = len(os.fsencode(target.name))
    for ending in endings:
        if size + len(ending) > longest:
            raise UsageError(
                f"{target.name[:40]}… is {size} bytes long; {ending} is added to it while it is written, and this "
                f"file system allows {longest}",
                mend=f"use a name of at most {longest - len(ending)} bytes",
            )


def mode_at(target: Target) -> int | None:
    """What stands under the final name now, links not followed; None for nothing."""
    try:
        return os.stat(target.name, dir_fd=target.parent.fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None


def refuse_unless_file(target: Target) -> None:
    """A file replaces a file or a link (the link itself: nothing is written through it); never anything else."""
    mode = mode_at(target)
    if mode is not None and not (modes.S_ISREG(mode) or modes.S_ISLNK(mode)):
        kind = "a directory" if modes.S_ISDIR(mode) else "no plain file"
        raise UsageError(f"{target.path} is {kind}; a file cannot be published under its name")


def refuse_unless_directory(target: Target) -> None:
    """A directory replaces a directory or a link (the link itself), never a file."""
    mode = mode_at(target)
    if mode is not None and not (modes.S_ISDIR(mode) or modes.S_ISLNK(mode)):
        raise UsageError(f"{target.path} is not a directory; a directory cannot be published under its name")
