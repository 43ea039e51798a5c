"""`tunefarm drain`, `undrain`, `quarantine`, `unquarantine` and `check`.

What an admin does to devices.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from tunefarm.cli.common import JSON, CheckFailedError, Timespan, address
from tunefarm.settings import Settings

if TYPE_CHECKING:
    from rpc_server.wire.tracker_records import DeviceInfo
    from tracker.client import TrackerSession

_POLL_S = 0.2
_EXIT = "\b\nTARGET is a device's id (box1/0) or a box's name (box1). Exit status: 0, 1 an error, 2 wrong usage."
_Action = Literal["drain", "undrain", "quarantine", "unquarantine"]


def _connect(settings: Settings, tracker: str | None) -> TrackerSession:
    from rpc_server.wire.keys import KeyRing
    from tracker.client import connect_tracker

    host, port = address(tracker or settings.tracker, "--tracker")
    return connect_tracker(host, port, keys=KeyRing(settings.keys_folder))


def _command(action: _Action, summary: str) -> click.Command:
    @click.command(action, help=summary, epilog=f"\b\nExample:\n  tunefarm {action} box1 --reason moving\n{_EXIT}")
    @click.argument("target", metavar="TARGET")
    @click.option("--reason", default="", help="Why, for whoever looks at the devices.")
    @click.option("--tracker", metavar="HOST:PORT", help="Address of the tracker.  [default: the setting]")
    @JSON
    @click.pass_obj
    def run(settings: Settings, /, target: str, reason: str, **given: Any) -> None:
        with _connect(settings, given["tracker"]) as session:
            ids = getattr(session, action)(target, reason)
            devices = [d for d in session.devices() if d.id in ids]
        _show(devices, given["as_json"])

    return run


drain = _command("drain", "Lend TARGET no more; leases it has go on to their end.")
undrain = _command("undrain", "Lend a drained TARGET again.")
quarantine = _command("quarantine", "Take TARGET out of service now; leases it has are lost.")
unquarantine = _command("unquarantine", "Bring a quarantined TARGET back into service.")

_CHECK_EPILOG = """\b
Example:
  tunefarm check box1
\b
Exit status: 0 every device passed, 1 an error, 2 wrong usage, 4 a device failed.
"""


@click.command(epilog=_CHECK_EPILOG)
@click.argument("target", metavar="TARGET")
@click.option("--wait", "wait_s", type=Timespan(), default="2min", show_default=True, help="Wait this long.")
@click.option("--tracker", metavar="HOST:PORT", help="Address of the tracker.  [default: the setting]")
@JSON
@click.pass_obj
def check(settings: Settings, /, target: str, wait_s: float, **given: Any) -> None:
    """Have the health of TARGET checked: calibration kernels, on every core.

    A device that is lent is checked when it comes back; nothing is lent on it before it has passed.
    """
    with _connect(settings, given["tracker"]) as session:
        asked = time.monotonic()
        ids = session.check(target)
        while True:
            devices = [d for d in session.devices() if d.id in ids]
            since = time.monotonic() - asked
            waiting = [d for d in devices if d.check is None or d.check.age_s > since]
            if not waiting or since > wait_s:
                break
            time.sleep(_POLL_S)
    _show(devices, given["as_json"])
    if failed := [d for d in devices if d not in waiting and d.check is not None and not d.check.passed]:
        lines = "\n".join(f"    {d.id}: {d.check.text}" for d in failed if d.check is not None)
        raise CheckFailedError(f"{len(failed)} of {len(devices)} devices failed:\n{lines}")
    if waiting:
        raise CheckFailedError(f"no result of {', '.join(d.id for d in waiting)} yet", hint="see `tunefarm devices`")


def _show(devices: Sequence[DeviceInfo], as_json: bool) -> None:
    from tunefarm.cli.farm.services import device_json

    if as_json:
        click.echo(json.dumps([device_json(d) for d in devices]))
        return
    for d in devices:
        line = f"{d.id}: {d.state}" + (f" ({d.reason})" if d.reason else "")
        click.echo(line + (f", last check: {d.check.text}" if d.check is not None else ""))
