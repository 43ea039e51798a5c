"""Relay's operators of the group `nn`."""

from typing import NoReturn

import compiler.faces.relay.translate  # noqa: F401  (fills the table)
from compiler.faces.relay.op.sparse import sparse_dense_of
from compiler.faces.relay.table import OPERATORS

_GROUP = {name.partition(".")[2]: known.make for name, known in OPERATORS.items() if name.startswith("nn.")}
_GROUP["sparse_dense"] = sparse_dense_of
globals().update(_GROUP)

__all__ = sorted(_GROUP)


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"relay.nn.{name} is not carried over; write it in relax")
