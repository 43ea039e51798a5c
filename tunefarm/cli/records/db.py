"""`tunefarm db`: the record store's schema."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tunefarm.cli.common import FILE, Group
from tunefarm.settings import Settings
from tuner.records.db import migrate
from tuner.records.db.backup import backup as copy_store
from tuner.records.db.database import parse_url, show_url

_EPILOG = """\b
Examples:
  tunefarm db upgrade
  tunefarm db check && tunefarm web
"""


@click.group(cls=Group, epilog=_EPILOG)
def db() -> None:
    """Create, check, upgrade and back up the record store."""


@db.command(epilog="\b\nExample:\n  tunefarm db upgrade --db sqlite:///tunefarm.db")
@click.option("--db", "address", help="Record store.  [default: the setting, sqlite:///tunefarm.db]")
@click.pass_obj
def upgrade(settings: Settings, address: str | None) -> None:
    """Bring the store to this version's schema, creating it where there is none. Data is kept."""
    state = migrate.upgrade(address or settings.db)
    click.echo(f"{state.address} is at schema revision {state.found}")


@db.command(epilog="\b\nExample:\n  tunefarm db check && tunefarm web")
@click.option("--db", "address", help="Record store.  [default: the setting, sqlite:///tunefarm.db]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def check(settings: Settings, address: str | None, as_json: bool) -> None:
    """Say whether the store has this version's schema; exit status 1 and what to do when not."""
    state = migrate.check(address or settings.db)
    if as_json:
        click.echo(json.dumps({"found": state.found, "wanted": state.wanted, "ok": state.ok}))
        raise click.exceptions.Exit(0 if state.ok else 1)
    state.require()
    click.echo(f"{state.address} is at schema revision {state.found}, as it should be")


@db.command(epilog="\b\nExample:\n  tunefarm db backup /backup/tunefarm-2026-11-21.db")
@click.argument("file", type=FILE)
@click.option("--db", "address", help="Record store.  [default: the setting, sqlite:///tunefarm.db]")
@click.pass_obj
def backup(settings: Settings, file: Path, address: str | None) -> None:
    """Copy the store to FILE, as it is at one moment, while others go on writing.

    A copy of a SQLite file is a store itself. PostgreSQL is copied by pg_dump, for pg_restore.
    """
    source = address or settings.db
    size = copy_store(source, file)
    click.echo(f"{show_url(parse_url(source))} copied to {file}, {size / 1e6:.1f} MB")
