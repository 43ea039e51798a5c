"""Runs keep what they have used: the seconds that devices were held for them, and those in which they measured.

Revision: 0008, after 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("held_s", "busy_s"):
        op.add_column("runs", sa.Column(name, sa.Double(), nullable=False, server_default="0"))


def downgrade() -> None:
    for name in ("busy_s", "held_s"):
        op.drop_column("runs", name)
