"""Families: one function at many sizes, with the configs chosen for it and the rule that picks among them.

Revision: 0007, after 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "families",
        sa.Column("id", ROW_ID, primary_key=True),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("device_class", sa.String(), nullable=False),
        sa.Column("run_id", ROW_ID, nullable=True),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("loss", sa.Double(), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_families_key", "families", ["key", "id"])
    op.create_index("ix_families_place", "families", ["key", "target", "id"])
    op.create_index("ix_families_current", "families", ["current", "id"])


def downgrade() -> None:
    op.drop_table("families")
