"""`tunefarm tracker`, `tunefarm server` and `tunefarm devices`.

The farm's processes and what they are doing.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from tracker.wait_text import span
from tunefarm.cli.common import FILE, JSON, PORT, Cores, Size, Whole, address
from tunefarm.cli.tables import show_table
from tunefarm.settings import Settings
from tuner.number_text import ranges

if TYPE_CHECKING:
    from rpc_server.wire.tracker_records import DeviceInfo

logger = logging.getLogger("tunefarm")
_STATE_STYLE = {
    "ready": "green",
    "leased": "cyan",
    "draining": "yellow",
    "suspect": "yellow",
    "quarantined": "red",
    "closed": "dim",
}

_TRACKER_EPILOG = """\b
Examples:
  tunefarm tracker
  tunefarm keys new && tunefarm tracker --host 0.0.0.0
  tunefarm tracker --relay-port 9290
\b
Exit status: 0 after SIGINT or SIGTERM, 1 when it cannot start, 2 for wrong usage.
"""


@click.command(epilog=_TRACKER_EPILOG)
@click.option("--host", help="Interface to listen on.  [default: the setting, 127.0.0.1]")
@click.option("--port", type=PORT, default=9190, show_default=True, help="Port; 0 takes a free one.")
@click.option("--port-file", type=FILE, help="Write the port here once it listens.")
@click.option("--relay-port", type=PORT, help="Run a relay here, too, as `tunefarm relay --port` does.")
@click.option("--insecure", is_flag=True, help="Listen on an interface that other machines reach, without keys.")
@click.pass_obj
def tracker(settings: Settings, /, host: str | None, port: int, port_file: Path | None, **given: Any) -> None:
    """Run the tracker: devices register with it, and it lends them to whoever asks.

    Prints "listening on HOST:PORT" when it is ready. Ctrl-C ends it; servers find a new one at the same address by
    themselves and tell it of the leases that go on.
    """
    from tracker.farm_parts import Timing
    from tracker.server import TrackerOptions, serve

    serve(
        TrackerOptions(
            host=host or settings.host,
            port=port,
            port_file=str(port_file or ""),
            insecure=given["insecure"] or settings.insecure,
            keys=str(settings.keys_folder),
            timing=Timing(idle_check_s=settings.idle_check),
            relay_port=-1 if given["relay_port"] is None else given["relay_port"],
        )
    )


_SERVER_EPILOG = """\b
Examples:
  tunefarm server
  tunefarm server --tracker 127.0.0.1:9190 --key cpu
  tunefarm server --tracker tracker.lab:9190 --relay relay.lab:9290
  tunefarm server --port 0 --port-file /run/box0.port --cores 0,1 --tag quiet
  tunefarm server --tracker tracker.lab:9190 --gpu all
