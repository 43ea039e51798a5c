"""`tunefarm keys`: this machine's key, who may connect to it, and whose keys it expects."""

from __future__ import annotations

import json
import socket

import click
from rich.table import Table

from rpc_server.wire.keys import KeyRing, KeyRole
from tracker.capability import parse_capability
from tunefarm.cli.common import JSON, CommandGroup, address
from tunefarm.cli.tables import show_table
from tunefarm.settings import Settings

_EPILOG = """\b
A farm with keys, step by step:
  tracker$ tunefarm keys new --name tracker             (prints the tracker's key)
  box1$    tunefarm keys new --name box1
  box1$    tunefarm keys trust tracker.lab:9190 KEY-OF-THE-TRACKER
  tracker$ tunefarm keys authorize KEY-OF-BOX1 --role box --name box1
  laptop$  tunefarm keys new --name ann
  laptop$  tunefarm keys trust tracker.lab:9190 KEY-OF-THE-TRACKER
  tracker$ tunefarm keys authorize KEY-OF-ANN --role client --name ann
"""


@click.group(cls=CommandGroup, epilog=_EPILOG)
def keys() -> None:
    """Make keys, and say who may connect and whom to trust.

    A server or tracker that finds a key pair in its keys folder encrypts every connection and lets in only those
    authorized; then it may listen on any interface. Keys are files of their owner; see the setting `keys`.
    """


@keys.command(epilog="\b\nExample:\n  tunefarm keys new --name box1")
@click.option("--name", help="What this machine or person is called.  [default: the host name]")
@click.option("--replace", is_flag=True, help="Replace the existing pair; all who know the old key need the new one.")
@JSON
@click.pass_obj
def new(settings: Settings, name: str | None, replace: bool, as_json: bool) -> None:
    """Make this machine's key pair and print its public key."""
    identity = KeyRing(settings.keys_folder).create_identity(name or socket.gethostname(), replace=replace)
    _print_key(identity.name, identity.public, as_json)


@keys.command(epilog="\b\nExample:\n  tunefarm keys show")
@JSON
@click.pass_obj
def show(settings: Settings, as_json: bool) -> None:
    """Print this machine's public key."""
    ring = KeyRing(settings.keys_folder)
    identity = ring.identity()
    if identity is None:
        raise click.ClickException(f"{ring.folder} holds no key pair; make one: tunefarm keys new")
    _print_key(identity.name, identity.public, as_json)


@keys.command("list", epilog="\b\nExample:\n  tunefarm keys list --json | jq .authorized")
@JSON
@click.pass_obj
def list_keys(settings: Settings, as_json: bool) -> None:
    """List who may connect here, and the keys known of servers and trackers."""
    ring = KeyRing(settings.keys_folder)
    authorized, known = ring.authorized(), ring.known()
    if as_json:
        people = [
            {"role": p.role, "name": p.name, "key": p.public, **({"group": p.group} if p.group else {})}
            for p in authorized.values()
        ]
        found = {"folder": str(ring.folder), "authorized": people, "known": known, "groups": ring.groups()}
        click.echo(json.dumps(found))
        return
    if not authorized and not known:
        click.echo(f"{ring.folder} lists nobody")
        return
    if authorized:
        groups = ring.groups()
        grouped = any(principal.group for principal in authorized.values())
        heads = ("role", "name", *(("group", "its devices") if grouped else ()), "key")
        table = Table(*heads, title="may connect here", title_justify="left")
        for principal in authorized.values():
            of_group = (principal.group, groups.get(principal.group, "")) if grouped else ()
            table.add_row(principal.role, principal.name, *of_group, principal.public)
        show_table(table, "key")
    if known:
        table = Table("address", "key", title="known servers and trackers", title_justify="left")
        for where, public in known.items():
            table.add_row(where, public)
        show_table(table, "key")


@keys.command(epilog="\b\nExample:\n  tunefarm keys authorize tfPUBLICKEY --role client --name ann")
@click.argument("key")
@click.option(
    "--role",
    type=click.Choice([role.value for role in KeyRole]),
    required=True,
    help="client uses devices; box lends its own; admin also drains and quarantines.",
)
@click.option("--name", required=True, help="Whose key it is; a box registers under this name.")
@click.option("--group", default="", help="A client's group: it gets that group's devices only.  [default: any]")
@click.pass_obj
def authorize(settings: Settings, key: str, role: str, name: str, group: str) -> None:
    """Let the holder of a public key connect to servers or trackers that use this keys folder."""
    ring = KeyRing(settings.keys_folder)
    principal = ring.authorize(key, KeyRole(role), name, group)
    click.echo(f"{principal.name} may connect as {principal.role}")
    if group and group not in ring.groups():
        click.echo(f"group {group} has no devices yet: tunefarm keys group {group} EXPR", err=True)


_GROUP_EPILOG = """\b
Examples:
  tunefarm keys group students 'teaching'
  tunefarm keys group visitors 'cpu threads<=4'
  tunefarm keys group students --remove
"""


@keys.command(epilog=_GROUP_EPILOG)
@click.argument("name")
@click.argument("expr", required=False)
@click.option("--remove", is_flag=True, help="Remove the group: its clients get no devices.")
@click.pass_obj
def group(settings: Settings, name: str, expr: str | None, remove: bool) -> None:
    """Say which devices the clients of group NAME may ask for: those that match EXPR.

    Running trackers notice at once. EXPR is what `--key` of `tunefarm tune` takes; it is added to whatever a client of
    the group asks for.
    """
    if remove == (expr is not None):
        raise click.UsageError("give the devices, or --remove")
    if expr is not None:
        parse_capability(expr)
    KeyRing(settings.keys_folder).set_group(name, expr or "")
    click.echo(f"clients of {name} may ask for {expr}" if expr else f"clients of {name} get no devices any more")


@keys.command(epilog="\b\nExample:\n  tunefarm keys revoke ann")
@click.argument("who", metavar="NAME|KEY|@GROUP")
@click.pass_obj
def revoke(settings: Settings, who: str) -> None:
    """Let a key, every key of a name, or of a group (@GROUP), connect no more.

    Running servers and trackers notice at once; a session that is open goes on until it ends.
    """
    for principal in KeyRing(settings.keys_folder).revoke(who):
        click.echo(f"{principal.name} ({principal.role}, {principal.public}) may connect no more")


@keys.command(epilog="\b\nExample:\n  tunefarm keys trust tracker.lab:9190 tfPUBLICKEY")
@click.argument("where", metavar="HOST:PORT")
@click.argument("key")
@click.pass_obj
def trust(settings: Settings, where: str, key: str) -> None:
    """Expect this public key from the server or tracker at an address.
    Connections to it are encrypted then."""
    host, port = address(where, "HOST:PORT")
    KeyRing(settings.keys_folder).trust(f"{host}:{port}", key)
    click.echo(f"{host}:{port} is expected to hold {key}")


def _print_key(name: str, public: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"name": name, "key": public}))
    else:
        click.echo(f"{public}  {name}")
