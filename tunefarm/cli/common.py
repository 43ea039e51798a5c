"""What several subcommands share."""

from __future__ import annotations

import click


def address(text: str, option: str) -> tuple[str, int]:
    """HOST:PORT as a pair. A usage error names the option."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise click.BadParameter(f"{text!r} is not HOST:PORT, for example 127.0.0.1:9190", param_hint=option)
    return host, int(port)
