"""`tunefarm relay`: the way to boxes that can only dial out."""

from __future__ import annotations

from pathlib import Path

import click

from rpc_server.machine.number_spans import spans
from tunefarm.cli.common import FILE, PORT
from tunefarm.settings import Settings

_EPILOG = """\b
Examples:
  tunefarm relay
  tunefarm keys new && tunefarm relay --host 0.0.0.0 --ports 9291-9354
  tunefarm server --tracker tracker.lab:9190 --relay relay.lab:9290
\b
Exit status: 0 after SIGINT or SIGTERM, 1 when it cannot start, 2 for wrong usage.
"""


@click.command(epilog=_EPILOG)
@click.option("--host", help="Interface to listen on.  [default: the setting, 127.0.0.1]")
@click.option("--port", type=PORT, default=9290, show_default=True, help="Port; 0 takes a free one.")
@click.option("--ports", metavar="A-B", help="More ports: the first for boxes.  [default: the 64 after --port]")
@click.option("--port-file", type=FILE, help="Write the port here once it listens.")
@click.option("--insecure", is_flag=True, help="Listen on an interface that other machines reach, without keys.")
@click.pass_obj
def relay(
    settings: Settings, host: str | None, port: int, ports: str | None, port_file: Path | None, insecure: bool
) -> None:
    """Run a relay: clients reach boxes through it that can only dial out.

    Boxes behind NAT or a firewall are started with `tunefarm server --relay HOST:PORT`; clients of the tracker need do
    nothing. Both connect to --port, boxes also to the first of --ports, and clients to the others. What they say is
    encrypted between client and box where they have keys; the relay cannot read it.

    Prints "listening on HOST:PORT" when it is ready. Ctrl-C ends it, and with it the sessions that go through it.
    """
    first, last = _range(ports)
    from rpc_server.relay.server import RelayOptions, serve

    serve(
        RelayOptions(
            host=host or settings.host,
            port=port,
            first=first,
            last=last,
            port_file=str(port_file or ""),
            insecure=insecure or settings.insecure,
            keys=str(settings.keys_folder),
        )
    )


def _range(text: str | None) -> tuple[int, int]:
    if text is None:
        return 0, 0
    found = spans(text) or []
    first, last = found[0] if len(found) == 1 else (0, 0)
    if not 0 < first < last < 65536:
        wrong = f"{text!r} is no range of at least two ports, for example 9291-9354"
        raise click.BadParameter(wrong, param_hint="--ports")
    return first, last
