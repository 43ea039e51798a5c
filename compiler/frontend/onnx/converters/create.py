"""Tensors made of nothing: constants, filled shapes, ranges."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from compiler.frontend.onnx.converters.shape import named_sizes
from compiler.frontend.onnx.element_types import dtype_of
from compiler.frontend.onnx.errors import OnnxImportError
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.kernels import elements
from compiler.frontend.onnx.model_source import TensorSource
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.frontend.onnx.run_time import i64, sizes_by
from compiler.frontend.onnx.values import TensorValue
from compiler.relax import op
from compiler.relax.nodes.dims import simplified
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Select

MAX_DENSE = 1 << 24
"""Elements of a tensor that few numbers of the file stand for."""


@converter("Constant")
def constant(g: GraphBuilder, node: Node) -> Result:
    """Give what an attribute holds."""
    attrs = node.attrs
    if "value" in attrs:
        return g.known(TensorSource().array(attrs["value"]), attrs["value"].data_type)
    for name, dtype in (("value_int", np.int64), ("value_ints", np.int64), ("value_float", np.float32),
                        ("value_floats", np.float32)):  # fmt: skip
        if name in attrs:
            return g.known(np.array(attrs[name], dtype))
    if "sparse_value" in attrs:
        return g.known(_dense(attrs["sparse_value"]))
    return node.fail(f"a constant of {', '.join(attrs) or 'nothing'} is no tensor of numbers")


def _dense(sparse: Any) -> Any:
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    if any(size < 0 for size in sparse.dims) or prod(sparse.dims) > MAX_DENSE:
        raise OnnxImportError(f"a sparse constant has the shape {tuple(sparse.dims)}")
    found = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        found.reshape(-1)[indices] = values
    else:
        found[tuple(indices.T)] = values
    return found


@converter("ConstantOfShape")
def constant_of_shape(g: GraphBuilder, node: Node) -> Result:
    """Fill a shape with one number."""
    proto = node.attr("value")
    if proto is None:
        array, elem = np.zeros(1, np.float32), int(TensorProto.FLOAT)
    else:
        array, elem = TensorSource().array(proto), proto.data_type
    sizes = named_sizes(g, node, 0)
    dtype = dtype_of(elem)
    if all(isinstance(size, int) for size in sizes) and prod(sizes) <= 4096:
        return g.known(np.full(sizes, array.reshape(-1)[0]), elem)
    filled = g.full(0, dtype) if array.size == 0 else g.known(array.reshape(-1)[0], elem)
    return g.value(op.full(g.shape_expr(sizes), g.expr(filled) if isinstance(filled, TensorValue) else filled), elem)


@converter("EyeLike")
def eye_like(g: GraphBuilder, node: Node) -> Result:
    """Make a matrix with ones on a diagonal."""
    x = node.value(0)
    elem = node.int("dtype", x.elem)
    rows, columns = g.shape(x)
    return g.value(g.te(_eye, rows, columns, node.int("k", 0), dtype_of(elem)), elem)


def _eye(rows: Any, columns: Any, k: int, dtype: str) -> Tensor:
    return elements((rows, columns), lambda i, j: ops.equal(i + k, j).astype(dtype), name="eye")


@converter("Range")
def arange(g: GraphBuilder, node: Node) -> Result:
    """Count from a start to before a limit."""
    start, limit, step = (node.value(k) for k in range(3))
    dtype = start.dtype
    if start.is_constant and limit.is_constant and step.is_constant:
        first, last, by = (g.static_numbers(value, "a bound")[0] for value in (start, limit, step))
        if by and (last - first) / by > MAX_DENSE:
            node.fail(f"it counts to {(last - first) / by:.3g} elements")
        if dtype.startswith(("int", "uint")):
            return g.known(np.arange(int(first), int(last), int(by)).astype(dtype), start.elem)
        return g.known(np.arange(first, last, by).astype(dtype), start.elem)
    ends = [g.known_ints(value) if dtype == "int64" else None for value in (start, limit, step)]
    if all(end is not None for end in ends):
        (first_end,), (last_end,), (by_end,) = ends  # type: ignore[misc]
        if isinstance(by_end, int) and by_end > 0:
            span = ops.as_expr(last_end) - first_end
            count = simplified(ops.maximum(ops.floordiv(span + (by_end - 1), i64(by_end)), i64(0)))
            if isinstance(first_end, int) and first_end == 0 and by_end == 1:
                count = simplified(ops.as_expr(last_end))
            return g.value(g.te(_counted_from, count, first_end, by_end))
    count = sizes_by(g, _count, 1, *(g.expr(value) for value in (start, limit, step)), name="count")[0]
    return g.value(g.te(_counted, count, start, step), start.elem)


def _only(x: Tensor) -> Any:
    """The one element of a tensor."""
    return x(*[i64(0)] * x.ndim)


def _count(start: Tensor, limit: Tensor, step: Tensor) -> list[PrimExpr]:
    ends = [_only(value) for value in (start, limit, step)]
    first, last, by = ends
    if start.dtype.startswith(("int", "uint")):
        first, last, by = (value.astype("int64") for value in (first, last, by))
        safe = Select(ops.equal(by, i64(0)), i64(1), by)
        whole = Select(
            ops.greater(by, i64(0)), ops.floordiv(last - first + safe - 1, safe),
            ops.floordiv(first - last - safe - 1, Select(ops.less(by, i64(0)), i64(0) - by, i64(1))),
        )  # fmt: skip
        return [ops.maximum(whole, i64(0))]
    steps = intrin.ceil((last.astype("float64") - first.astype("float64")) / by.astype("float64"))
    return [ops.maximum(steps.astype("int64"), i64(0))]


def _counted(count: Any, start: Tensor, step: Tensor) -> Tensor:
    return elements((count,), lambda i: _only(start) + i.astype(start.dtype) * _only(step), name="range")


def _counted_from(count: Any, first: Any, step: Any) -> Tensor:
    def at(i: PrimExpr) -> Any:
        return i64(first) + i64(i) * i64(step)

    return elements((count,), at, name="range")
