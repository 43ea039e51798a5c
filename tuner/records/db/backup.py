"""A copy of a record store, made while others write to it."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL

from tuner.records.db.database import connect, parse_url, reading, show_url, sqlite_path
from tuner.records.errors import RecordError, StoreMissing, StoreUnavailable


def backup(address: str | Path, file: Path) -> int:
    """Copy the store at `address` to `file`, as it is at one moment; returns the copy's size in bytes.

    Of SQLite the copy is a store like the other; of PostgreSQL it is what `pg_dump` writes in its custom format, for
    `pg_restore`. A file that exists is not written over. Raises RecordError, StoreMissing, StoreUnavailable.
    """
    url = parse_url(address)
    if file.exists():
        raise RecordError(f"{file} exists already", hint="a backup never writes over a file: give another name")
    if not file.parent.is_dir():
        raise RecordError(f"the folder {file.parent} does not exist", hint="create it first")
    part = file.with_name(file.name + ".part")
    try:
        path = sqlite_path(url)
        if path is not None:
            _copy_sqlite(path, part)
        else:
            _dump_postgres(url, part)
        _sync(part)
        part.rename(file)
    except RecordError:
        raise
    except OSError as error:
        raise RecordError(f"cannot write {file}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
    return file.stat().st_size


def _copy_sqlite(path: Path, part: Path) -> None:
    if not path.is_file():
        raise StoreMissing(f"there is no database at {path}")
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(part)) as copy:
            source.backup(copy)
            [answer] = copy.execute("PRAGMA integrity_check").fetchone()
    except sqlite3.Error as error:
        raise StoreUnavailable(f"the database {path} could not be copied: {error}") from error
    if answer != "ok":
        raise StoreUnavailable(f"the database {path} is damaged: {answer}")


def _dump_postgres(url: URL, part: Path) -> None:
    command = _pg_dump(url)
    plain = url.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
    environ = {**os.environ, **({"PGPASSWORD": str(url.password)} if url.password else {})}
    words = [str(command), "--format=custom", f"--file={part}", f"--dbname={plain}"]
    done = subprocess.run(words, env=environ, capture_output=True, text=True)
    if done.returncode != 0:
        raise StoreUnavailable(f"pg_dump of {show_url(url)} failed: {done.stderr.strip()[-1000:]}")


def _pg_dump(url: URL) -> Path:
    """A pg_dump that can read the server: older ones refuse to. Raises RecordError when there is none."""
    engine = connect(url)
    with reading(engine) as connection:
        wanted = int(connection.exec_driver_sql("SHOW server_version_num").scalar_one()) // 10_000
    engine.dispose()
    found = {path: _major(path) for path in pg_dumps()}
    able = next((path for path, major in found.items() if major >= wanted), None)
    if able is not None:
        return able
    there_is = f"; there is only that of PostgreSQL {max(found.values())}" if found else ""
    raise RecordError(
        f"pg_dump of PostgreSQL {wanted} or later, which copies {show_url(url)}, is not installed{there_is}",
        hint=f"install PostgreSQL's client programs: Debian's postgresql-client-{wanted}, "
        "from apt.postgresql.org where the release has only older ones",
    )


def pg_dumps() -> list[Path]:
    """Those on the PATH, and where Debian keeps one for each version, the latest first."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = [folder / "pg_dump" for folder in folders]
    return [path for path in dict.fromkeys(found) if os.access(path, os.X_OK) and path.is_file()]


def _major(program: Path) -> int:
    """The version a program says it is of; 0 when it does not."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    found = re.search(r" (\d+)(\.|devel|beta|rc)", done.stdout)
    return int(found[1]) if found else 0


def _sync(path: Path) -> None:
    with path.open("rb") as opened:
        os.fsync(opened.fileno())
