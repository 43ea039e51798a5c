"""Relay's operators by name."""

from typing import Any

from compiler.errors import ArgumentError
from compiler.faces.relay.nodes import relay_op
from compiler.faces.relay.table import OPERATORS
from compiler.ir.base import Op
from tunefarm.relay import image, nn, vision

_PLAIN = {name: known.make for name, known in OPERATORS.items() if "." not in name}
globals().update(_PLAIN)

__all__ = ["Op", "get", "image", "nn", "vision", *sorted(_PLAIN)]


def get(op_name: str) -> Op:
    """The operator of that name. Raises ArgumentError where there is none."""
    if op_name not in OPERATORS:
        raise ArgumentError(f"relay has no operator {op_name!r}")
    return relay_op(op_name)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"relay.op.{name} is not carried over; write it in relax")
