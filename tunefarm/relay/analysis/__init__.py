"""Questions about expressions."""

from typing import NoReturn

from compiler.faces.relay.order import all_vars, bound_vars, free_vars, post_order_visit
from compiler.faces.relay.passes import all_type_vars, free_type_vars, well_formed

__all__ = ["all_type_vars", "all_vars", "bound_vars", "free_type_vars", "free_vars", "post_order_visit", "well_formed"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"relay.analysis.{name} is not carried over; use relax.analysis on relay.to_relax(mod)")
