"""`tunefarm doctor`: look at a farm or a box from end to end and say what is wrong and what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from compiler.errors import TunefarmError
from tunefarm.cli.common import EXIT_CHECK_FAILED, JSON, address
from tunefarm.settings import Settings
from tuner.number_text import counted

if TYPE_CHECKING:
    from tunefarm.cli.farm.examine import Diagnosis

_EPILOG = """\b
Examples:
  tunefarm doctor
  tunefarm doctor --server 127.0.0.1:9091
\b
Exit status: 0 nothing is wrong (there may be warnings), 1 an error, 2 wrong usage, 4 something is wrong.
"""
_MARK = {"ok": ("ok", "green"), "warning": ("!!", "yellow"), "wrong": ("XX", "red")}


@click.command(epilog=_EPILOG)
@click.option("--tracker", metavar="HOST:PORT", help="Look at this tracker and its devices.  [default: the setting]")
@click.option("--server", metavar="HOST:PORT", help="Look at this server alone.")
@JSON
@click.pass_obj
def doctor(settings: Settings, /, tracker: str | None, server: str | None, as_json: bool) -> None:
    """Look at a farm, or at one box, from end to end, and say what is wrong and what to do.

    Looks at reachability, keys, version, clock, governor, memory, user and disk, then leases each free device, uploads
    a file, and runs, compares and times a kernel.
    """
    if tracker and server:
        raise click.UsageError("give --tracker or --server, not both")
    findings = []
    for finding in _findings(settings, tracker, server):
        findings.append(finding)
        if not as_json:
            _print(finding)
    if as_json:
        click.echo(json.dumps([asdict(f) for f in findings]))
    wrong = sum(f.level == "wrong" for f in findings)
    warnings = sum(f.level == "warning" for f in findings)
    if not as_json:
        click.echo(f"{len(findings)} looked at, {counted(warnings, 'warning')}, {wrong} wrong")
    if wrong:
        raise click.exceptions.Exit(EXIT_CHECK_FAILED)


def _findings(settings: Settings, tracker: str | None, server: str | None) -> Iterator[Diagnosis]:
    from rpc_server.wire.keys import KeyRing
    from tracker.client import connect_tracker
    from tunefarm.cli.farm.examine import examine_server, examine_tracker, failed

    keys = KeyRing(settings.keys_folder)
    if server:
        yield from examine_server(*address(server, "--server"), keys)
        return
    where = tracker or settings.tracker
    host, port = address(where, "--tracker")
    try:
        with connect_tracker(host, port, keys=keys) as session:
            yield from examine_tracker(session, keys)
    except TunefarmError as error:
        yield failed(where, "tracker", error)


def _print(finding: Diagnosis) -> None:
    mark, colour = _MARK[finding.level]
    click.echo(f"{click.style(mark, fg=colour)}  {finding.subject}  {finding.about}: {finding.text}")
    if finding.todo:
        click.echo(f"      {finding.todo}")
