"""Tasks of runs keep what they are compared with, where that is a library of the user's.

Revision: 0012, after 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("run_tasks", sa.Column("baseline", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("run_tasks", "baseline")
