"""The entry point of the `tunefarm` command.

It imports nothing before Ctrl-C and SIGTERM are handled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tunefarm.cli.importing import ends_quietly


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run `tunefarm ARGV` and exit with its status."""
    with ends_quietly():
        from tunefarm.cli.commands import run
    run(argv)
