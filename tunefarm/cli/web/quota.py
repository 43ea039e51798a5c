"""`tunefarm quota`: what each user may take of the farm."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from rpc_server.machine.user_name import user_name
from tunefarm.cli.common import DB, JSON, CommandGroup, Number, Whole
from tunefarm.settings import Settings
from tuner.number_text import counted, hours
from tuner.records.farm.quotas import EVERYONE, Quota
from tuner.records.store import RecordStore

_EPILOG = """\b
Examples:
  tunefarm quota set ann --device-hours 20 --runs 2
  tunefarm quota set '*' --trials 5000 --days 7
  tunefarm quota list
"""


@click.group(cls=CommandGroup, epilog=_EPILOG)
def quota() -> None:
    """Say what users may take: device hours, trials, runs at the same time.

    A user is the name of the account that tunes, or of the token with which a run is begun over the web app. Runs that
    are begun, or taken up again after their end, are held to it.
    """


@quota.command("set", epilog="\b\nExample:\n  tunefarm quota set ann --device-hours 20 --trials 50000 --runs 2")
@click.argument("user")
@click.option("--device-hours", type=Number(0, 1e6), help="Hours that devices are held.  [default: no limit]")
@click.option("--trials", type=Whole(0, 10**12), help="Trials.  [default: no limit]")
@click.option("--runs", type=Whole(0, 10**6), help="Runs at the same time.  [default: no limit]")
@click.option(
    "--days", type=Whole(1, 3660), default=30, show_default=True, help="The days that hours and trials count."
)
@DB
@click.pass_obj
def set_(settings: Settings, /, user: str, db: str | None, **limits: Any) -> None:
    """Say what USER may take, in place of what was said before.
    USER "*" is everyone who has no quota of their own."""
    with RecordStore.open(db or settings.db, create=True) as store:
        made = store.quotas.put(Quota(user=user, **limits), by=user_name())
    click.echo(f"{_who(user)}: {_words(made)}")


@quota.command("list", epilog="\b\nExample:\n  tunefarm quota list --json")
@DB
@JSON
@click.pass_obj
def list_(settings: Settings, db: str | None, as_json: bool) -> None:
    """List quotas, and what is taken of each."""
    with RecordStore.open(db or settings.db) as store:
        found = [(each, store.quotas.taken(each.user, each.days)) for each in store.quotas.all()]
    if as_json:
        rows = [{**asdict(each), "taken": asdict(taken)} for each, taken in found]
        click.echo(json.dumps(rows, default=str))
        return
    from rich.table import Table

    from tunefarm.cli.tables import show_table

    table = Table("user", "device hours", "trials", "runs now", "within", box=None)
    for each, taken in found:
        own = each.user != EVERYONE
        table.add_row(
            _who(each.user),
            _share(hours(taken.device_hours) if own else "", each.device_hours),
            _share(str(taken.trials) if own else "", each.trials),
            _share(str(taken.runs) if own else "", each.runs),
            f"{each.days} days",
        )
    show_table(table)


@quota.command(epilog="\b\nExample:\n  tunefarm quota remove ann")
@click.argument("user")
@DB
@click.pass_obj
def remove(settings: Settings, user: str, db: str | None) -> None:
    """Take USER's quota away."""
    with RecordStore.open(db or settings.db) as store:
        store.quotas.remove(user)
    click.echo(f"{_who(user)} has no quota of their own any more")


def _who(user: str) -> str:
    return "everyone else" if user == EVERYONE else user


def _share(taken: str, limit: float | None) -> str:
    if limit is None:
        return taken or "any"
    return f"{taken} of {limit:g}" if taken else f"{limit:g}"


def _words(quota: Quota) -> str:
    parts, within = [], f"within {counted(quota.days, 'day')}"
    if quota.device_hours is not None:
        parts.append(f"{hours(quota.device_hours)} device hours {within}")
    if quota.trials is not None:
        parts.append(f"{counted(quota.trials, 'trial')} {within}")
    if quota.runs is not None:
        parts.append(f"{counted(quota.runs, 'run')} at the same time")
    return ", ".join(parts)
