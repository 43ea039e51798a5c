"""The StructInfo of TensorIR functions' parameters, for graphs."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.relax.nodes import FuncStructInfo, PrimStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from compiler.relax.nodes.dims import int64, variables
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr


def prim_func_info(func: n.PrimFunc) -> FuncStructInfo:
    """A function that writes its results into its last arguments, so it returns nothing and is not pure."""
    params: list[StructInfo] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        params.append(PrimStructInfo(param.dtype) if buffer is None else _buffer_info(buffer))
    return FuncStructInfo(params, TupleStructInfo(()), purity=False)


def _buffer_info(buffer: n.Buffer) -> TensorStructInfo:
    dims = _dims(buffer.shape)
    if dims is None:
        return TensorStructInfo(None, buffer.dtype, None, len(buffer.shape))
    return TensorStructInfo(dims, buffer.dtype)  # type: ignore[arg-type]


def _dims(shape: Sequence[PrimExpr]) -> list[PrimExpr] | None:
    """The dimensions as graphs have them; None where one is of another type than int64."""
    found: list[PrimExpr] = []
    for size in shape:
        if isinstance(size, n.IntImm):
            found.append(int64(size.value))
        elif size.dtype == "int64" and all(var.dtype == "int64" for var in variables(size)):
            found.append(size)
        else:
            return None
    return found
