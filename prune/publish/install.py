"""The last steps of every publication, in the one order that never claims more than is there.

What speaks of the data (manifest, sidecar) is written and synced under a name of its own; then the data get their
final name; then what speaks of them gets its own. A process that dies in between leaves no final name, or one that
the manifest fits which stands as ``NAME.json.next``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType

from prune.control import Control
from prune.errors import Failed, UsageError
from prune.integrity.hashing import Hashed
from prune.integrity.manifest import Manifest, ManifestFile, serialise
from prune.model import Kind
from prune.publish.target import PART, Target
from prune.stores.local import LocalRoot

NEXT = ".json.next"
SIDECAR = ".sha256"


@dataclass(frozen=True, slots=True, eq=False)
class Companion:
    """A small file beside a publication that waits, synced, for its data to be public."""

    folder: LocalRoot
    waiting: str
    final: str
    data_ns: int | None = None  # when its data were last written: by it one that waits is known to speak of them

    def write(self, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with self.folder.parent(self.waiting) as (parent, name):
            file = os.fdopen(os.open(name, flags, 0o666, dir_fd=parent), "wb")
        with file:
            file.write(data)
            file.flush()
            if self.data_ns is not None:
                with contextlib.suppress(OSError):  # without times it speaks of nothing before it has its name
                    os.utime(file.fileno(), ns=(self.data_ns, self.data_ns))
            os.fsync(file.fileno())
        self._sync()

    def install(self) -> None:
        self.folder.rename(self.waiting, self.final)
        self._sync()

    def withdraw(self) -> None:
        with contextlib.suppress(OSError):  # left behind it fits no copy, and the next publication replaces it
            self.folder.unlink(self.waiting)

    def _sync(self) -> None:
        self.folder.fsync(self.final.rpartition("/")[0])


def manifest_of(control: Control, target: Target, data_ns: int | None = None) -> Companion:
    return Companion(control.folder, f"manifests/{target.name}{NEXT}", f"manifests/{target.name}.json", data_ns)


def finish_for_the_dead(control: Control, target: Target) -> None:
    """Gives its name to the manifest of what stands, where the publisher died right before: the next one that waits
    would replace it, and might never be public."""
    waiting = manifest_of(control, target)
    try:
        data_ns = newest_file(target.parent, target.name)
        if data_ns > 0 and control.folder.stat(waiting.waiting).mtime_ns == data_ns:
            waiting.install()
    except FileNotFoundError:
        return  # nothing stands there, or nothing waits


def newest_file(root: LocalRoot, path: str) -> int:
    """When the newest file of an entry was written; 0 where it holds none."""
    top = root.stat(path)
    if top.kind is not Kind.DIR:
        return top.mtime_ns
    return max((status.mtime_ns for _, status in root.walk(path) if status.kind is Kind.FILE), default=0)


def sidecar_of(target: Target) -> Companion:
    name = target.name + SIDECAR
    return Companion(target.parent, name + PART, name)


def manifest_bytes(target: Target, files: Mapping[str, Hashed], step: int, written_ns: int) -> bytes:
    """The manifest of what is about to be published. ``files`` by path relative to the root.

    ``written_ns`` is the newest mtime among them, by the volume's clock: a manifest is never older than its files.
    """
    records = tuple(ManifestFile(path, found.size, found.sha256) for path, found in sorted(files.items()))
    return serialise(Manifest(target.name, step, max(time.time_ns(), written_ns), records))


def step_of(name: str) -> int:
    """The step that a name tells. Raises UsageError where it tells none."""
    from prune.layouts import step_file

    found = step_file.read(name) or step_file.read_stem(name) or step_file.read_stem(os.path.splitext(name)[0])
    if found is not None:
        return found.step
    named = re.search("step=([0-9]{1,18})(?![0-9])", name)
    if named is not None:
        return int(named[1])
    raise UsageError(f"{name!r} tells no step", mend="pass step=…, or manifest=False to write none")


def make_public(target: Target, appear: Callable[[], None], companions: Mapping[Companion, bytes]) -> None:
    """Writes the companions, gives the final name with ``appear``, makes it durable, then gives the companions theirs.

    Raises what writing them or ``appear`` raises, and nothing is public then; Failed when the name was given and
    something after it failed.
    """
    try:
        for companion, data in companions.items():
            companion.write(data)
        appear()
    except BaseException:
        for companion in companions:
            companion.withdraw()
        raise
    try:
        target.parent.fsync()
        for companion in companions:
            companion.install()
    except OSError as error:
        raise Failed(
            f"{target.shown} is published and whole, but what makes it lasting failed: {error.strerror}",
            mend="look into the kernel's log; `prune verify` tells whether it can be read",
        ) from error


@dataclass(frozen=True, slots=True)
class Told:
    """Turns the OSError of a publication into the sentence its user reads."""

    target: Target

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, OSError):
            raise Failed(
                f"{self.target.shown} was not published: {error.strerror or error}. Nothing of this save stands under "
                "its name, and what stood there before still does",
                mend=_MENDS.get(error.errno or 0),
            ) from error


_MENDS = {
    errno.ENOSPC: "free some room (`prune make-room SIZE`) and save again",
    errno.EDQUOT: "the quota is used up: free some room (`prune make-room SIZE`) and save again",
    errno.EROFS: "the file system is read-only",
    errno.ESTALE: "the file server forgot this directory: mount it again",
    errno.EIO: "the device reports an error: look into the kernel's log before trusting it again",
}
