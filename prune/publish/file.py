"""Publishing one file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from prune.control import Control
from prune.errors import Failed
from prune.integrity.hashing import Hashed
from prune.integrity.sidecar import render
from prune.publish.claim import Part, claim
from prune.publish.install import (
    NEXT,
    SIDECAR,
    Companion,
    Told,
    finish_for_the_dead,
    make_public,
    manifest_bytes,
    manifest_of,
    sidecar_of,
    step_of,
)
from prune.publish.stream import PartFile
from prune.publish.target import (
    PART,
    StrPath,
    Target,
    control_path,
    locate,
    refuse_long_names,
    refuse_unless_file,
)


@contextlib.contextmanager
def publish(
    path: StrPath, *, step: int | None = None, manifest: bool = True, sidecar: bool = False, root: StrPath | None = None
) -> Iterator[PartFile]:
    """A file that appears under its name only when it is whole, and never otherwise.

    Gives a writable, seekable binary file; size and SHA-256 are taken as it is written::

        with prune.publish("/data/ckpt/tiny/step_0810.pt", step=810) as file:
            torch.save(state, file)

    What is written goes to ``NAME.part`` beside the name. When the block ends, the file is synced to disk, its
    manifest written, and it is renamed; an older file or link of that name is replaced in the same instant. When
    the block raises, or anything fails, the temporary is removed and the name stays as it was. A library that only
    takes a path may be given ``file.name``; what it wrote there is then read once for its hash.

    step: the step's number for the manifest; without it the name must tell. manifest: whether one is written, into
    the root's control folder. sidecar: also write ``NAME.sha256`` in coreutils form (one that is there is renewed in
    any case). root: the run's root, where ``path`` lies deeper than directly in it and the root is not known as one.

    Raises Busy while another process writes this name, UsageError where nothing can be published under it, Failed
    when the disk would not take it; what the block raised passes through.
    """
    target = locate(path, root=root)
    with contextlib.closing(target.parent), contextlib.ExitStack() as cleanup:
        with Told(target):
            refuse_unless_file(target)
            sidecar = sidecar or os.access(target.name + SIDECAR, os.F_OK, dir_fd=target.parent.fd)
            refuse_long_names(target, PART, *([NEXT] if manifest else []), *([SIDECAR + PART] if sidecar else []))
            step = step_of(target.name) if step is None and manifest else step
            control = cleanup.enter_context(_control(target)) if manifest else None
            part = claim(target)
        file = PartFile(part.fd, part.path)
        try:
            with _cause_told(file, target):
                yield file
            with Told(target):
                _finish(part, _settle(part, file), control, step=step, sidecar=sidecar)
        except BaseException:
            part.discard()
            raise
        finally:
            file.release()
            part.close()


@contextlib.contextmanager
def _cause_told(file: PartFile, target: Target) -> Iterator[None]:
    """Serialisers turn a full disk into errors of their own; the write that failed is then the cause to tell."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        if file.trouble is None:
            raise
        with Told(target):
            raise file.trouble from error


def _settle(part: Part, file: PartFile) -> Hashed:
    """Everything on disk, with size and hash. Refuses an empty file: a final name says that there is something."""
    if not part.still_ours() and not part.reopen():
        raise _taken_over(part)
    written = file.finish(part.fd)
    if written.size == 0:
        raise Failed(f"{part.target.shown} was not published: nothing was written to it, and an empty file is no save")
    return written


def _finish(part: Part, written: Hashed, control: Control | None, *, step: int | None, sidecar: bool) -> None:
    target = part.target
    companions: dict[Companion, bytes] = {}
    if control is not None and step is not None:
        newest = os.fstat(part.fd).st_mtime_ns
        finish_for_the_dead(control, target)
        said = manifest_bytes(target, {target.relative: written}, step, newest)
        companions[manifest_of(control, target, newest)] = said
    if sidecar:
        companions[sidecar_of(target)] = render({target.name: written.sha256})
    make_public(target, lambda: _appear(part), companions)
    if control is None:
        _drop_stale_manifest(target)


def _control(target: Target) -> contextlib.closing[Control]:
    """Made before the first byte is written: where it can stand nowhere, nobody waits for a save to learn it."""
    return contextlib.closing(Control.make(control_path(target.root, target.name)))


def _appear(part: Part) -> None:
    if not part.still_ours():
        raise _taken_over(part)
    part.unsign()
    parent = part.target.parent.fd
    os.rename(part.name, part.target.name, src_dir_fd=parent, dst_dir_fd=parent)


def _drop_stale_manifest(target: Target) -> None:
    """The manifest of the file that was replaced speaks of another content."""
    with contextlib.suppress(OSError), contextlib.closing(Control.open(control_path(target.root))) as control:
        control.remove_manifest(target.name)


def _taken_over(part: Part) -> Failed:
    return Failed(
        f"{part.target.shown} was not published: {part.path} is no longer the file this process wrote",
        mend="another writer took this one for dead, or the temporary was removed",
    )
