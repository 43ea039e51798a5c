"""Trials keep what a call took in joules in a column of its own, so that configs can be chosen by it.

Revision: 0013, after 0012
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

INDEX = "ix_trials_energy"
TOLD = "eligible AND joules IS NOT NULL"
FROM_ENVIRONMENT = {
    "sqlite": "CAST(json_extract(environment, '$.joules') AS REAL)",
    "postgresql": "CAST(environment ->> 'joules' AS DOUBLE PRECISION)",
}


def upgrade() -> None:
    op.add_column("trials", sa.Column("joules", sa.Double(), nullable=True))
    told = FROM_ENVIRONMENT[op.get_bind().dialect.name]
    op.execute(f"UPDATE trials SET joules = {told} WHERE status = 'ok' AND {told} > 0")
    op.create_index(INDEX, "trials", ["key_id", "joules"], sqlite_where=sa.text(TOLD), postgresql_where=sa.text(TOLD))


def downgrade() -> None:
    op.drop_index(INDEX, "trials")
    op.drop_column("trials", "joules")
