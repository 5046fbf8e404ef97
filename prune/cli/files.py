"""Files that a command is asked to write: whole or not at all, and never into a root."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from prune.cli.output import to_json
from prune.errors import Failed, UsageError
from prune.settings.roots import is_url
from prune.settings.schema import Settings


def write_beside_roots(path: str, document: Mapping[str, Any], settings: Settings) -> None:
    """Writes a JSON document. Raises UsageError for a place inside a root, Failed where it cannot be written."""
    write_pieces_beside_roots(path, [to_json(document)], settings)


def write_pieces_beside_roots(path: str, pieces: Iterable[str], settings: Settings) -> None:
    """The same for a document that comes in pieces."""
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    for replica in (replica for run in settings.runs for replica in run.replicas):
        if not is_url(replica.root) and _inside(folder, os.path.realpath(replica.root)):
            raise UsageError(
                f"--out {path}: lies in the root {replica.root}",
                mend="Nothing is ever put among checkpoints; write it somewhere else.",
            )
    _write(path, pieces)


def write_whole(path: str, text: str) -> None:
    """Writes a file by rename, so that nobody reads half of it. Raises Failed."""
    _write(path, [text])


def _write(path: str, pieces: Iterable[str]) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    try:
        if not os.path.isfile(path) and os.path.lexists(path) and not os.path.islink(path):
            with open(path, "w", encoding="utf-8") as file:  # a pipe or a device is written to, not replaced
                file.writelines(pieces)
            return
        fd, temporary = tempfile.mkstemp(dir=folder, prefix=".prune-", suffix=".next")
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise Failed(f"{path}: cannot be written: {error.strerror}") from None


def _inside(folder: str, root: str) -> bool:
    return folder == root or folder.startswith(root + os.sep)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
