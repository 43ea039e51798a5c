"""The schema's version: the present one, the wanted one, and moving from one to the other.

Alembic is the only creator of schema. Its migrations lie in `migrations/` beside the packages and are found by path.
It is imported to upgrade only. Every command checks that a schema is current, which needs only the names of the
revisions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from sqlalchemy import Connection, inspect, text

import tuner
from tuner.records.db.database import connect, parse_url, reading, show_url, writing
from tuner.records.errors import RecordError, SchemaMismatch

_VERSIONS = "alembic_version"  # the table
_REVISION = re.compile(r"""^(revision|down_revision)\b.* = ["'](\w+)["']$""", re.MULTILINE)
_UPGRADE_LOCK = 7_260_219_411_530_771  # any number, as long as every tunefarm uses this one


class SchemaVersion(StrEnum):
    """EMPTY has no tables; BEHIND an earlier schema; NEWER a revision this tunefarm does not know.
    FOREIGN tables that are not ours."""

    CURRENT = "current"
    BEHIND = "behind"
    NEWER = "newer"
    EMPTY = "empty"
    FOREIGN = "foreign"


@dataclass(frozen=True)
class SchemaState:
    """Where a database stands: the revision found (None without any) and the one this tunefarm wants."""

    version: SchemaVersion
    found: str | None
    wanted: str
    address: str

    @property
    def ok(self) -> bool:
        return self.version is SchemaVersion.CURRENT

    def require(self) -> None:
        """Raise SchemaMismatch unless the schema is current."""
        detail = {"found": self.found, "wanted": self.wanted, "version": str(self.version)}
        upgrade_hint = f"run `tunefarm db upgrade --db {self.address}`"
        match self.version:
            case SchemaVersion.CURRENT:
                return
            case SchemaVersion.BEHIND:
                raise SchemaMismatch(
                    f"the database {self.address} has schema {self.found}, this tunefarm works with {self.wanted}",
                    hint=f"{upgrade_hint} (back it up first)",
                    detail=detail,
                )
            case SchemaVersion.NEWER:
                raise SchemaMismatch(
                    f"the database {self.address} has schema {self.found}, which this tunefarm does not know "
                    f"(it works with {self.wanted}): a later version made it",
                    hint="upgrade tunefarm: pip install --upgrade tunefarm",
                    detail=detail,
                )
            case SchemaVersion.EMPTY:
                raise SchemaMismatch(
                    f"the database {self.address} has no tables; schema {self.wanted} is wanted",
                    hint=upgrade_hint,
                    detail=detail,
                )
            case SchemaVersion.FOREIGN:
                raise SchemaMismatch(
                    f"the database {self.address} holds another program's tables",
                    hint="give another file or database",
                    detail=detail,
                )


def migrations_folder() -> Path:
    """Where the migrations are. Raises RecordError when the installation lacks them."""
    package = Path(tuner.__file__ or "").resolve().parent
    folder = package.parent / "migrations"
    if not (folder / "env.py").is_file():
        raise RecordError(
            f"the migrations are missing from {folder.parent}", hint="reinstall tunefarm: pip install tunefarm"
        )
    return folder


@lru_cache(maxsize=1)
def _revisions() -> dict[str, str | None]:
    """Each revision there is, with the one it follows."""
    scripts = [dict(_REVISION.findall(path.read_text())) for path in (migrations_folder() / "versions").glob("*.py")]
    return {script["revision"]: script.get("down_revision") for script in scripts if "revision" in script}


def head() -> str:
    """The revision this version of tunefarm works with."""
    revisions = _revisions()
    last = [revision for revision in revisions if revision not in revisions.values()]
    if len(last) != 1:
        raise RecordError("the migrations folder holds no last revision", hint="reinstall tunefarm")
    return last[0]


def state_of(connection: Connection, address: str) -> SchemaState:
    """The schema's state as seen by `connection`."""
    tables = inspect(connection)
    found = None
    if tables.has_table(_VERSIONS):
        found = connection.execute(text(f"SELECT version_num FROM {_VERSIONS}")).scalar()
    wanted = head()
    if found == wanted:
        version = SchemaVersion.CURRENT
    elif found is not None:
        version = SchemaVersion.BEHIND if found in _revisions() else SchemaVersion.NEWER
    elif [name for name in tables.get_table_names() if name != _VERSIONS]:
        version = SchemaVersion.FOREIGN
    else:
        version = SchemaVersion.EMPTY
    return SchemaState(version, found, wanted, address)


def check(address: str | Path) -> SchemaState:
    """The state of the database at `address`, changing nothing. Raises StoreMissing or StoreUnavailable."""
    url = parse_url(address)
    engine = connect(url)
    try:
        with reading(engine) as connection:
            return state_of(connection, show_url(url))
    finally:
        engine.dispose()


def upgrade(address: str | Path) -> SchemaState:
    """Bring the database to this version's schema, creating a SQLite file that is missing. All or nothing.

    Returns the new state. Raises SchemaMismatch for a newer schema or another program's database.
    """
    url = parse_url(address)
    engine = connect(url, create=True)
    try:
        with writing(engine) as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _UPGRADE_LOCK})
            before = state_of(connection, show_url(url))
            if before.version in (SchemaVersion.NEWER, SchemaVersion.FOREIGN):
                before.require()
            if not before.ok:
                _run_migrations(connection)
            return state_of(connection, show_url(url))
    finally:
        engine.dispose()


def _run_migrations(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
