"""Runs have an owner for a while at a time, and claim candidates before they measure them.

Revision: 0002, after 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("runs", sa.Column("owner", sa.String(), nullable=False, server_default=""))
    op.add_column("runs", sa.Column("owned_until", TIME, nullable=True))
    op.create_table(
        "claims",
        sa.Column("key_id", ROW_ID, sa.ForeignKey("tuning_keys.id"), primary_key=True),
        sa.Column("digest", sa.String(), primary_key=True),
        sa.Column("run_id", ROW_ID, sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
    )
    op.create_index("ix_claims_run_id", "claims", ["run_id"])


def downgrade() -> None:
    op.drop_table("claims")
    op.drop_column("runs", "owned_until")
    op.drop_column("runs", "owner")
