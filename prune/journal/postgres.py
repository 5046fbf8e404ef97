"""The journal that many hosts share, on PostgreSQL: one history, one chain, whoever writes."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, desc, func, select
from sqlalchemy.dialects.postgresql import insert

from prune.journal.base import GENESIS, Event, link
from prune.journal.leases import RunLease
from prune.journal.server import Server, Unavailable, server_of
from prune.journal.tables import EVENTS, VERIFICATIONS, spelled, unspelled
from prune.journal.waiting import Waiting, waiting_for
from prune.model import Health, Identity, Verdict

HISTORY_LOCK = 0x636B70740002
PAGE = 5_000

_EVENT = (EVENTS.c.at_ns, EVENTS.c.run, EVENTS.c.kind, EVENTS.c.step, EVENTS.c.replica, EVENTS.c.plan, EVENTS.c.data)


def open_postgres(url: str, *, write: bool) -> PostgresJournal:
    """The journal at a URL. Where the server cannot be reached it says so in ``trouble``, and tries again with each
    call. Raises UsageError for a URL that is none."""
    server = server_of(url)
    journal = PostgresJournal(server.where, server, waiting_for(url))
    try:
        journal.there = server.prepare(write=write)
    except Unavailable as error:
        journal.trouble = str(error)
    return journal


@dataclass
class PostgresJournal:
    """Writes never raise: what could not be written stands in ``trouble`` and waits in memory."""

    where: str
    server: Server
    waiting: Waiting
    trouble: str | None = None
    there: bool = True  # there are tables to read

    # --- history ---------------------------------------------------------------------------------------------

    def add(self, events: Sequence[Event]) -> None:
        if events:
            self._write([(uuid.uuid4().hex, event) for event in events])

    def history(
        self, run: str | None = None, *, step: int | None = None, kinds: Sequence[str] = (), limit: int | None = None
    ) -> list[Event]:
        query = select(*_EVENT).order_by(desc(EVENTS.c.id)).limit(limit)
        if run is not None:
            query = query.where(EVENTS.c.run == spelled(run))
        if step is not None:
            query = query.where(EVENTS.c.step == step)
        if kinds:
            query = query.where(EVENTS.c.kind.in_(list(kinds)))
        return [_event(row) for row in self._rows(query)]

    def broken_link(self) -> str | None:
        previous = GENESIS
        for *words, chained, number in self._all_events():
            previous = link(previous, _event(words))
            if previous != chained:
                return f"{self.where}: entry {number} does not follow from those before it"
        return None

    # --- what content checks found ---------------------------------------------------------------------------

    def verified(self, root: str, paths: tuple[str, ...], identity: Identity, verdict: Verdict, at_ns: int) -> None:
        found = {
            "identity": _words(paths, identity),
            "health": verdict.health.value,
            "detail": None if verdict.detail is None else spelled(verdict.detail),
            "at_ns": at_ns,
        }
        new = insert(VERIFICATIONS).values(**_place(root, paths), **found)
        try:
            self.server.prepare(write=True)
            with self.server.transaction() as connection:
                connection.execute(new.on_conflict_do_update(constraint=VERIFICATIONS.primary_key, set_=found))
        except Unavailable as error:
            self.trouble = str(error)

    def evidence(self, root: str, paths: tuple[str, ...], identity: Identity) -> tuple[Verdict, int] | None:
        table = VERIFICATIONS.c
        query = select(table.identity, table.health, table.detail, table.at_ns).filter_by(**_place(root, paths))
        for words, health, detail, at_ns in self._rows(query):
            if words == _words(paths, identity):
                return Verdict(Health(health), None if detail is None else unspelled(detail)), at_ns
        return None

    # --- who works on a run ----------------------------------------------------------------------------------

    def lease(self, run: str) -> RunLease:
        """The right to work on a run, for this caller alone. Raises Refused while another has it, or where the
        database cannot say."""
        return RunLease.take(self.server, run)

    def close(self) -> None:
        """Tries once more to write what waits. The connections stay, for the next journal of this process."""
        if self.waiting.entries:
            self.server.try_at_once()
            self._write([])

    # --- writing ---------------------------------------------------------------------------------------------

    def _write(self, entries: list[tuple[str, Event]]) -> None:
        with self.server.guard:
            batch = [*self.waiting.entries, *entries]
            try:
                self.server.prepare(write=True)
                with self.server.transaction() as connection:
                    _append(connection, batch, maybe_there=bool(self.waiting.entries))
            except Unavailable as error:
                self.waiting.keep(batch)
                self.trouble = f"{error}; {len(self.waiting.entries)} entries wait to be written"
                return
            self.waiting.entries = []
            self.trouble = self.waiting.loss(self.where) or self.trouble

    # --- reading ---------------------------------------------------------------------------------------------

    def _rows(self, query: Any) -> list[tuple[Any, ...]]:
        if not self.there:
            return []
        try:
            with self.server.transaction() as connection:
                return [tuple(row) for row in connection.execute(query)]
        except Unavailable as error:
            self.trouble = str(error)
            return []

    def _all_events(self) -> Iterator[tuple[Any, ...]]:
        """Every event, its hash and its number, page by page, so that no transaction lasts."""
        last = 0
        query = select(*_EVENT, EVENTS.c.hash, EVENTS.c.id).order_by(EVENTS.c.id).limit(PAGE)
        while rows := self._rows(query.where(EVENTS.c.id > last)):
            yield from rows
            last = rows[-1][-1]


def _append(connection: Connection, batch: list[tuple[str, Event]], *, maybe_there: bool) -> None:
    """Adds to the chain. One writer at a time: each link needs the one before it."""
    connection.execute(select(func.pg_advisory_xact_lock(HISTORY_LOCK)))
    if maybe_there:
        keys = [key for key, _ in batch]
        there = set(connection.execute(select(EVENTS.c.key).where(EVENTS.c.key.in_(keys))).scalars())
        batch = [(key, event) for key, event in batch if key not in there]
    previous = connection.execute(select(EVENTS.c.hash).order_by(desc(EVENTS.c.id)).limit(1)).scalar() or GENESIS
    rows = []
    for key, event in batch:
        previous = link(previous, event)
        rows.append(_row(key, event, previous))
    if rows:
        connection.execute(EVENTS.insert(), rows)


def _row(key: str, event: Event, chained: str) -> dict[str, Any]:
    return {
        "key": key,
        "at_ns": event.at_ns,
        "run": spelled(event.run),
        "kind": event.kind,
        "step": event.step,
        "replica": event.replica,
        "plan": event.plan,
        "data": json.dumps(dict(event.data)),
        "hash": chained,
    }


def _event(row: Sequence[Any]) -> Event:
    at_ns, run, kind, step, replica, plan, data = row
    return Event(at_ns, unspelled(run), kind, step, replica, plan, json.loads(data))


def _place(root: str, paths: tuple[str, ...]) -> dict[str, str]:
    return {"host": socket.gethostname(), "root": spelled(root), "path": spelled(paths[0])}


def _words(paths: tuple[str, ...], identity: Identity) -> str:
    return json.dumps([list(paths), identity.dev, identity.ino, identity.size, identity.mtime_ns, identity.ctime_ns,
                       identity.files])  # fmt: skip
