"""Asks the databases how they would carry out each statement, and says which read a growing table from end to end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, event

from tuner.records.store import RecordStore

# a handful of rows each, sorted as they are: a run's tasks and failure kinds, a device's fingerprints, a workload's
# configs, the candidates an election compares
SMALL_SORTS = (
    "FROM run_tasks",
    "FROM run_failures",
    "WHERE devices.name = ?",
    "WHERE workloads.key = ?",
    "(workloads.key = ? OR workloads.name = ?)",
    "WHERE workloads.family = ?",
    "FROM bench_results",
    "FROM device_events",
)
SMALL_TABLES = ("targets", "device_classes", "devices", "tokens", "alembic_version")
"""Tables with as many rows as there are machines, or kinds of them, or people."""


class Plans:
    """Collects what would read a table from end to end."""

    def __init__(self, store: RecordStore) -> None:
        self.scans: list[str] = []
        self.statements = 0
        self._engine = store._engine
        self._sqlite = self._engine.dialect.name == "sqlite"

    @contextmanager
    def watched(self) -> Iterator[None]:
        event.listen(self._engine, "before_cursor_execute", self._explain)
        try:
            yield
        finally:
            event.remove(self._engine, "before_cursor_execute", self._explain)

    def _explain(self, connection: Connection, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if not re.match(r"\s*(SELECT|UPDATE|DELETE|WITH)", statement) or " FROM " not in f"{statement} FROM ":
            return
        self.statements += 1
        if isinstance(parameters, list):  # executemany
            parameters = parameters[0]
        cursor = connection.connection.cursor()
        bad = (_sqlite_scans if self._sqlite else _postgres_scans)(cursor, statement, parameters)
        cursor.close()
        self.scans += [f"{line}: {statement}" for line in bad]


def _sqlite_scans(cursor: Any, statement: str, parameters: Any) -> list[str]:
    cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
    lines = [row[3] for row in cursor.fetchall()]
    bad = [line for line in lines if (found := re.match(r"SCAN (\w+)", line)) and _grows(found[1])]
    if "LIMIT" in statement:  # walks an index in order, as far as the limit, or a table's first rows
        first_rows = "WHERE" not in statement
        bad = [line for line in bad if not (first_rows or re.search(r"USING (COVERING )?INDEX", line))]
    if "LIMIT" not in statement:  # of a key there may be millions
        bad += [line for line in lines if re.match(r"SEARCH trials USING (COVERING )?INDEX ix_trials_ranking", line)]
    if "AND trials.improved" in statement:  # a few of a task's trials, of which there may be millions
        bad += [line for line in lines if "ix_trials_task_sequence" in line]
    if not any(words in re.sub(r"\s+", " ", statement).replace('"', "") for words in SMALL_SORTS):
        bad += [line for line in lines if "TEMP B-TREE FOR ORDER BY" in line]
    return bad


def _grows(name: str) -> bool:
    return name not in SMALL_TABLES and name != "json_each"


def _postgres_scans(cursor: Any, statement: str, parameters: Any) -> list[str]:
    # tables this small are read whole unless that is forbidden; then only what has no index still is
    for way in ("seqscan", "hashjoin", "mergejoin", "bitmapscan"):
        cursor.execute(f"SET LOCAL enable_{way} = off")
    cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
    return list(_walks(cursor.fetchone()[0][0]["Plan"], "LIMIT" in statement))


def _walks(node: Mapping[str, Any], limited: bool) -> Iterator[str]:
    """A table read whole, and an index: in order, as far as a limit, is right."""
    name, kind = node.get("Relation Name", ""), node["Node Type"]
    whole_index = kind in ("Index Scan", "Index Only Scan") and "Index Cond" not in node and not limited
    if _grows(name) and (kind == "Seq Scan" or whole_index):
        yield f"{kind} on {name}"
    for part in node.get("Plans", ()):
        yield from _walks(part, limited)
