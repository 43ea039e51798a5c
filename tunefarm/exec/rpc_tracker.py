"""`python -m tunefarm.exec.rpc_tracker --port 9190`: the tracker with TVM's options."""

from __future__ import annotations

from collections.abc import Sequence

from tunefarm.cli.main import main as run
from tunefarm.exec.options import free_port, ignore, parser


def command(argv: Sequence[str] | None = None) -> list[str]:
    """The `tunefarm` command that TVM's options ask for."""
    options = parser("rpc_tracker", "Run the tracker that lends devices.", 9190)
    ignore(options, "--silent", "--no-fork", "--fork")
    args = options.parse_args(argv)
    return ["tracker", "--host", args.host, "--port", str(free_port(args.host, args.port, args.port_end))]


if __name__ == "__main__":
    run(command())
