"""`python -m tunefarm.exec.rpc_server --tracker HOST:PORT --key cpu`: a server with TVM's options."""

from __future__ import annotations

from collections.abc import Sequence

from tunefarm.cli.main import main as run
from tunefarm.exec.options import LOOPBACK, free_port, ignore, parser


def command(argv: Sequence[str] | None = None) -> list[str]:
    """The `tunefarm` command that TVM's options ask for.
    Ends the program for options that have no counterpart."""
    options = parser("rpc_server", "Run a device server.", 9091)
    options.add_argument("--tracker", default="", help="HOST:PORT of the tracker to lend the device through")
    options.add_argument("--key", default="", help="key that the device is asked for by")
    options.add_argument("--custom-addr", default="", help="host that clients of the tracker are told")
    options.add_argument("--through-proxy", action="store_true", help="host and port are a relay's, to come through")
    options.add_argument("--load-library", default="", help="not supported: use rpc.Server(load_library=…)")
    ignore(options, "--silent", "--no-fork", "--fork")
    args = options.parse_args(argv)
    if args.load_library:
        options.error("libraries are loaded by tunefarm.rpc.Server(load_library=…)")
    if args.through_proxy:
        made = ["server", "--host", LOOPBACK, "--port", "0", "--relay", f"{args.host}:{args.port}"]
    else:
        made = ["server", "--host", args.host, "--port", str(free_port(args.host, args.port, args.port_end))]
    for flag, value in (("--tracker", args.tracker), ("--key", args.key), ("--address", args.custom_addr)):
        made += [flag, value] if value else []
    return made


if __name__ == "__main__":
    run(command())
