"""A PostgreSQL server tells whoever listens that what lookups rest on has changed, and compresses traces faster.

Revision: 0005, after 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

COUNT = "UPDATE serving SET version = version + 1"
NOTIFY = f"""
CREATE OR REPLACE FUNCTION count_serving() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  counted text;
BEGIN
  {COUNT} RETURNING tableoid || ' ' || version INTO counted;
  PERFORM pg_notify('tunefarm_serving', counted);
  RETURN NULL;
END $$
"""
COUNT_ONLY = f"""
CREATE OR REPLACE FUNCTION count_serving() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN {COUNT}; RETURN NULL; END $$
"""
HAS_LZ4 = "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(NOTIFY))
        if connection.scalar(sa.text(HAS_LZ4)):  # traces stored before stay as they are
            op.execute("ALTER TABLE candidates ALTER COLUMN trace SET COMPRESSION lz4")


def downgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(COUNT_ONLY))
        if connection.scalar(sa.text(HAS_LZ4)):
            op.execute("ALTER TABLE candidates ALTER COLUMN trace SET COMPRESSION default")
