"""Who works on a profile of a model that was asked for, and until when it has to be heard of again.

Revision: 0011, after 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("profile_jobs", sa.Column("worker", sa.String(), nullable=False, server_default=""))
    op.add_column("profile_jobs", sa.Column("worker_until", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("profile_jobs") as jobs:
        jobs.drop_column("worker_until")
        jobs.drop_column("worker")
