"""Alembic's entry: runs the migrations on the connection that `tuner.records.db.migrate` hands over.

The `alembic` command works too, for writing a new revision: `alembic -c migrations/alembic.ini revision …`
against the database named by `TUNEFARM_DB`.
"""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy import Connection

from tuner.records.db.database import connect, parse_url, writing
from tuner.records.db.schema_models import METADATA


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        render_as_batch=connection.dialect.name == "sqlite",
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if isinstance(given, Connection):
    _run(given)
else:
    engine = connect(parse_url(os.environ["TUNEFARM_DB"]), create=True)
    with writing(engine) as opened:
        _run(opened)
    engine.dispose()
