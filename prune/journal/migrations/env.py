"""Alembic's way in: it works on the connection it is given, inside that one's transaction."""

from __future__ import annotations

from alembic import context

from prune.journal.tables import METADATA, VERSION_TABLE

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=METADATA, version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
