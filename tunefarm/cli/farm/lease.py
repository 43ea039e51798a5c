"""`tunefarm lease`: hold a device from the shell, for a command or until Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from compiler.errors import TunefarmError
from tunefarm.cli.common import Timespan, Whole, address
from tunefarm.settings import Settings

if TYPE_CHECKING:
    from rpc_server.wire.tracker_messages import Queued
    from tracker.holdings import Lease

_EPILOG = """\b
Examples:
  tunefarm lease cpu -- tunefarm tune matmul:512,512,512 --device '$TUNEFARM_DEVICE'
  tunefarm lease "quiet memory>=8GiB" --for 1h -- python bench.py
  tunefarm lease 'device=box1/0'
\b
Exit status: the command's own; without one 0 after Ctrl-C. 1 when there is no device or it is lost, 2 for wrong usage.
"""

_PATIENCE_S = 10.0


@click.command(epilog=_EPILOG)
@click.argument("expr", metavar="EXPR")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--for", "limit_s", type=Timespan(), help="Hold it for this long at most, such as 90s, 30min or 2h.")
@click.option("--wait", "wait_s", type=Timespan(), help="Give up when no device is free by then.  [default: wait]")
@click.option("--priority", type=Whole(-1000, 1000), default=1, show_default=True, help="Higher goes first.")
@click.option("--tracker", metavar="HOST:PORT", help="Address of the tracker.  [default: the setting, 127.0.0.1:9190]")
@click.option("--json", "as_json", is_flag=True, help="Print the lease as JSON.")
@click.pass_obj
def lease(settings: Settings, /, expr: str, command: tuple[str, ...], **given: Any) -> None:
    """Hold a device that matches EXPR while COMMAND runs, or until Ctrl-C, and give it back.

    COMMAND finds it in its environment: TUNEFARM_DEVICE (HOST:PORT, for --device), TUNEFARM_LEASE_TOKEN,
    TUNEFARM_DEVICE_ID and, where keys are used, TUNEFARM_DEVICE_KEY. Words of it are filled in from that environment
    when they are $NAME in single quotes.
    """
    from rpc_server.wire.keys import KeyRing
    from tracker.client import connect_tracker

    host, port = address(given["tracker"] or settings.tracker, "--tracker")
    with connect_tracker(host, port, keys=KeyRing(settings.keys_folder)) as session:
        held = session.lease(
            expr,
            priority=given["priority"],
            wait_s=given["wait_s"],
            session_timeout_s=given["limit_s"],
            on_queued=_tell_place,
        )
        environment = environment_of(held)
        if given["as_json"]:
            shown = {"device": held.device, "lease": held.id, "environment": environment, "attributes": held.attributes}
            click.echo(json.dumps(shown))
        code = _run(command, environment, held) if command else _hold(held, environment, given["as_json"])
        held.release()
    raise click.exceptions.Exit(code)


def environment_of(held: Lease) -> dict[str, str]:
    """Return what a command needs to use a leased device."""
    host = f"[{held.host}]" if ":" in held.host else held.host
    found = {
        "TUNEFARM_DEVICE": f"{host}:{held.port}",
        "TUNEFARM_LEASE_TOKEN": held.token,
        "TUNEFARM_DEVICE_ID": held.device,
    }
    return found | ({"TUNEFARM_DEVICE_KEY": held.box_key} if held.box_key else {})


def _tell_place(place: Queued) -> None:
    from tracker.wait_text import place_text

    click.echo(f"waiting: {place_text(place)}", err=True)


def _hold(held: Lease, environment: dict[str, str], as_json: bool) -> int:
    """Print how to use the device and hold it until a signal. Raises LeaseLostError when it is lost."""
    if not as_json:
        click.echo(f"{held.device} is yours until Ctrl-C", err=True)
        for name, value in environment.items():
            click.echo(f"export {name}={value}")
    lost = threading.Event()
    held.on_lost(lambda _: lost.set())
    try:
        lost.wait()
    except KeyboardInterrupt:
        return 0
    held.check()
    return 0


def _run(command: Sequence[str], environment: dict[str, str], held: Lease) -> int:
    """The command's exit status. It is ended when the device is lost; then LeaseLostError is raised."""
    words = [environment.get(word.removeprefix("$"), word) if word.startswith("$") else word for word in command]
    try:
        child = subprocess.Popen(words, env=os.environ | environment)
    except OSError as error:
        raise TunefarmError(f"cannot run {words[0]!r}: {error.strerror}", hint="check its name and path") from None
    held.on_lost(lambda _: child.terminate())
    try:
        code = child.wait()
    except KeyboardInterrupt:  # a terminal's Ctrl-C has reached the command as well
        child.send_signal(signal.SIGINT)
        try:
            code = child.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait()
    held.check()
    return code if code >= 0 else 128 - code
