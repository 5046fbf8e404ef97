"""A finished build gets its final names, what tells completeness last; what it replaces goes to the trash.

The locks are held. Manifests are on disk before the first name is given and get their own after the last.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import time
from collections.abc import Iterator, Sequence

from prune.control import record
from prune.control.record import Withdrawal
from prune.deletion import trash
from prune.deletion.recovery import REPAIRED
from prune.evidence import set_by_somebody
from prune.integrity.manifest import Manifest, ManifestFile, content_digest, serialise
from prune.inventory.judging import manifest_of
from prune.inventory.site import OpenReplica
from prune.layouts.base import Layout
from prune.mirror import place as places
from prune.mirror.build import Build
from prune.mirror.place import Place
from prune.model import Copy, Kind
from prune.publish.install import NEXT, Companion
from prune.stores.local import LocalRoot

_NO_EXCHANGE = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})


def manifest_of_build(build: Build) -> Manifest:
    """What landed, as one manifest. A source's own time of making is kept, else the time it was last written."""
    files = tuple(ManifestFile(path, found.size, found.sha256) for path, found in sorted(build.landed.items()))
    own, _ = manifest_of(build.source, build.order.source)
    in_force = own is not None and set(own.files) <= set(files)
    written = build.order.source.mtime_ns
    created = own.created_at_ns if own is not None and in_force else written if set_by_somebody(written) else None
    return Manifest(build.order.name.rpartition("/")[2], build.order.step, created or time.time_ns(), files)


def appear(build: Build, layout: Layout, *, now_ns: int, repaired_ns: int, plan: str) -> Manifest:
    """Gives the build its names and returns its manifest; what it replaces waits in the trash for ``repaired_ns``.

    Raises OSError with every final name as it was before, FileExistsError where one was taken meanwhile.
    """
    assert build.target.root is not None
    assert build.target.control is not None
    manifest = manifest_of_build(build)
    if build.target.in_store:
        from prune.mirror.upload import Upload

        assert isinstance(build, Upload)
        build.appear(manifest)
        return manifest
    waiting = _companions(build, manifest)
    try:
        for companion, data in waiting:
            companion.write(data)
        for parent in sorted({place.path.rpartition("/")[0] for place in build.places}):
            places.make_directories(build.target.root, parent)
        _give_names(build, layout, now_ns=now_ns, repaired_ns=repaired_ns, plan=plan)
    except BaseException:
        for companion, _ in waiting:
            companion.withdraw()
        raise
    for companion, _ in waiting:
        companion.install()
    build.forget()
    return manifest


def sha256_of(manifest: Manifest) -> str:
    """The hash that a person compares: a lone file's own, else the digest over all files."""
    return manifest.files[0].sha256 if len(manifest.files) == 1 else content_digest(manifest)


# --- names -------------------------------------------------------------------------------------------------------


def _give_names(build: Build, layout: Layout, *, now_ns: int, repaired_ns: int, plan: str) -> None:
    root, old = build.target.root, build.order.replaces
    assert root is not None
    order = list(reversed(layout.withdraw_order([place.path for place in build.places])))
    rising = sorted(build.places, key=lambda place: order.index(place.path))
    if build.order.pointer:
        _over(rising[0], root)
    elif old is None:
        _into_free_names(rising, root)
    elif len(rising) == 1 and old.paths == (rising[0].path,):
        _in_place_of(rising[0], build.target, old, now_ns=now_ns, repaired_ns=repaired_ns, plan=plan)
    else:
        _after_withdrawing(rising, build.target, old, now_ns=now_ns, repaired_ns=repaired_ns, plan=plan)
    trash.sync_parents(root, [place.path for place in rising])
    _times_again(build)


def _into_free_names(rising: Sequence[Place], root: LocalRoot) -> None:
    """One after the other; where one is refused, those given are taken back, the last first."""
    given: list[Place] = []
    try:
        for place in rising:
            place.holder.rename_new(place.at, place.path, into=root)
            given.append(place)
    except BaseException:
        for place in reversed(given):
            root.rename(place.path, place.at, into=place.holder)
        raise


def _over(place: Place, root: LocalRoot) -> None:
    """A copy under a pointer's name takes the place of an older one, which is no checkpoint of its own."""
    if place.holder.stat(place.at).kind is not Kind.DIR or not root.exists(place.path):
        place.holder.rename(place.at, place.path, into=root)
        return
    place.holder.exchange(place.at, place.path, into=root)
    place.holder.remove(place.at)


