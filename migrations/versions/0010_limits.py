"""Limits of tokens and users: scopes of tokens, quotas, runs by user.

Revision: 0010, after 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("tokens", sa.Column("scopes", sa.JSON(), nullable=True))
    op.create_table(
        "quotas",
        sa.Column("id", ROW_ID, primary_key=True),
        sa.Column("user", sa.String(), nullable=False, unique=True),
        sa.Column("device_hours", sa.Double(), nullable=True),
        sa.Column("trials", sa.BigInteger(), nullable=True),
        sa.Column("runs", sa.BigInteger(), nullable=True),
        sa.Column("days", sa.BigInteger(), nullable=False),
        sa.Column("set_by", sa.String(), nullable=False),
        sa.Column("set_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_runs_user", "runs", ["user", "started_at"])


def downgrade() -> None:
    op.drop_index("ix_runs_user", "runs")
    op.drop_table("quotas")
    with op.batch_alter_table("tokens") as tokens:
        tokens.drop_column("scopes")
