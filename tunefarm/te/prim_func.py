"""Functions of TensorIR made of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.faces.index_dtype import with_index_dtype
from compiler.te.prim_func import create_prim_func as _create
from compiler.tir.nodes import PrimFunc

__all__ = ["create_prim_func"]


def create_prim_func(ops: Sequence[Any], index_dtype_override: str | None = None, *, name: str = "main") -> PrimFunc:
    """Return the TensorIR function of the tensors and scalars in `ops`, in calling order: inputs and outputs.

    `index_dtype_override` ("int64") is the type of its sizes, loops and indices. Raises what
    `compiler.te.prim_func.create_prim_func` raises.
    """
    func = _create(ops, name)
    return func if index_dtype_override is None else with_index_dtype(func, index_dtype_override)
