"""The common options of these programs."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Sequence

from rpc_server.errors import ServerStartError

LOOPBACK = "127.0.0.1"


def parser(module: str, summary: str, port: int) -> argparse.ArgumentParser:
    """A parser with the options that every program has: an interface and ports to choose from."""
    made = argparse.ArgumentParser(prog=f"python -m tunefarm.exec.{module}", description=summary)
    made.add_argument("--host", default=LOOPBACK, help="interface to listen on (default: loopback)")
    made.add_argument("--port", type=int, default=port, help="first port to try; 0 takes a free one")
    made.add_argument("--port-end", type=int, default=9199, help="the port before which to stop trying")
    return made


def ignore(made: argparse.ArgumentParser, *flags: str) -> None:
    """Accept flags of TVM that make no difference here."""
    for flag in flags:
        made.add_argument(flag, action="store_true", help="ignored; accepted for compatibility with TVM")


def free_port(host: str, port: int, port_end: int) -> int:
    """The first port of [port, port_end) that nobody listens on; 0 for 0.

    Raises ServerStartError when all are taken.
    """
    candidates: Sequence[int] = range(port, max(port_end, port + 1)) if port else ()
    for candidate in candidates:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, candidate))
            except OSError:
                continue
            return candidate
    if not port:
        return 0
    last = max(port, port_end - 1)
    raise ServerStartError(f"no port of {host} from {port} to {last} is free", hint="choose another --port")
