"""History, what content checks found, and who works on which run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TIMESTAMP

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "prune_events",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("key", sa.Text, nullable=False, unique=True),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("step", sa.BigInteger),
        sa.Column("replica", sa.Text),
        sa.Column("plan", sa.Text),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.create_index("prune_events_by_run", "prune_events", ["run", "step", "id"])
    op.create_index("prune_events_by_kind", "prune_events", ["run", "kind", "id"])
    op.create_table(
        "prune_verifications",
        sa.Column("host", sa.Text, primary_key=True),
        sa.Column("root", sa.Text, primary_key=True),
        sa.Column("path", sa.Text, primary_key=True),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("health", sa.Text, nullable=False),
        sa.Column("detail", sa.Text),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "prune_leases",
        sa.Column("run", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("until", TIMESTAMP(timezone=True), nullable=False),
        sa.Column("taken_at", TIMESTAMP(timezone=True), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("prune_leases")
    op.drop_table("prune_verifications")
    op.drop_table("prune_events")
