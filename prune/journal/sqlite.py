"""The journal in one SQLite file."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from prune.journal.base import GENESIS, Event, Journal, NoJournal, link
from prune.journal.waiting import NoJournalNow, Waiting, waiting_for
from prune.model import Health, Identity, Verdict

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, run TEXT NOT NULL, kind TEXT NOT NULL, step INTEGER,
    replica TEXT, plan TEXT, data TEXT NOT NULL, hash TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS events_by_run ON events (run, step, id);
CREATE TABLE IF NOT EXISTS verifications (
    root TEXT NOT NULL, path TEXT NOT NULL, identity TEXT NOT NULL, health TEXT NOT NULL, detail TEXT,
    at_ns INTEGER NOT NULL, PRIMARY KEY (root, path));
PRAGMA user_version = 1;
"""
_VERSION = 1
_WAIT_SECONDS = 5.0


def open_sqlite(path: str, *, write: bool) -> Journal:
    """A journal that works, or a NoJournal that says why not."""
    try:
        if write:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        elif not os.path.exists(path):
            return NoJournal(path)
        uri = f"file:{quote(path)}?mode={'rwc' if write else 'ro'}"
        database = sqlite3.connect(uri, uri=True, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            database.close()
            return NoJournal(path, f"{path} was written by a newer version (schema {version}); it is left alone")
        if write and version < _VERSION:
            database.executescript(_SCHEMA)
        journal = SqliteJournal(path, database, waiting_for(path))
        if write:
            journal.catch_up()
        return journal
    except (sqlite3.Error, OSError) as error:
        return NoJournalNow(path, f"{path}: {error}", waiting_for(path))


@dataclass
class SqliteJournal:
    where: str
    database: sqlite3.Connection
    waiting: Waiting
    trouble: str | None = None

    def add(self, events: Sequence[Event]) -> None:
        if events:
            self._write([("", event) for event in events])

    def catch_up(self) -> None:
        """Writes what could not be written before."""
        if self.waiting.entries:
            self._write([])

    def _write(self, entries: list[tuple[str, Event]]) -> None:
        with self.waiting.guard:
            batch = [*self.waiting.entries, *entries]
            try:
                with self._transaction():
                    self._append(event for _, event in batch)
            except sqlite3.Error as error:
                self.waiting.keep(batch)
                self.trouble = f"{self.where}: {error}"
                return
            self.waiting.entries = []
            self.trouble = self.waiting.loss(self.where) or self.trouble

    def _append(self, events: Iterable[Event]) -> None:
        row = self.database.execute("SELECT hash FROM events ORDER BY id DESC LIMIT 1").fetchone()
        previous = row[0] if row else GENESIS
        for event in events:
            previous = link(previous, event)
            self.database.execute(
                "INSERT INTO events (at_ns, run, kind, step, replica, plan, data, hash) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (event.at_ns, _text(event.run), event.kind, event.step, event.replica, event.plan,
                 json.dumps(dict(event.data)), previous),
            )  # fmt: skip

    def history(
        self, run: str | None = None, *, step: int | None = None, kinds: Sequence[str] = (), limit: int | None = None
    ) -> list[Event]:
        wheres, values = ["1"], list[object]()
        if run is not None:
            wheres.append("run = ?")
            values.append(_text(run))
        if step is not None:
            wheres.append("step = ?")
            values.append(step)
        if kinds:
            wheres.append(f"kind IN ({', '.join('?' for _ in kinds)})")
            values += kinds
        query = f"SELECT at_ns, run, kind, step, replica, plan, data FROM events WHERE {' AND '.join(wheres)}"
        values.append(-1 if limit is None else limit)
        return [_event(row) for row in self._rows(query + " ORDER BY id DESC LIMIT ?", values)]

    def broken_link(self) -> str | None:
        previous = GENESIS
        for row in self._rows(
            "SELECT at_ns, run, kind, step, replica, plan, data, hash, id FROM events ORDER BY id", ()
        ):
            previous = link(previous, _event(row[:7]))
            if previous != row[7]:
                return f"{self.where}: entry {row[8]} does not follow from those before it"
        return None

    def verified(self, root: str, paths: tuple[str, ...], identity: Identity, verdict: Verdict, at_ns: int) -> None:
        detail = None if verdict.detail is None else verdict.detail.encode("utf-8", "backslashreplace").decode()
        try:
            self.database.execute(
                "INSERT OR REPLACE INTO verifications VALUES (?, ?, ?, ?, ?, ?)",
                (_text(root), _text(paths[0]), _words(paths, identity), verdict.health.value, detail, at_ns),
            )
        except sqlite3.Error as error:
            self.trouble = f"{self.where}: {error}"

    def evidence(self, root: str, paths: tuple[str, ...], identity: Identity) -> tuple[Verdict, int] | None:
        rows = self._rows(
            "SELECT identity, health, detail, at_ns FROM verifications WHERE root = ? AND path = ?",
            (_text(root), _text(paths[0])),
        )
        for words, health, detail, at_ns in rows:
            if words == _words(paths, identity):
                return Verdict(Health(str(health)), None if detail is None else str(detail)), int(str(at_ns))
        return None

    def close(self) -> None:
        self.database.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self.database.execute("ROLLBACK")
            raise
        self.database.execute("COMMIT")

    def _rows(self, query: str, values: Sequence[object]) -> list[tuple[object, ...]]:
        try:
            return self.database.execute(query, tuple(values)).fetchall()
        except (sqlite3.Error, ValueError) as error:
            self.trouble = f"{self.where}: {error}"
            return []


def _event(row: Sequence[object]) -> Event:
    at_ns, run, kind, step, replica, plan, data = row
    return Event(
        int(str(at_ns)), _untext(run), str(kind), None if step is None else int(str(step)), _word(replica), _word(plan),
        json.loads(str(data)),
    )  # fmt: skip


def _word(value: object) -> str | None:
    return None if value is None else str(value)


def _words(paths: tuple[str, ...], identity: Identity) -> str:
    return json.dumps([list(paths), identity.dev, identity.ino, identity.size, identity.mtime_ns, identity.ctime_ns,
                       identity.files])  # fmt: skip


def _text(value: str) -> str:
    """Names that are not UTF-8 hold surrogates, which SQLite refuses; JSON spells them out."""
    return json.dumps(value)[1:-1]


def _untext(value: object) -> str:
    return str(json.loads(f'"{value}"'))
