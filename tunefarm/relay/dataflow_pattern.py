"""Patterns in Relay programs: not carried over, relax has them."""

from typing import NoReturn

__all__: list[str] = []


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"relay.dataflow_pattern.{name} is not carried over; use relax.dpl on relay.to_relax(mod)")
