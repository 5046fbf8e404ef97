"""How a partial save came about, as far as what is on disk tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from prune.integrity.files import final_name, name_of, plain
from prune.layouts.base import Members
from prune.model import SECOND
from prune.stores.base import FileStat, Reader, Space

_NFS = re.compile(r"\.nfs[0-9a-f]{8,}")
_BLOCK, _BUFFER = 4096, 1 << 20
_PIECE = 1 << 20
_MOST_TAIL = 1 << 30  # bytes of zeros that are counted from the end; past that it is as good as all
_LITTLE = 16 << 20  # bytes free on a volume that is as good as full
_HOURS = 6 * 3600 * SECOND  # between the files of one save


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one damaged or short file; None and the defaults where it is not known."""

    path: str
    found: int  # its length in bytes
    expected: int | None = None  # by its manifest, its format, its siblings or the other replica
    zeros: int = 0  # zero bytes at its end
    allocated: int | None = None  # bytes of blocks it has on disk
    temporaries: tuple[str, ...] = ()  # unfinished names beside it, of the same step
    free_bytes: int | None = None  # on its volume
    free_inodes: int | None = None  # None: not counted
    silly_names: tuple[str, ...] = ()  # what NFS clients leave of files removed while open
    spread_ns: int = 0  # between the oldest and the newest file of the copy
    siblings_spread_ns: int | None = None  # the same in a good copy of the run
    foreign_writer: str | None = None  # who else has it open or wrote it, where it can be told


@dataclass(frozen=True, slots=True)
class Mechanism:
    """The likely way it happened: a short name, stable for metrics, and a sentence with the evidence."""

    name: str
    sentence: str


def mechanism(evidence: Evidence) -> Mechanism | None:
    """The likeliest mechanism, the strongest evidence first; None when nothing tells."""
    return next((found for rule in _RULES if (found := rule(evidence)) is not None), None)


def gather(
    members: Members,
    reader: Reader,
    path: str,
    *,
    expected: int | None = None,
    beside: Mapping[str, FileStat] | None = None,
    space: Space | None = None,
    siblings_spread_ns: int | None = None,
    foreign_writer: str | None = None,
) -> Evidence:
    """Evidence about one file of a copy. ``beside`` are temporaries of the same step outside of it.

    Raises OSError when the file is there and cannot be read; one that is missing has length 0.
    """
    files = plain(members)
    names = [*files, *(beside or {})]
    stat = files.get(path)
    return Evidence(
        path,
        stat.size if stat else 0,
        expected,
        zeros_at_end(reader, path) if stat and stat.size else 0,
        stat.allocated if stat else None,
        tuple(sorted(name for name in names if final_name(name) is not None)),
        space.free_bytes if space else None,
        space.free_inodes if space else None,
        tuple(sorted(name for name in names if _NFS.fullmatch(name_of(name)))),
        spread(members),
        siblings_spread_ns,
        foreign_writer,
    )


def spread(members: Members) -> int:
    """Nanoseconds between the oldest and the newest file of a copy."""
    times = [stat.mtime_ns for stat in plain(members).values() if stat.mtime_ns > 0]
    return max(times) - min(times) if times else 0


def zeros_at_end(reader: Reader, path: str) -> int:
    """How many bytes at the end of a file are zero, up to a bound. Raises OSError."""
    zeros = 0
    with reader.open(path) as file:
        at = file.seek(0, 2)
        while at > 0 and zeros < _MOST_TAIL:
            start = max(0, at - _PIECE)
            file.seek(start)
            piece = file.read(at - start)
            kept = len(piece.rstrip(b"\0"))
            zeros += len(piece) - kept
            if kept or not piece:
                break
            at = start
    return zeros


def _disk_full(evidence: Evidence) -> Mechanism | None:
    free, inodes = evidence.free_bytes, evidence.free_inodes
    missing = max(0, (evidence.expected or 0) - evidence.found)
    if free is not None and free < max(_LITTLE, missing):
        return Mechanism("disk-full", f"the disk was full: {free} bytes are free, {missing} bytes of it are missing")
    if inodes == 0:
        return Mechanism("disk-full", "no inode was left on the volume")
    return None


def _nfs(evidence: Evidence) -> Mechanism | None:
    if not evidence.silly_names:
        return None
    return Mechanism(
        "network-file-system",
        f"{evidence.silly_names[0]} is there: a file was removed on another host while it was open on this one",
    )


def _two_writers(evidence: Evidence) -> Mechanism | None:
    if evidence.foreign_writer is not None:
        return Mechanism("two-writers", f"{evidence.foreign_writer} has it open as well")
    usual = evidence.siblings_spread_ns
    if usual is not None and evidence.spread_ns > max(10 * usual, _HOURS):
        hours = evidence.spread_ns / (3600 * SECOND)
        return Mechanism(
            "two-writers", f"its files were written {hours:.1f} hours apart: a second save into it did not finish"
        )
    return None


def _hole(evidence: Evidence) -> Mechanism | None:
    allocated = evidence.allocated
    if evidence.found and evidence.zeros >= min(_BLOCK, evidence.found):
        return Mechanism(
            "unsynced",
            f"its last {evidence.zeros} of {evidence.found} bytes are zero: the machine went down, or the writer was "
            "killed, before the data reached the disk",
        )
    if allocated is not None and evidence.found > _BUFFER and allocated < evidence.found // 2 and evidence.zeros:
        return Mechanism("unsynced", f"only {allocated} of its {evidence.found} bytes were ever written")
    return None


def _killed(evidence: Evidence) -> Mechanism | None:
    short = evidence.expected is not None and evidence.found < evidence.expected
    if evidence.temporaries and (short or final_name(evidence.path) is not None):
        return Mechanism(
            "killed", f"{evidence.temporaries[0]} was left behind: the writer was killed before it could rename it"
        )
    if evidence.expected is not None and short and evidence.found == 0:
        return Mechanism("killed", "nothing was written: the writer was killed right after opening it")
    for unit, word in ((_BUFFER, "1 MiB"), (_BLOCK, "4 KiB")):
        if short and evidence.found and evidence.found % unit == 0:
            return Mechanism(
                "killed", f"it ends after a whole number of {word} buffers: the writer was killed between two of them"
            )
    return None


def _cut(evidence: Evidence) -> Mechanism | None:
    if evidence.expected is None or evidence.found >= evidence.expected:
        return None
    share = 100 * evidence.found // evidence.expected
    return Mechanism(
        "interrupted", f"it ends after {share} % of its expected {evidence.expected} bytes: a write or copy broke off"
    )


_RULES = (_nfs, _two_writers, _disk_full, _hole, _killed, _cut)
