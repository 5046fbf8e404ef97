"""A file brought out of an object store: hashed on its way and read back, with the times its object had."""

from __future__ import annotations

import hashlib
import os
import stat as modes
from dataclasses import dataclass
from typing import BinaryIO

from prune.mirror.transfer import Differs, Landed, SourceDamaged, Transfer
from prune.model import Kind
from prune.stores.base import FileStat

PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class AsMade:
    """What is given to a file from a store: this user's, readable as usual, written when its object was."""

    st_mode: int
    st_atime_ns: int
    st_mtime_ns: int
    st_uid: int = -1
    st_gid: int = -1


def as_made(status: FileStat) -> AsMade:
    umask = os.umask(0)
    os.umask(umask)
    kind, usual = (modes.S_IFDIR, 0o777) if status.kind is Kind.DIR else (modes.S_IFREG, 0o666)
    return AsMade(kind | (usual & ~umask), status.mtime_ns, status.mtime_ns)


def fetch(source: BinaryIO, target: int, size: int, transfer: Transfer, expected: str | None) -> Landed:
    """Fills an open file, whatever it held, and syncs it. Raises Differs, SourceDamaged, OSError, and what the
    transfer's ``tick`` raises."""
    os.ftruncate(target, 0)
    digest, at = hashlib.sha256(), 0
    while piece := source.read(PIECE):
        digest.update(piece)
        view = memoryview(piece)
        while view:
            written = os.pwrite(target, view, at)
            at, view = at + written, view[written:]
        transfer.tick(len(piece))
    sent = digest.hexdigest()
    if at != size or (expected is not None and sent != expected):
        raise SourceDamaged(f"expected {size} bytes of SHA-256 {expected or 'unknown'}, found {at} of {sent}")
    transfer.landed(target)
    os.fsync(target)
    if transfer.cold:
        os.posix_fadvise(target, 0, 0, os.POSIX_FADV_DONTNEED)
    back = _hash(target)
    if back != sent:
        raise Differs(f"sent SHA-256 {sent}, read back {back}: the bytes changed on their way")
    return Landed(at, back)


def _hash(target: int) -> str:
    digest, at = hashlib.sha256(), 0
    while piece := os.pread(target, PIECE, at):
        digest.update(piece)
        at += len(piece)
    return digest.hexdigest()