def _in_place_of(place: Place, target: OpenReplica, old: Copy, *, now_ns: int, repaired_ns: int, plan: str) -> None:
    """One name: the old copy and the new one change places, so that it is never absent."""
    assert target.control is not None
    assert target.root is not None
    gone = _withdrawal(old, plan, now_ns)
    out = f"trash/{gone.moves[0][1]}"
    with _recorded(target, gone, now_ns + repaired_ns):
        place.holder.rename(place.at, out, into=target.control.folder)
        try:
            target.control.folder.exchange(out, place.path, into=target.root)
        except OSError as error:
            if error.errno not in _NO_EXCHANGE:
                target.control.folder.rename(out, place.at, into=place.holder)
                raise
            target.control.folder.rename(out, place.at, into=place.holder)
            _step_aside(place, target, out)


def _step_aside(place: Place, target: OpenReplica, out: str) -> None:
    """Where names cannot be exchanged: a file is replaced with a second name of the old one in the trash; a
    directory goes there first, and recovery brings it back if nothing follows it."""
    assert target.control is not None
    assert target.root is not None
    if target.root.stat(place.path).kind is Kind.DIR or place.holder.stat(place.at).kind is Kind.DIR:
        target.root.rename(place.path, out, into=target.control.folder)
    else:
        with target.root.parent(place.path) as (src, name), target.control.folder.parent(out) as (dst, new):
            os.link(name, new, src_dir_fd=src, dst_dir_fd=dst, follow_symlinks=False)
    place.holder.rename(place.at, place.path, into=target.root)


def _after_withdrawing(
    rising: Sequence[Place], target: OpenReplica, old: Copy, *, now_ns: int, repaired_ns: int, plan: str
) -> None:
    """Several names: the damaged copy goes as a deletion would take it, then the new one comes."""
    assert target.control is not None
    assert target.root is not None
    gone = _withdrawal(old, plan, now_ns)
    moved: list[tuple[str, str]] = []
    try:
        with _recorded(target, gone, now_ns + repaired_ns):
            for path, name in gone.moves:
                with contextlib.suppress(FileNotFoundError):
                    target.root.rename(path, f"trash/{name}", into=target.control.folder)
                    moved.append((path, name))
        _into_free_names(rising, target.root)
    except OSError:
        for path, name in reversed(moved):
            target.control.folder.rename_new(f"trash/{name}", path, into=target.root)
        target.control.append_record(record.back_line(gone.id))
        raise


@contextlib.contextmanager
def _recorded(target: OpenReplica, gone: Withdrawal, until_ns: int) -> Iterator[None]:
    """The record says that a copy is on its way out, then that it waits in the trash; or, on an error, is back."""
    assert target.control is not None
    assert target.root is not None
    target.control.append_record(record.intent_line(gone))
    try:
        yield
        trash.sync_parents(target.root, [path for path, _ in gone.moves])
        target.control.folder.fsync("trash")
    except OSError:
        if not any(target.control.folder.exists(f"trash/{name}") for _, name in gone.moves):
            target.control.append_record(record.back_line(gone.id))
        raise
    target.control.append_record(record.withdrawn_line(gone.id, until_ns))


def _withdrawal(old: Copy, plan: str, now_ns: int) -> Withdrawal:
    moves = tuple((path, record.opaque_name()) for path in old.paths)
    return Withdrawal(secrets.token_hex(8), plan, old.step, moves, old.identity, old.bytes or 0, now_ns, why=REPAIRED)


def _times_again(build: Build) -> None:
    """Some file systems touch a directory that is renamed; one that nobody may write gets that mode only now."""
    assert build.source.root is not None
    assert build.target.root is not None
    for place in build.places:
        if place.path in build.members.dirs:
            places.dress(build.target.root, place.path, places.status(build.source.root, place.path))


# --- manifests ---------------------------------------------------------------------------------------------------


def _companions(build: Build, manifest: Manifest) -> list[tuple[Companion, bytes]]:
    """A manifest for each top-most entry, of the files that are its own; sidecars need none."""
    control = build.target.control
    assert control is not None
    if build.order.pointer:
        return []
    found = []
    for place in build.places:
        files = tuple(f for f in manifest.files if f.path == place.path or f.path.startswith(place.path + "/"))
        if not files or place.path.endswith(".sha256"):
            continue
        name = place.path.rpartition("/")[2]
        own = Manifest(name, manifest.step, manifest.created_at_ns, files)
        written = max(build.members.files[f.path].mtime_ns for f in files)
        companion = Companion(control.folder, f"manifests/{name}{NEXT}", f"manifests/{name}.json", written)
        found.append((companion, serialise(own)))
    return found
