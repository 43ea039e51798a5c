"""Shapes: of tensors, as tensors, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.errors import IRError
from compiler.ir.base import RelaxExpr
from compiler.relax.nodes import Expr, ShapeStructInfo, StructInfo, TensorStructInfo, describe, info_of
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.params import ShapeArg, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator, refused
from compiler.relax.op.core.rules import tensor
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import nothing
from compiler.te.operation import compute
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import product

__all__ = ["get_shape_of", "shape_of", "shape_to_tensor", "size", "tensor_to_shape"]

_ON_HOST = refused("the machine does it, not a kernel")
_LEFT_ALONE = refused("tensors pass through as they were written")
_NO_GRADIENT = refused("a shape has no gradient")
_SIZES: dict[str, Any] = {
    "pattern": OpPatternKind.OPAQUE, "flops": nothing, "bytes": nothing, "layout": _LEFT_ALONE,
    "gradient": _NO_GRADIENT,
}  # fmt: skip
"""The parts that all operators of shapes share."""


def _shape_of_info(use: Use) -> StructInfo:
    data = use.tensor("expr")
    if data.dims is not None:
        return ShapeStructInfo(data.dims)
    known = None if data.shape is None else info_of(data.shape)
    return known if isinstance(known, ShapeStructInfo) else ShapeStructInfo(None, data.ndim)


@operator("relax.shape_of", infer=_shape_of_info, te=_ON_HOST, host=lambda expr: tuple(expr.shape), **_SIZES)
def shape_of(expr: TensorArg) -> Expr:
    """Give the shape of a tensor."""


def get_shape_of(expr: RelaxExpr) -> RelaxExpr:
    """The shape of a tensor: as an expression where it is known, else a call of shape_of.

    Raises IRError for what is no tensor, or not normalised.
    """
    info = info_of(expr)
    if not isinstance(info, TensorStructInfo):
        from_what = describe(expr) if info is None else f"{describe(expr)}, a {info}"
        raise IRError(f"there is no shape of {from_what}: it is no tensor, or was not normalised")
    return info.shape if info.shape is not None else shape_of(expr)


# ---------------------------------------------------------------------------- shapes as tensors


def _size_info(use: Use) -> StructInfo:
    return tensor((), "int64", vdevice=use.tensor("expr").vdevice)


def _size(expr: Tensor) -> Tensor:
    total = ops.cast("int64", product(expr.shape))
    made: Tensor = compute((), lambda: total, name="T_size", tag="injective")
    return made


@operator("relax.size", infer=_size_info, te=_size, host=lambda expr: np.array(expr.size, "int64"), **_SIZES)
def size(expr: TensorArg) -> Expr:
    """Count the elements of a tensor."""


def _to_tensor_info(use: Use) -> StructInfo:
    shape = use.shape("expr")
    return tensor(None if shape.ndim == -1 else [int64(shape.ndim)], "int64", 1)


def _to_tensor(expr: list[Any]) -> Tensor:
    sizes = [ops.cast("int64", ops.as_expr(size)) for size in expr]

    def element(i: Var) -> PrimExpr:
        found = sizes[-1]
        for place in reversed(range(len(sizes) - 1)):
            found = intrin.select(ops.equal(i, place), sizes[place], found)
        return found

    made: Tensor = compute(
        (len(sizes),), element if sizes else lambda i: ops.const(0, "int64"), name="T_shape", tag="injective"
    )
    return made


@operator(
    "relax.shape_to_tensor", infer=_to_tensor_info, te=_to_tensor, host=lambda expr: np.array(expr, "int64"), **_SIZES
)
def shape_to_tensor(expr: ShapeArg) -> Expr:
    """Give a shape as a tensor of one dimension."""


def _to_shape_info(use: Use) -> StructInfo:
    data = use.tensor("expr", 1)
    if data.dtype and not data.dtype.startswith(("int", "uint")):
        use.fail(f"expr must have integer elements, got {data.dtype}")
    rank = None if not data.dims else ops.as_int(data.dims[0])
    return ShapeStructInfo(None, -1 if rank is None else rank)


@operator("relax.tensor_to_shape", infer=_to_shape_info, te=_ON_HOST, host=lambda expr: tuple(expr.tolist()), **_SIZES)
def tensor_to_shape(expr: TensorArg) -> Expr:
    """Give the integers of a tensor of one dimension as a shape."""
