"""Choosing by a mask."""

from __future__ import annotations

from typing import Any

from compiler.relax.nodes import Call, const
from compiler.relax.op.movement.create import full_like
from compiler.relax.op.reduction.search import where

__all__ = ["masked_fill"]


def masked_fill(x: Any, mask: Any, value: Any) -> Call:
    """Replace the elements of `x` where `mask` holds by the number `value`: a `full_like` and a `where`."""
    return where(mask, full_like(x, const(value)), x)