\b
Exit status: 0 after SIGINT or SIGTERM, 1 when it cannot start, 2 for wrong usage.
"""


@click.command(epilog=_SERVER_EPILOG)
@click.option("--host", help="Interface to listen on.  [default: the setting, 127.0.0.1]")
@click.option("--port", type=PORT, default=9091, show_default=True, help="Port; 0 takes a free one.")
@click.option("--port-file", type=FILE, help="Write the port here once it listens.")
@click.option("--tracker", metavar="HOST:PORT", help="Lend the device through this tracker, and only through it.")
@click.option("--key", default="", help="Key under which clients request the device.  [default: cpu]")
@click.option("--tag", "tags", multiple=True, help="Another word that requests can name; may be repeated.")
@click.option("--name", default="", help="The box's name on the farm.  [default: HOSTNAME:PORT]")
@click.option("--address", "told", default="", metavar="HOST", help="Host clients dial.  [default: --host, --relay]")
@click.option("--relay", metavar="HOST:PORT", help="Let clients come through this relay; the box only dials out.")
@click.option("--gpu", default="", metavar="UUID|N|all", help="Lend this GPU, or MIG instance, in place of the CPU.")
@click.option("--cores", type=Cores(), help="Cores for the server and everything it runs, such as 0,1 or 0-3.")
@click.option("--memory-limit", type=Size(), help="Memory of a session, such as 8GiB; 0: no limit.  [default: 3/4]")
@click.option("--disk-limit", type=Size(), help="Files of a session, such as 2GiB; 0: no limit.  [default: half]")
@click.option("--processes", type=Whole(min=1), default=512, show_default=True, help="Processes of a session.")
@click.option(
    "--user", default="each", show_default=True, help="As root: the user of the kernels; each: one for each executor."
)
@click.option(
    "--isolation",
    type=click.Choice(["auto", "full", "partial", "none"]),
    default="auto",
    show_default=True,
    help="Isolation of sessions; auto: the best that the system allows.",
)
@click.option("--hours", default="", help='Lend it only at these times, such as "Mon-Fri 19:00-07:00, Sat, Sun".')
@click.option("--timezone", default="", metavar="ZONE", help="Time zone of the hours.  [default: the box's own]")
@click.option("--end-at-close", is_flag=True, help="End leases at closing time.  [default: they may run to their end]")
@click.option("--insecure", is_flag=True, help="Listen on an interface that other machines reach, without keys.")
@click.pass_obj
def server(settings: Settings, /, cores: tuple[int, ...] | None, **given: Any) -> None:
    """Run a device server: it measures what clients send, each session in a process of its own.

    Prints "listening on HOST:PORT" when it is ready. Ctrl-C ends it and every session. With --gpu all it runs a server
    for each GPU and MIG instance, at ports from --port on, and starts one that ends again.
    """
    if given["tracker"]:
        address(given["tracker"], "--tracker")
    elif given["hours"]:
        raise click.UsageError("--hours are those of a tracker's lending: give --tracker as well")
    elif given["relay"] and not given["key"]:
        raise click.UsageError("--relay leads to boxes of a tracker, or of a key: give --tracker or --key as well")
    if given["relay"]:
        address(given["relay"], "--relay")
    if cores:
        os.sched_setaffinity(0, cores)  # before numpy or LLVM is loaded: their threads would keep the old set
    from rpc_server.box.gpu_servers import serve_all
    from rpc_server.box.server import serve
    from rpc_server.box.server_options import ServerOptions
    from rpc_server.machine.core_claims import claimed

    run = serve_all if given["gpu"] == "all" else serve
    limits = {name: given[name] for name in ("memory_limit", "disk_limit") if given[name] is not None}
    lent = () if given["gpu"] and not cores else sorted(os.sched_getaffinity(0))
    with claimed(lent) as shared:
        if shared:
            logger.warning(
                "another server of this machine has core%s %s too: their kernels disturb each other's times; "
                "--cores gives each its own",
                "s" if len(shared) > 1 else "",
                ranges(shared),
            )
        run(
            ServerOptions(
                host=given["host"] or settings.host,
                port=given["port"],
                port_file=str(given["port_file"] or ""),
                tracker=given["tracker"] or "",
                key=given["key"],
                tags=given["tags"],
                name=given["name"],
                address=given["told"],
                relay=given["relay"] or "",
                user=given["user"],
                isolation=given["isolation"],
                hours=given["hours"],
                timezone=given["timezone"],
                end_at_close=given["end_at_close"],
                insecure=given["insecure"] or settings.insecure,
                keys=str(settings.keys_folder),
                processes=given["processes"],
                gpu=given["gpu"],
                **limits,
            )
        )


_DEVICES_EPILOG = """\b
Examples:
  tunefarm devices
  tunefarm devices --json | jq -r '.[] | select(.state == "ready") | .id'
\b
Exit status: 0, 1 when the tracker does not answer, 2 for wrong usage.
"""


@click.command(epilog=_DEVICES_EPILOG)
@click.option("--tracker", metavar="HOST:PORT", help="Address of the tracker.  [default: the setting, 127.0.0.1:9190]")
@JSON
@click.pass_obj
def devices(settings: Settings, tracker: str | None, as_json: bool) -> None:
    """List the devices of the tracker: state, who holds each, what it is and when it was last heard of."""
    from rpc_server.wire.keys import KeyRing
    from tracker.client import connect_tracker

    host, port = address(tracker or settings.tracker, "--tracker")
    with connect_tracker(host, port, keys=KeyRing(settings.keys_folder)) as session:
        found = session.devices()
    if as_json:
        click.echo(json.dumps([device_json(d) for d in found]))
    elif found:
        show_table(_device_table(found), "CPU or GPU", "last check", "address")
    else:
        click.echo(
            f"no devices are registered with the tracker at {host}:{port}; "
            f"start one: tunefarm server --tracker {host}:{port}"
        )


def device_json(device: DeviceInfo) -> dict[str, Any]:
    """A device as `--json` shows it."""
    return asdict(device)


def _device_table(devices: Sequence[DeviceInfo]) -> Table:
    table = Table("device", "key", "state", "held by", "CPU or GPU")
    table.add_column("cores", justify="right")
    table.add_column("last check")
    table.add_column("address")
    table.add_column("last seen", justify="right")
    for d in devices:
        held = f"{d.user}, {span(d.held_s)}" if d.user else "–"
        model = str(d.attributes.get("gpu") or d.attributes.get("cpu_model") or "–")
        cores = str(d.attributes.get("multiprocessors") or d.attributes.get("threads") or "–")
        seen = f"{span(d.seen_s)} ago"
        plain = map(Text, (held, model, cores))
        table.add_row(Text(d.id), Text(d.key), _state(d), *plain, _check(d), Text(d.address), Text(seen))
    return table


def _check(device: DeviceInfo) -> Text:
    """Speeds and age of the last health check; what was wrong is in the state."""
    check = device.check
    if check is None:
        return Text("–")
    speeds = f"{check.scores.compute:.1f} GFLOP/s, {check.scores.memory:.1f} GB/s" if check.scores else "failed"
    return Text(f"{speeds}, {span(check.age_s)} ago", style="" if check.passed else "red")


def _state(device: DeviceInfo) -> Text:
    text = Text(device.state, style=_STATE_STYLE.get(device.state, "red"))
    return text.append(f": {device.reason}", style="default") if device.reason else text
