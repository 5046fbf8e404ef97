"""Publishing a directory: built out of sight in ``staging/``, in sight by one rename."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prune.control import Control
from prune.errors import Busy, Failed, PruneError, UsageError
from prune.model import Kind
from prune.publish.claim import Part, claim
from prune.publish.install import (
    NEXT,
    Companion,
    Told,
    finish_for_the_dead,
    make_public,
    manifest_bytes,
    manifest_of,
    newest_file,
    step_of,
)
from prune.publish.target import (
    StrPath,
    Target,
    control_path,
    locate,
    mode_at,
    opaque,
    refuse_long_names,
    refuse_unless_directory,
)
from prune.publish.tree import settle_tree
from prune.stores.base import Entry
from prune.stores.local import LocalRoot
from prune.stores.renames import EXCHANGE, NOREPLACE, renameat2

_STAGE = re.compile(r"[a-p]{24}\.[a-z]{8}")
_CLAIM = re.compile(r"[a-p]{24}\.part")
_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


@contextlib.contextmanager
def publish_directory(
    path: StrPath, *, step: int | None = None, manifest: bool = True, root: StrPath | None = None
) -> Iterator[Path]:
    """A directory that appears under its name only when it is whole, and never otherwise.

    Gives the path of an empty directory to write into, of the same name, in the root's control folder::

        with prune.publish_directory("/data/ckpt/tiny/step-810", step=810) as folder:
            dcp.save(state, checkpoint_id=folder)

    When the block ends, all files in it are hashed and synced, the manifest is written, and it takes its place by
    one rename; a directory that stood there is exchanged for it in the same instant and then removed. Where the
    file system cannot exchange, the old one steps aside first, and comes back if this process dies between the two.
    When the block raises, or anything fails, what was built is removed and the name stays as it was.

    Where several processes write one checkpoint, one of them opens this, tells the others the path, waits until all
    are done, and only then leaves the block. Arguments and errors are those of :func:`prune.publish`.
    """
    target = locate(path, root=root)
    with contextlib.closing(target.parent), contextlib.ExitStack() as cleanup:
        with Told(target):
            refuse_unless_directory(target)
            refuse_long_names(target, NEXT)
            step = step_of(target.name) if step is None and manifest else step
            control = cleanup.enter_context(contextlib.closing(Control.make(control_path(target.root, target.name))))
            stage = cleanup.enter_context(_stage(control, target))
        yield Path(stage.tree)
        with Told(target):
            _finish(stage, step=step, manifest=manifest)


def recover_staging(control: Control, root: LocalRoot) -> list[str]:
    """Clears what dead publishers of directories left in ``staging/``, and says what was put back.

    A directory that had stepped aside for a new one that never came returns to its name; what was only half built
    is removed. Living publishers are left alone. Raises OSError when something could not be cleared.
    """
    back: list[str] = []
    for token in _tokens(control):
        with _staging(control) as staging:
            try:
                part = claim(Target(staging, token, root.real))
            except Busy:
                continue
            except PruneError as error:
                raise OSError(errno.EIO, str(error), token) from error
            try:
                back += _clear(control, token, root)
            finally:
                part.discard()
                part.close()
    return back


@dataclass(frozen=True, slots=True)
class _Stage:
    """A directory under construction: ``new/NAME`` grows, ``old/NAME`` is what stepped aside for it."""

    control: Control
    target: Target
    part: Part
    entry: str  # below the control folder

    @property
    def tree(self) -> str:
        return os.path.join(self.control.path, self.entry, "new", self.target.name)

    def appear(self) -> None:
        """The one rename. Raises OSError with the name as it was before."""
        if not self.part.still_ours():
            raise _taken_over(self.target)
        with self._open("new") as new:
            flags = NOREPLACE if mode_at(self.target) is None else EXCHANGE
            try:
                renameat2(new, self.target.name, self.target.parent.fd, self.target.name, flags)
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
                self._replace(new)

    def _replace(self, new: int) -> None:
        """For file systems without an exchange: the old one steps aside, and back if the new one cannot follow."""
        name, parent = self.target.name, self.target.parent.fd
        with self._open("old") as old:
            aside = mode_at(self.target) is not None
            if aside:
                os.rename(name, name, src_dir_fd=parent, dst_dir_fd=old)
                self.control.folder.fsync(f"{self.entry}/old")
            try:
                os.rename(name, name, src_dir_fd=new, dst_dir_fd=parent)
            except BaseException:
                if aside:
                    os.rename(name, name, src_dir_fd=old, dst_dir_fd=parent)
                raise

    @contextlib.contextmanager
    def _open(self, which: str) -> Iterator[int]:
        with self.control.folder.directory(f"{self.entry}/{which}") as fd:
            yield fd


def _finish(stage: _Stage, *, step: int | None, manifest: bool) -> None:
    target, control = stage.target, stage.control
    if not (stage.part.still_ours() and control.folder.exists(f"{stage.entry}/name")):
        raise _taken_over(target)  # what is left of it may be half
    with LocalRoot(os.path.dirname(stage.tree)) as above:
        found = settle_tree(above, target.name)
        newest, data_ns = above.measure(target.name).mtime_ns or 0, newest_file(above, target.name)
    companions: dict[Companion, bytes] = {}
    if manifest and step is not None:
        files = {f"{target.relative}/{path}": each for path, each in found.items()}
        finish_for_the_dead(control, target)
        companions[manifest_of(control, target, data_ns)] = manifest_bytes(target, files, step, newest)
    make_public(target, stage.appear, companions)
    if not manifest:
        control.remove_manifest(target.name)


@contextlib.contextmanager
def _stage(control: Control, target: Target) -> Iterator[_Stage]:
    """A fresh place to build in, after clearing what a dead writer of the same name left; cleared again at the end."""
    if os.fstat(control.folder.fd).st_dev != target.parent.dev:
        raise UsageError(f"{control.path} is on another file system than {target.path}: no rename leads from it")
    token = opaque(target.relative)
    with _staging(control) as staging, LocalRoot(target.root) as root:
        part = claim(Target(staging, token, target.root, label=target.path))
        try:
            _clear(control, token, root)
            entry = f"staging/{token}.{''.join(secrets.choice(string.ascii_lowercase) for _ in range(8))}"
            try:
                control.folder.mkdir(entry)
                control.folder.write_atomic(f"{entry}/name", os.fsencode(target.relative))
                for name in ("new", "old", f"new/{target.name}"):
                    control.folder.mkdir(f"{entry}/{name}")
                yield _Stage(control, target, part, entry)
            finally:
                if part.still_ours():
                    with contextlib.suppress(OSError):  # what is left is cleared by the next writer or the next prune
                        _clear(control, token, root)
        finally:
            part.discard()
            part.close()


def _taken_over(target: Target) -> Failed:
    return Failed(f"{target.shown} was not published: this writer was taken for dead, and its directory cleared")


def _clear(control: Control, token: str, root: LocalRoot) -> list[str]:
    """Removes every stage of one name, its writer being gone; puts back first what had stepped aside."""
    back: list[str] = []
    for entry in _stages(control):
        if entry.name.startswith(f"{token}."):
            back += _put_back(control, entry.path, root)
            control.folder.remove(entry.path)
    return back


def _stages(control: Control) -> list[Entry]:
    """Stages of publishers: a word for the name they build, and letters of their own. Others build here too."""
    return [e for e in control.folder.scan("staging") if e.kind is Kind.DIR and _STAGE.fullmatch(e.name)]


def _tokens(control: Control) -> list[str]:
    """The words of all names that are, or were, being built: one that died early left only its claim."""
    claims = [entry.name for entry in control.folder.scan("staging") if _CLAIM.fullmatch(entry.name)]
    return sorted({name.partition(".")[0] for name in (*claims, *(entry.name for entry in _stages(control)))})


def _put_back(control: Control, entry: str, root: LocalRoot) -> list[str]:
    try:
        aside = [found.name for found in control.folder.scan(f"{entry}/old")]
        with control.folder.open(f"{entry}/name") as file:
            relative = os.fsdecode(file.read())
    except FileNotFoundError:
        return []  # it died before anything could step aside
    head = relative.rpartition("/")[0]
    with root.directory(head) as parent, control.folder.directory(f"{entry}/old") as old:
        for name in aside:
            try:
                os.stat(name, dir_fd=parent, follow_symlinks=False)
            except FileNotFoundError:
                os.rename(name, name, src_dir_fd=old, dst_dir_fd=parent)
                root.fsync(head)
                return [relative]
    return []


@contextlib.contextmanager
def _staging(control: Control) -> Iterator[LocalRoot]:
    with LocalRoot(os.path.join(control.path, "staging")) as staging:
        yield staging
