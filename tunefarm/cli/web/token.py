"""`tunefarm token`: who may use the web app, and for what."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import click

from rpc_server.machine.user_name import user_name
from tunefarm.cli.common import DB, JSON, CommandGroup, Timespan
from tunefarm.settings import Settings
from tuner.records.db.types import utcnow
from tuner.records.farm.model_farm import Role, Token
from tuner.records.farm.scopes import Area, Scopes
from tuner.records.store import RecordStore

_NEW_EPILOG = """\b
Examples:
  tunefarm token new ci --role read --expires 365d
  tunefarm token new ci --role read --release 2026.11
  tunefarm token new scraper --role read --area metrics
  tunefarm token new phone-app --role tune --model resnet --area models
"""


@click.group(cls=CommandGroup, epilog="\b\nExample:\n  tunefarm token new ci --role read")
def token() -> None:
    """Make, list and revoke tokens of the web app."""


@token.command(epilog=_NEW_EPILOG)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([str(role) for role in Role]),
    default=str(Role.READ),
    show_default=True,
    help="read: look things up; tune: also begin and stop runs, make releases; admin: also approve them.",
)
@click.option("--expires", type=Timespan(), help="Lifetime of the token, such as 12h or 90d.  [default: until revoked]")
@click.option(
    "--area",
    "areas",
    type=click.Choice([str(area) for area in Area]),
    multiple=True,
    help="Only this part of the app; may be repeated.  [default: all of it]",
)
@click.option("--model", "models", multiple=True, help="Only this model, by name; may be repeated.")
@click.option("--release", "releases", multiple=True, help="Only this release; may be repeated.")
@DB
@click.pass_obj
def new(
    settings: Settings, /, name: str, role: str, expires: float | None, db: str | None, **held: tuple[str, ...]
) -> None:
    """Make a token called NAME and print it.

    It cannot be printed again: the store keeps only a hash of it. A token for models or releases opens those and
    nothing else.
    """
    scopes = Scopes(tuple(Area(area) for area in held["areas"]), held["models"], held["releases"])
    until = None if expires is None else utcnow() + timedelta(seconds=expires)
    with RecordStore.open(db or settings.db, create=True) as store:  # often the first thing done on a farm
        _, secret = store.tokens.new(name, Role(role), created_by=user_name(), expires_at=until, scopes=scopes)
    click.echo(secret)


@token.command("list", epilog="\b\nExample:\n  tunefarm token list")
@DB
@JSON
@click.pass_obj
def list_(settings: Settings, db: str | None, as_json: bool) -> None:
    """List tokens: their roles, not what opens anything."""
    with RecordStore.open(db or settings.db) as store:
        found = store.tokens.all()
    if as_json:
        click.echo(json.dumps([_as_json(t) for t in found]))
        return
    from rich.table import Table

    from tunefarm.cli.tables import show_table

    table = Table("name", "role", "only for", "state", "made by", "made", "last used", box=None)
    for t in found:
        used = f"{t.used_at:%Y-%m-%d %H:%M}" if t.used_at else ""
        table.add_row(
            t.name, str(t.role), _only(t.scopes), _state(t), t.created_by, f"{t.created_at:%Y-%m-%d %H:%M}", used
        )
    show_table(table)


@token.command(epilog="\b\nExample:\n  tunefarm token revoke ci")
@click.argument("name")
@DB
@click.pass_obj
def revoke(settings: Settings, name: str, db: str | None) -> None:
    """Let the token NAME open nothing any more; a web app that runs notices within seconds."""
    with RecordStore.open(db or settings.db) as store:
        store.tokens.revoke(name)
    click.echo(f"{name} is revoked")


def _only(scopes: Scopes) -> str:
    """Say what a token is restricted to."""
    found = [", ".join(scopes.areas)] if scopes.areas else []
    found += [f"model {name}" for name in scopes.models] + [f"release {name}" for name in scopes.releases]
    return ", ".join(found)


def _state(token: Token) -> str:
    if token.revoked_at is not None:
        return "revoked"
    if not token.valid(utcnow()):
        return "expired"
    return "valid" if token.expires_at is None else f"until {token.expires_at:%Y-%m-%d}"


def _as_json(token: Token) -> dict[str, Any]:
    moments = {name: getattr(token, name) for name in ("created_at", "expires_at", "revoked_at", "used_at")}
    return {
        "name": token.name,
        "role": str(token.role),
        "state": _state(token).split()[0],
        "scopes": token.scopes.to_json() or {},
        "created_by": token.created_by,
        **{name: None if moment is None else moment.isoformat() for name, moment in moments.items()},
    }
