"""Verdicts by the marker files that stacks write last, or only while they save."""

from __future__ import annotations

import re
from collections.abc import Mapping

from prune.layouts.base import FileStat, Health, Members, Verdict

UNFINISHED = "the save did not finish"


def broken(path: str, why: str) -> Verdict:
    """Broken, with the path first as in every verdict."""
    return Verdict(Health.BROKEN, f"{path}: {why}")


def missing(directory: str, name: str, why: str = UNFINISHED) -> Verdict:
    """Broken, since a file is not there."""
    return broken(directory, f"{name} is missing: {why}")


def empty(members: Members) -> Verdict | None:
    """Broken, where a step's directory holds no file at all."""
    if members.files:
        return None
    return broken(members.paths[0] if members.paths else f"step {members.step}", f"holds no file: {UNFINISHED}")


def top(members: Members) -> tuple[str, dict[str, FileStat]]:
    """The step's own directory and the files below it, by path relative to it."""
    path = members.paths[0]
    return path, members.below(path)


def at_top(files: Mapping[str, FileStat]) -> set[str]:
    """The names directly in a directory, of files and of directories that hold some."""
    return {name.partition("/")[0] for name in files}


def matching(members: Members, pattern: re.Pattern[str]) -> list[str]:
    """Files and directories in a step's own directory whose path in it fits in full, by path relative to the root."""
    prefix = members.paths[0] + "/"
    inside = (name for name in (*members.files, *members.dirs) if name.startswith(prefix))
    return sorted(name for name in inside if pattern.fullmatch(name[len(prefix) :]))
