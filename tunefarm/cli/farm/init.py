"""`tunefarm farm init`: a farm from nothing, in one guided command."""

from __future__ import annotations

import json
import pwd
import re
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from compiler.errors import TunefarmError
from rpc_server.machine.user_name import user_name
from rpc_server.wire.keys import KeyRing
from tunefarm.cli.common import Whole
from tunefarm.cli.farm.setup import ADMIN_FILE, DB_FILE, FarmPlan, SetupStep, services, set_up
from tuner.records.db.database import parse_url, show_url

_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_PATH = re.compile(r"[A-Za-z0-9_./@+-]+")
_EPILOG = """\b
Examples:
  tunefarm farm init                           asks, shows what it will do, and does it
  tunefarm farm init --yes --box box1          a farm on this machine alone
  tunefarm farm init /etc/tunefarm --address tracker.lab --yes
  tunefarm farm init --yes --json
\b
Exit status: 0 the farm is set up, 1 an error, 2 wrong usage.
"""


@click.command(epilog=_EPILOG)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default="farm")
@click.option("--address", help="Host by which boxes and clients reach this machine.  [default: 127.0.0.1]")
@click.option("--admin", help="Who looks after the farm.  [default: your account's name]")
@click.option("--db", help="Record store.  [default: a SQLite file in FOLDER]")
@click.option("--box", default="", metavar="NAME", help="Lend this machine's CPU, too, under this name.")
@click.option("--user", help="Account that the services run as.  [default: yours; for root, tunefarm]")
@click.option("--tracker-port", type=Whole(1, 65535), default=9190, show_default=True, help="Port of the tracker.")
@click.option("--web-port", type=Whole(1, 65535), default=9180, show_default=True, help="Port of the web app.")
@click.option("--yes", is_flag=True, help="Ask nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; goes with --yes.")
def init(folder: Path, yes: bool, as_json: bool, **given: Any) -> None:
    """Set up a farm in FOLDER: keys, an admin, a database, a token, and systemd units.

    What is there already stays as it is, so typing it again changes nothing. Nothing is started or installed: the
    command says how. FOLDER holds nothing else. Connections of tracker, boxes and clients are encrypted; the web app
    speaks plain HTTP. With the default address only this machine is reached.
    """
    if not yes and (as_json or not sys.stdin.isatty()):
        raise click.UsageError("there is no terminal to ask on: give --yes, and what differs from the defaults")
    plan = _plan(folder, given, ask=not yes)
    if not yes:
        click.echo(f"\nA farm in {plan.folder}: tracker {plan.tracker}, web app {plan.api}, admin {plan.admin},")
        click.echo(f"database {show_url(parse_url(plan.db))}, services as user {plan.user}.")
        click.confirm("Make it?", default=True, abort=True)
    steps = set_up(plan)
    if as_json:
        facts = {**asdict(plan), "folder": str(plan.folder), "db": show_url(parse_url(plan.db))}
        found = {**facts, "steps": [asdict(step) for step in steps], "next": _next(plan)}
        click.echo(json.dumps(found))
        return
    _tell(plan, steps)


def _plan(folder: Path, given: dict[str, Any], ask: bool) -> FarmPlan:
    """Plan by flags and answers.
    Raises a usage error for a flag that cannot be a host, a name or a unit's path; such an answer is asked for
    again."""
    folder = folder.absolute()
    account = _account(given["user"])
    if not _PATH.fullmatch(str(folder)):
        raise click.BadParameter("letters, digits and _./@+- only, since units name it", param_hint="FOLDER")

    def value(name: str, question: str, default: str, check: Callable[[str], str]) -> str:
        if given[name] or not ask:
            return _flag(name, given[name] or default, check)
        answer: str = click.prompt(question, default=default, value_proc=check)
        return answer

    plan = FarmPlan(
        folder=folder,
        address=value("address", "Host by which boxes and clients reach this machine", "127.0.0.1", _host),
        admin=value("admin", "Who looks after the farm", user_name(), _name),
        db=given["db"] or f"sqlite:///{folder / DB_FILE}",
        user=account,
        box=_flag("box", given["box"], _name) if given["box"] else _asked_box() if ask else "",
        tracker_port=given["tracker_port"],
        web_port=given["web_port"],
    )
    if plan.box == plan.admin:
        raise click.BadParameter("box and admin need different names", param_hint="--box")
    return plan


def _flag(name: str, value: str, check: Callable[[str], str]) -> str:
    try:
        return check(value)
    except click.UsageError as error:
        raise click.BadParameter(error.message, param_hint=f"--{name}") from None


def _host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise click.UsageError(f"{text!r} is no host")
    return text


def _name(text: str) -> str:
    """Return the name of an admin or a box. Raises click.UsageError."""
    if not _NAME.fullmatch(text):
        raise click.UsageError(f"{text!r}: letters, digits and _.@- only")
    if text in ("tracker", "web"):
        raise click.UsageError(f"the farm's own {text} has that name")
    return text


def _asked_box() -> str:
    host = socket.gethostname()
    if not click.confirm("Lend this machine's CPU, too?", default=False):
        return ""
    name: str = click.prompt("Under which name", default=host, value_proc=_name)
    return name


def _account(asked: str | None) -> str:
    """The account of the services. Raises TunefarmError where there is none."""
    name = asked or user_name()
    if asked is None and name == "root":
        name = "tunefarm"
    try:
        pwd.getpwnam(name)
    except KeyError:
        hint = f"make one: useradd --system {name}; or give --user"
        raise TunefarmError(f"there is no account {name} for the services", hint=hint) from None
    return name


def _next(plan: FarmPlan) -> list[str]:
    """The commands to type next."""
    units = " ".join(service.unit for service in services(plan))
    return [
        f"sudo cp {plan.folder}/units/*.service /etc/systemd/system/",
        f"sudo systemctl enable --now {units}",
        f"export TUNEFARM_CONFIG={plan.folder / ADMIN_FILE}",
        "tunefarm doctor",
    ]


def _tell(plan: FarmPlan, steps: tuple[SetupStep, ...]) -> None:
    click.echo(f"in {plan.folder}:")
    for step in steps:
        click.echo(f"{step.state} {step.what}: {step.where.removeprefix(f'{plan.folder}/')}")
    if any(step.state == "differs" for step in steps):
        click.echo("what differs was kept: remove it and type this again to have it made anew", err=True)
    click.echo("\nnext:")
    for line in _next(plan):
        click.echo(f"  {line}")
    if plan.host != plan.address:
        click.echo("the web app speaks plain HTTP: let others reach it through a proxy with TLS")
    tracker = KeyRing(plan.keys("tracker")).identity()
    click.echo("a further box:")
    click.echo("  box$ tunefarm keys new --name BOX")
    click.echo(f"  here$ TUNEFARM_KEYS={plan.keys('tracker')} tunefarm keys authorize KEY --role box --name BOX")
    if tracker is not None:
        click.echo(f"  box$ tunefarm keys trust {plan.tracker} {tracker.public}")
    click.echo(f"  box$ tunefarm server --tracker {plan.tracker} --name BOX")
