"""A number that changes with whatever the answer to a lookup rests on, so that answers may be remembered.

The database itself counts, in the transaction of the change: no writer can forget to. A later migration that makes one
of the counted tables anew has to make its triggers anew, too.

Revision: 0004, after 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

COUNTED = ("best_configs", "workloads", "device_classes", "device_events")
"""The other tables a lookup reads keep what it reads of them for as long as there is a best config of it."""
CHANGES = ("INSERT", "UPDATE", "DELETE")
COUNT = "UPDATE serving SET version = version + 1"


def upgrade() -> None:
    op.create_table(
        "serving",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
    )
    op.execute("INSERT INTO serving (id, version) VALUES (1, 1)")
    if op.get_bind().dialect.name == "sqlite":
        for table in COUNTED:
            for change in CHANGES:
                name = f"count_{table}_{change.lower()}"
                op.execute(f"CREATE TRIGGER {name} AFTER {change} ON {table} BEGIN {COUNT}; END")
    else:
        op.execute(
            f"CREATE FUNCTION count_serving() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN {COUNT}; RETURN NULL; END $$"
        )
        for table in COUNTED:
            op.execute(
                f"CREATE TRIGGER count_{table} AFTER {' OR '.join(CHANGES)} ON {table}"
                " FOR EACH STATEMENT EXECUTE FUNCTION count_serving()"
            )


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for table in COUNTED:
            for change in CHANGES:
                op.execute(f"DROP TRIGGER count_{table}_{change.lower()}")
    else:
        for table in COUNTED:
            op.execute(f"DROP TRIGGER count_{table} ON {table}")
        op.execute("DROP FUNCTION count_serving()")
    op.drop_table("serving")
