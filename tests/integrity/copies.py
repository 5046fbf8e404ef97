"""Helpers: a copy's files as members, from real files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from prune.integrity import structure
from prune.layouts.base import Members
from prune.model import Kind, Verdict
from prune.stores.base import FileStat
from prune.stores.local import LocalRoot


def members_of(root: LocalRoot, paths: Sequence[str], step: int = 1) -> Members:
    """Everything below the given top-most paths."""
    files: dict[str, FileStat] = {}
    dirs: dict[str, FileStat] = {}
    for path in paths:
        for entry, stat in root.walk(path):
            (dirs if stat.kind is Kind.DIR else files)[entry.path] = stat
    return Members(step, tuple(paths), files, dirs)


@contextmanager
def copy_at(root: Path, *paths: str) -> Iterator[tuple[Members, LocalRoot]]:
    """Members and reader of the copy made of ``paths``; of everything in the root when none is given."""
    with LocalRoot(str(root)) as reader:
        yield members_of(reader, paths or sorted(p.name for p in root.iterdir())), reader


def examined(root: Path, *paths: str) -> Verdict:
    """What the structure of that copy says."""
    with copy_at(root, *paths) as (members, reader):
        return structure.examine(members, reader)
