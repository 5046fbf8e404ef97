"""What an audit finds: a place where something is written straight onto a final name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One writer. ``target`` is what it writes, as the source says it; ``safe`` the form that shows nothing half."""

    file: str
    line: int
    writer: str
    target: str
    why: str
    safe: str


@dataclass(frozen=True, slots=True)
class Audited:
    """What came of reading sources."""

    findings: tuple[Finding, ...]
    files: int  # read
    tests: int  # files of tests, passed over
    unparsed: tuple[str, ...]  # file and reason: not a source that this version of Python can parse
    unread: tuple[str, ...]  # file and reason: an error of the file system


IN_PLACE = (
    "it grows under its final name: whoever lists the directory meanwhile, or after a kill, sees half of it as whole"
)
REPLACED = "the old one is destroyed before the new one is whole: a kill in between leaves neither"
COPIED = "a copy onto a final name grows there: a kill or a full disk leaves half of it, named as if it were whole"
MOVED = "across file systems a move is a copy onto the final name, and then a removal of the source"
POINTER = "the pointer is emptied before it is written: a kill in between leaves one that names nothing"
TRANSACTION = (
    "fsspec writes to the system's temporary directory and moves the file: where that is another file system, as it "
    "is with shared storage, the move is a copy onto the final name"
)
