"""History and cache: "why is step 810 gone" has an answer months later. Losing it makes no decision less safe."""

from __future__ import annotations

import os
import sys

from prune.errors import UsageError
from prune.journal.base import Event, Journal, NoJournal

__all__ = ["Event", "Journal", "NoJournal", "default_state", "open_journal"]


def default_state() -> str:
    """SQLite in the user's state directory."""
    return f"sqlite:///{os.path.join(_state_directory(), 'prune.db')}"


def _state_directory() -> str:
    """The same as platformdirs says. On Linux by its rule, without its imports: they cost a preview more than its
    listing does."""
    if sys.platform == "linux":
        base = os.environ.get("XDG_STATE_HOME", "").strip() or os.path.expanduser("~/.local/state")
        return os.path.join(base, "ckpt-prune")
    import platformdirs

    return platformdirs.user_state_dir("ckpt-prune", appauthor=False)


def open_journal(state: str | None, *, write: bool) -> Journal:
    """The journal at a URL (None: the default). One that cannot be opened is a NoJournal that says why.

    ``write=False`` creates nothing. Raises UsageError for a URL of no known kind.
    """
    url = state or default_state()
    if url.startswith("sqlite:///"):
        from prune.journal.sqlite import open_sqlite

        return open_sqlite(url.removeprefix("sqlite:///"), write=write)
    if url.startswith(("postgresql://", "postgresql+")):
        return _open_postgres(url, write=write)
    raise UsageError(f"state = {_without_secret(url)!r} is no state this version knows",
                     mend="use sqlite:///ABSOLUTE/PATH or postgresql://USER@HOST/DATABASE")  # fmt: skip


def _open_postgres(url: str, *, write: bool) -> Journal:
    try:
        from prune.journal.postgres import open_postgres
    except ImportError as error:
        raise UsageError(f"state = {_without_secret(url)!r} needs PostgreSQL support, which is not installed: {error}",
                         mend="pip install 'ckpt-prune[postgres]'") from None  # fmt: skip
    return open_postgres(url, write=write)


def _without_secret(url: str) -> str:
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://…@{tail}" if at else url
