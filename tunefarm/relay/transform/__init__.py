"""Passes over Relay programs. What optimises them are the passes of relax, which `relay.build` runs."""

from typing import NoReturn

from compiler.faces.relay.passes import InferType
from compiler.ir.transform.context import PassContext
from compiler.ir.transform.passes import Pass, Sequential

__all__ = ["InferType", "Pass", "PassContext", "Sequential"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"relay.transform.{name} is not carried over; relay.build optimises by itself, and relax.transform has passes "
        "for relay.to_relax(mod)"
    )
