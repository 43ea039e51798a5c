"""`tunefarm farm`: set up a farm, rename and remove its boxes."""

from __future__ import annotations

from collections.abc import Callable

import click

from compiler.errors import TunefarmError
from rpc_server.machine.user_name import user_name
from rpc_server.wire.keys import KeyRing
from tunefarm.cli.common import DB, CommandGroup
from tunefarm.cli.farm.init import init
from tunefarm.settings import Settings
from tuner.records.errors import RecordNotFound, StoreMissing
from tuner.records.store import RecordStore

_EPILOG = """\b
Examples:
  tunefarm farm init
  tunefarm farm init /etc/tunefarm --address tracker.lab --yes
  tunefarm farm rename box1 rack2-box1
  tunefarm farm remove box7 --reason 'sent back'
"""
_Change = Callable[[RecordStore], tuple[str, ...]]


@click.group(cls=CommandGroup, epilog=_EPILOG)
def farm() -> None:
    """Set up a farm; rename and remove boxes."""


farm.add_command(init)


@farm.command(epilog="\b\nExample:\n  tunefarm farm rename box1 rack2-box1")
@click.argument("old")
@click.argument("new")
@DB
@click.pass_obj
def rename(settings: Settings, old: str, new: str, db: str | None) -> None:
    """Give the box OLD the name NEW, in the keys here and in the record store.

    Type it on the tracker's machine. What the box measured goes on under the new name. The box registers again once
    it is started with --name NEW.
    """
    ring = KeyRing(settings.keys_folder)
    names = {principal.name for principal in ring.authorized().values()}
    if new in names:
        raise TunefarmError(f"there is a key of the name {new} already", hint="`tunefarm keys list` shows it")
    told = []
    if devices := _on_record(settings, db, lambda store: store.devices.rename_box(old, new, by=user_name())):
        told.append(f"on record: {', '.join(devices)}")
    if old in names:
        ring.rename(old, new)
        told.append(f"the key of {old} is {new}'s now")
    _tell(told, old)
    click.echo(f"start it from now on with: tunefarm server --name {new}")


@farm.command(epilog="\b\nExample:\n  tunefarm farm remove box7 --reason 'sent back'")
@click.argument("name")
@click.option("--reason", default="", help="Why, for whoever looks at its records.")
@DB
@click.pass_obj
def remove(settings: Settings, name: str, reason: str, db: str | None) -> None:
    """Take the box NAME off the farm: its key is no longer valid. Its measurements stay on record.

    Type it on the tracker's machine. Leases that the box has end at once.
    """
    ring = KeyRing(settings.keys_folder)
    told = []
    if any(principal.name == name for principal in ring.authorized().values()):
        ring.revoke(name)
        told.append(f"the key of {name} may connect no more")
    if devices := _on_record(settings, db, lambda store: store.devices.remove_box(name, reason, by=user_name())):
        told.append(f"removed, with all records kept: {', '.join(devices)}")
    _tell(told, name)


def _on_record(settings: Settings, db: str | None, change: _Change) -> tuple[str, ...]:
    """The devices that the store has of a box; none where there is no store, or no record of the box."""
    try:
        with RecordStore.open(db or settings.db) as store:
            return change(store)
    except (RecordNotFound, StoreMissing):
        return ()


def _tell(told: list[str], name: str) -> None:
    if not told:
        raise TunefarmError(
            f"neither the keys here nor the record store know a box {name}",
            hint="TUNEFARM_KEYS names the tracker's keys, --db the record store; `tunefarm devices` lists boxes",
        )
    for line in told:
        click.echo(line)
