"""Paths of checkpoints in a log: which one a trouble speaks of."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

_QUOTED = re.compile(r"""(?P<mark>['"`])(?P<path>[^'"`\n]{1,4096})(?P=mark)""")
_BARE = re.compile(r"(?:file://)?(?P<path>[~/.\w][^\s'\"`<>|()\[\]{},;]*)")
_TRAILING = ".,:;!?…"
_EXTENSION = re.compile(
    r"\.(?:pt|pth|ckpt|bin|safetensors|npz|npy|h5|hdf5|keras|pkl|pickle|distcp|index|msgpack|tar|part|"
    r"data-[0-9]{5}-of-[0-9]{5}|index\.json)\Z",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"(?:checkpoint|ckpt|global_step|iter|step|epoch|ep|state)s?[-_=]?[0-9]+(?:[-_=.].*)?", re.IGNORECASE | re.DOTALL
)
_NAMED = frozenset({
    "trainer_state.json", ".metadata", "metadata.json", "latest", "latest_checkpointed_iteration.txt", "checkpoint",
    "_METADATA", "_CHECKPOINT_METADATA", "manifest.ocdbt", "commit_success.txt", "training_args.bin",
    "checkpoint_manager_snapshot.json", "latest_train_state.pt",
})  # fmt: skip
_CODE = re.compile(
    r"site-packages|dist-packages|\.(?:py|pyc|so|cc|cpp|cu|h|log|txt|yaml|yml|toml|whl)\Z|\Aarchive/", re.I
)
_UNFILLED = re.compile(r"\{[^{}]*\}|%[sd(]")  # a line of code with the path yet to be made
_BACK, _FORWARD = 120, 30  # lines around a trouble that may name its file
_INDIRECT = frozenset({"latest", "checkpoint"})  # words of everyday sentences too: names only as part of a path


def names_checkpoint(line: str) -> bool:
    """Whether a line names something that looks like a checkpoint or a file of one, or code in it that will."""
    return next(_like_checkpoints(line), None) is not None


def candidates(lines: Sequence[str], number: int) -> list[str]:
    """Paths that the trouble in line ``number`` (from 1) may speak of, the likeliest first.

    Those on the line itself, then those above it, nearest first, then those below.
    """
    at = number - 1
    above = range(at, max(-1, at - _BACK), -1)
    below = range(at + 1, min(len(lines), at + _FORWARD))
    rest = range(at - _BACK, -1, -1)
    found: dict[str, None] = {}
    for order in (above, below, rest):
        for place in order:
            found.update(dict.fromkeys(found_in(lines[place])))
    return list(found)


def found_in(line: str) -> Iterator[str]:
    """Paths in a line that look like checkpoints, quoted ones first: they may hold spaces."""
    return (path for path in _like_checkpoints(line) if not _UNFILLED.search(path))


def _like_checkpoints(line: str) -> Iterator[str]:
    for match in _QUOTED.finditer(line):
        if _looks_like(match["path"]):
            yield match["path"]
    for match in _BARE.finditer(_QUOTED.sub(" ", line)):
        path = match["path"].rstrip(_TRAILING)
        path = path.partition("=")[2] if re.match(r"\w+=[/~.]", path) else path
        if _looks_like(path):
            yield path


def _looks_like(path: str) -> bool:
    name = os.path.basename(path.rstrip("/"))
    if not name or "\0" in path or "://" in path.removeprefix("file://"):
        return False
    if name in _NAMED:
        return name not in _INDIRECT or "/" in path
    if _CODE.search(path):
        return False
    if _EXTENSION.search(name):
        return not name.startswith(".") or name.count(".") > 1
    return any(_STEP.fullmatch(part) for part in path.split("/")[-3:]) and "/" in path
