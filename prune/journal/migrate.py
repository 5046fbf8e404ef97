"""Brings the tables of a shared journal to this version's schema, by the migrations in the package."""

from __future__ import annotations

import os

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def config() -> Config:
    """Alembic's configuration for the migrations that ship with the package."""
    found = Config()
    place = os.path.join(os.path.dirname(os.path.abspath(__file__)), "migrations")
    found.set_main_option("script_location", place.replace("%", "%%"))
    return found


def upgrade(connection: Connection) -> None:
    """Runs what is missing, inside the connection's transaction: all of it or nothing."""
    chosen = config()
    chosen.attributes["connection"] = connection
    command.upgrade(chosen, "head")
