"""`python -m tunefarm.exec.rpc_proxy --port 9090`: a relay with the options of TVM's proxy."""

from __future__ import annotations

from collections.abc import Sequence

from tunefarm.cli.main import main as run
from tunefarm.exec.options import free_port, ignore, parser


def command(argv: Sequence[str] | None = None) -> list[str]:
    """The `tunefarm` command that TVM's options ask for.
    Ends the program for options that have no counterpart."""
    options = parser("rpc_proxy", "Run a relay: clients reach boxes through it that can only dial out.", 9090)
    options.add_argument("--web-port", type=int, default=0, help="not supported: no device runs in a browser")
    options.add_argument("--tracker", default="", help="ignored: servers name their tracker themselves")
    ignore(options, "--example-rpc")
    args = options.parse_args(argv)
    if args.web_port:
        options.error("web pages are not served: no device runs in a browser here")
    return ["relay", "--host", args.host, "--port", str(free_port(args.host, args.port, args.port_end))]


if __name__ == "__main__":
    run(command())
