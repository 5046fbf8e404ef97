"""The tables of a shared journal. What they look like in each version of the schema stands in ``migrations``."""

from __future__ import annotations

import json

from sqlalchemy import BigInteger, Column, Identity, Index, MetaData, Table, Text
from sqlalchemy.dialects.postgresql import TIMESTAMP

SCHEMA = "0001"  # the newest migration this version brings
KNOWN = ("0001",)
VERSION_TABLE = "prune_schema"

METADATA = MetaData()

EVENTS = Table(
    "prune_events",
    METADATA,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("key", Text, nullable=False, unique=True),  # the writer's own, so that a repeated write is known as such
    Column("at_ns", BigInteger, nullable=False),
    Column("run", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("step", BigInteger),
    Column("replica", Text),
    Column("plan", Text),
    Column("data", Text, nullable=False),  # text, not jsonb: it is hashed as it was written
    Column("hash", Text, nullable=False),
    Index("prune_events_by_run", "run", "step", "id"),
    Index("prune_events_by_kind", "run", "kind", "id"),
)

VERIFICATIONS = Table(
    "prune_verifications",
    METADATA,
    Column("host", Text, primary_key=True),  # device numbers are each host's own
    Column("root", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("identity", Text, nullable=False),
    Column("health", Text, nullable=False),
    Column("detail", Text),
    Column("at_ns", BigInteger, nullable=False),
)

LEASES = Table(
    "prune_leases",
    METADATA,
    Column("run", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("token", BigInteger, nullable=False),  # grows with every holder of the run, for good
    Column("until", TIMESTAMP(timezone=True), nullable=False),  # by the database's clock
    Column("taken_at", TIMESTAMP(timezone=True), nullable=False),
)


def spelled(value: str) -> str:
    """Names may hold NUL and bytes that are not UTF-8, which PostgreSQL refuses; JSON spells them out."""
    return json.dumps(value)[1:-1]


def unspelled(value: str) -> str:
    return str(json.loads(f'"{value}"'))
