"""Relay's operators of the group `image`."""

from typing import NoReturn

import compiler.faces.relay.translate  # noqa: F401  (fills the table)
from compiler.faces.relay.table import OPERATORS

_GROUP = {name.partition(".")[2]: known.make for name, known in OPERATORS.items() if name.startswith("image.")}
globals().update(_GROUP)

__all__ = sorted(_GROUP)


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"relay.image.{name} is not carried over; write it in relax")
