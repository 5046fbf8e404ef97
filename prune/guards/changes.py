"""The guard of applying: what is on disk must still be what was planned."""

from __future__ import annotations

from prune.model import Copy


def changed(planned: Copy, found: Copy, *, stable_inodes: bool = False, renamed: bool = False) -> str | None:
    """What is no longer as it was planned, as a sentence; None where nothing is.

    Inodes are compared only where the file system keeps them (``stable_inodes``): over a network the same file may
    come back under another. ``renamed``: ``found`` is what we have just withdrawn, and a rename sets the ctime and the
    path itself.
    """
    if planned.paths != found.paths and not renamed:
        return f"its entries were {', '.join(planned.paths)} and are {', '.join(found.paths)}"
    then, now = planned.identity, found.identity
    compared = {
        "device": (then.dev, now.dev),
        "inode": (then.ino, now.ino) if stable_inodes else (0, 0),
        "number of files": (then.files, now.files),
        "size": (then.size, now.size),
        "mtime": (then.mtime_ns, now.mtime_ns),
        "ctime": (0, 0) if renamed else (then.ctime_ns, now.ctime_ns),
    }
    differences = (f"its {what} was {old} and is {new}" for what, (old, new) in compared.items() if old != new)
    return next(differences, None)
