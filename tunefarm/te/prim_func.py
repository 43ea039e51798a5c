"""Functions of TensorIR made of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from compiler.faces.directed import directed
from compiler.faces.index_dtype import with_index_dtype
from compiler.lower.blocks.split_preproc import LAYOUT_FREE
from compiler.te.prim_func import create_prim_func as _create
from compiler.te.tensor import Operation, Tensor
from compiler.tir.nodes import PrimFunc

__all__ = ["create_prim_func"]


def create_prim_func(ops: Sequence[Any], index_dtype_override: str | None = None, *, name: str = "main") -> PrimFunc:
    """Return the TensorIR function of the tensors and scalars in `ops`.

    They are in calling order: inputs and outputs. `index_dtype_override` ("int64") is the type of its sizes, loops and
    indices. The tensors that an operation lists in its attribute `layout_free_placeholders` become the function's
    `layout_free_buffers`. Raises what `compiler.te.prim_func.create_prim_func` raises.
    """
    func = directed(_create(ops, name))
    given = ops if isinstance(ops, Sequence) else (ops,)
    free = {tensor for op in _operations(given) for tensor in (op.attrs or {}).get("layout_free_placeholders", ())}
    if positions := [place for place, tensor in enumerate(given) if isinstance(tensor, Tensor) and tensor in free]:
        func = func.with_attr(LAYOUT_FREE, positions)
    return func if index_dtype_override is None else with_index_dtype(func, index_dtype_override)


def _operations(tensors: Sequence[Any]) -> Iterator[Operation]:
    """Yield the operations that compute the tensors, each once."""
    seen: set[Operation] = set()
    left = [tensor.op for tensor in tensors if isinstance(tensor, Tensor)]
    while left:
        op = left.pop()
        if op not in seen:
            seen.add(op)
            yield op
            left += [tensor.op for tensor in op.input_tensors]
