"""`python -m tunefarm.exec.query_rpc_tracker --port 9190`: print what a tracker lends."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from tunefarm.exec.options import LOOPBACK
from tunefarm.rpc import connect_tracker


def summary(argv: Sequence[str] | None = None) -> str:
    """The tracker's devices and queues as text. Raises ConnectError when there is no tracker."""
    options = argparse.ArgumentParser(
        prog="python -m tunefarm.exec.query_rpc_tracker", description="Look at a tracker."
    )
    options.add_argument("--host", default=os.environ.get("TVM_TRACKER_HOST", LOOPBACK))
    options.add_argument("--port", type=int, default=int(os.environ.get("TVM_TRACKER_PORT", "9190")))
    args = options.parse_args(argv)
    return f"Tracker address {args.host}:{args.port}\n\n{connect_tracker(args.host, args.port).text_summary()}"


if __name__ == "__main__":
    print(summary())
