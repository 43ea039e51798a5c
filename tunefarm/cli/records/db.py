"""`tunefarm db`: the record store's schema."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tunefarm.cli.common import FILE, JSON, CommandGroup
from tunefarm.settings import Settings
from tuner.records.db import migrate
from tuner.records.db.backup import backup as back_up
from tuner.records.db.backup import restore as bring_back
from tuner.records.db.database import parse_url, show_url
from tuner.records.db.whole_copy import Copied, copy_store

_EPILOG = """\b
Examples:
  tunefarm db upgrade
  tunefarm db check && tunefarm web
  tunefarm db backup /backup/tunefarm.db
  tunefarm db move tunefarm.db postgresql://tune@db/tunefarm
"""


@click.group(cls=CommandGroup, epilog=_EPILOG)
def db() -> None:
    """Create, check, upgrade, back up and move the record store."""


@db.command(epilog="\b\nExample:\n  tunefarm db upgrade --db sqlite:///tunefarm.db")
@click.option("--db", "address", help="Record store.  [default: the setting, sqlite:///tunefarm.db]")
@click.pass_obj
def upgrade(settings: Settings, address: str | None) -> None:
    """Bring the store to this version's schema, creating it where there is none. Data is kept."""
    state = migrate.upgrade(address or settings.db)
    click.echo(f"{state.address} is at schema revision {state.found}")


@db.command(epilog="\b\nExample:\n  tunefarm db check && tunefarm web")
@click.option("--db", "address", help="Record store.  [default: the setting, sqlite:///tunefarm.db]")
@JSON
@click.pass_obj
def check(settings: Settings, address: str | None, as_json: bool) -> None:
    """Say whether the store has this version's schema; exit status 1 and what to do when not."""
    state = migrate.check(address or settings.db)
    if as_json:
        click.echo(json.dumps({"found": state.found, "wanted": state.wanted, "ok": state.ok}))
        raise click.exceptions.Exit(0 if state.ok else 1)
    state.require()
    click.echo(f"{state.address} is at schema revision {state.found}, as it should be")


_BACKUP_EPILOG = """\b
Examples:
  tunefarm db backup /backup/tunefarm-2026-11-21.db
  tunefarm db backup --db postgresql://tune@db/tunefarm /backup/tunefarm.db
"""


@db.command(epilog=_BACKUP_EPILOG)
@click.argument("file", type=FILE)
@click.option("--db", "address", help="Record store.  [default: the setting, sqlite:///tunefarm.db]")
@JSON
@click.pass_obj
def backup(settings: Settings, file: Path, address: str | None, as_json: bool) -> None:
    """Copy the store to FILE, as it is at one moment, while others go on writing.

    FILE is a SQLite store with all that the store has, whatever database that is in. It can be opened as it is.
    """
    source = address or settings.db
    size = back_up(source, file)
    if as_json:
        click.echo(json.dumps({"store": show_url(parse_url(source)), "file": str(file), "bytes": size}))
        return
    click.echo(f"{show_url(parse_url(source))} copied to {file}, {size / 1e6:.1f} MB")


_RESTORE_EPILOG = """\b
Examples:
  tunefarm db restore /backup/tunefarm-2026-11-21.db --db sqlite:///tunefarm.db
  tunefarm db restore /backup/tunefarm.db --db postgresql://tune@db/tunefarm_again
"""


@db.command(epilog=_RESTORE_EPILOG)
@click.argument("file", type=FILE)
@click.option("--db", "address", help="Empty record store.  [default: the setting, sqlite:///tunefarm.db]")
@JSON
@click.pass_obj
def restore(settings: Settings, file: Path, address: str | None, as_json: bool) -> None:
    """Bring all of the backup FILE into a store that is empty or not there yet."""
    copied = bring_back(file, address or settings.db)
    _show_copied(copied, str(file), address or settings.db, as_json)


_MOVE_EPILOG = """\b
Examples:
  tunefarm db move tunefarm.db postgresql://tune@db/tunefarm
  tunefarm db move postgresql://tune@db/tunefarm sqlite:///laptop.db
"""


@db.command(epilog=_MOVE_EPILOG)
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
@JSON
@click.pass_obj
def move(settings: Settings, source: str, destination: str, as_json: bool) -> None:
    """Copy the whole store SRC to DST, which is empty.

    Runs, releases, benchmarks, tokens, models and all else are copied. SRC stays as it is. Stop what writes to it
    first, and give DST to the setting db afterwards.
    """
    copied = copy_store(source, destination)
    _show_copied(copied, show_url(parse_url(source)), destination, as_json)
    if not as_json:
        shown = show_url(parse_url(destination))
        click.echo(f"SRC is as it was; to use DST from now on, set db in tunefarm.toml or TUNEFARM_DB: {shown}")


def _show_copied(copied: Copied, source: str, destination: str, as_json: bool) -> None:
    shown = show_url(parse_url(destination))
    if as_json:
        click.echo(json.dumps({"from": source, "to": shown, "rows": copied.rows, "under_way": copied.under_way}))
        return
    shares = {name.replace("_", " "): count for name, count in copied.rows.items() if count and name != "serving"}
    rows = ", ".join(f"{name} {count}" for name, count in shares.items())
    click.echo(f"{source} copied to {shown}: {rows or 'no records'}")
    if copied.under_way:
        click.echo(f"runs under way: {copied.under_way}; what they add from now on is not in the copy", err=True)
