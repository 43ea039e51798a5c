"""Back up a record store to a file while others write to it, and restore it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from tuner.records.db.database import parse_url, sqlite_path
from tuner.records.db.whole_copy import Copied, copy_store
from tuner.records.errors import RecordError, StoreMissing, StoreUnavailable


def backup(address: str | Path, file: Path) -> int:
    """Copy the store at `address` to `file`, as it is at one moment; returns the copy's size in bytes.

    The copy is a SQLite store, whatever database the store is in. A file that exists is not written over. Raises
    RecordError, SchemaMismatch, StoreMissing, StoreUnavailable.
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
            copy_store(address, part)
            _leave_wal(part)
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


def _leave_wal(path: Path) -> None:
    """Put all of the copy into its one file."""
    with closing(sqlite3.connect(path)) as copy:
        copy.execute("PRAGMA journal_mode = DELETE")


def restore(file: Path, address: str | Path) -> Copied:
    """Bring a backup back into an empty store, of any kind.

    `address` may be a SQLite file that is not there yet. Raises RecordError where records are there already,
    SchemaMismatch for a backup of another version, StoreMissing, StoreUnavailable for a damaged one.
    """
    if not file.is_file():
        raise StoreMissing(f"there is no file {file}", hint="`tunefarm db backup` writes one")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)) as copy:
            [answer] = copy.execute("PRAGMA integrity_check").fetchone()
    except sqlite3.Error as error:
        raise StoreUnavailable(
            f"{file} is no backup: {error}", hint="backups of `tunefarm db backup` are SQLite stores"
        ) from error
    if answer != "ok":
        raise StoreUnavailable(f"{file} is damaged: {answer}", hint="give another backup")
    return copy_store(file, address)


def _sync(path: Path) -> None:
    with path.open("rb") as opened:
        os.fsync(opened.fileno())
