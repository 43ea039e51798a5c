"""Profiles of models that were asked for on the dashboard: who asked, where, and how it ended.

Revision: 0009, after 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "profile_jobs",
        sa.Column("id", ROW_ID, primary_key=True),
        sa.Column("version_id", ROW_ID, sa.ForeignKey("model_versions.id"), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("asked_by", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("time_id", ROW_ID, nullable=True),
        sa.Column("asked_at", TIME, nullable=False),
        sa.Column("ended_at", TIME, nullable=True),
    )
    op.create_index("ix_profile_jobs_version", "profile_jobs", ["version_id", "id"])


def downgrade() -> None:
    op.drop_table("profile_jobs")
