"""Matrix products."""

from __future__ import annotations

from typing import Any

from compiler import topi
from compiler.errors import IRError
from compiler.relax.nodes import Call, Expr, StructInfo, TensorStructInfo, info_of
from compiler.relax.nodes.dims import simplified
from compiler.relax.op.core.layout import LayoutResult, LayoutUse, as_written, without_dimensions
from compiler.relax.op.core.params import OptionalDtype, TensorArg, TensorsArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import broadcast_dims, tensor
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import elements, per_output, tensors_in
from compiler.relax.op.elementwise.binary import add
from compiler.relax.op.gradients import linear as slopes
from compiler.relax.op.movement.manipulate import permute_dims
from compiler.te.tensor import placeholder
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr


def _matmul_info(use: Use) -> StructInfo:
    a, b = use.tensor("x1"), use.tensor("x2")
    for name, info in (("x1", a), ("x2", b)):
        if info.ndim == 0:
            use.fail(f"{name} must have at least one dimension, got a scalar tensor")
    dtype = use.sum_dtype("x1", "x2", use.call.attrs["out_dtype"])
    device = use.vdevice("x1", "x2")
    if -1 in (a.ndim, b.ndim):
        return tensor(None, dtype, -1, device)
    rank = max(a.ndim, b.ndim, 2) - (a.ndim == 1) - (b.ndim == 1)
    if a.dims is None or b.dims is None:
        return tensor(None, dtype, rank, device)
    inner = b.dims[-2] if b.ndim > 1 else b.dims[-1]
    use.check_equal("the dimensions that are summed over", a.dims[-1], inner, "x1", "x2")
    batch = broadcast_dims(use, a.dims[:-2], b.dims[:-2], "x1", "x2")
    if batch is None:
        return tensor(None, dtype, rank, device)
    return tensor([*batch, *a.dims[-2:-1], *(b.dims[-1:] if b.ndim > 1 else ())], dtype, vdevice=device)


def _matmul_flops(call: Call) -> PrimExpr | None:
    """Count a multiplication and an addition for each element of the result and each term of its sum."""
    first, count = info_of(call.args[0]), elements(info_of(call))
    if count is None or not isinstance(first, TensorStructInfo) or not first.dims:
        return None
    return simplified(count * first.dims[-1] * 2)


def _matmul_layout(use: LayoutUse) -> LayoutResult:
    """Dimensions of the first argument before the last two may be in any order, if the second has none."""
    chosen = use.permuted()
    if chosen is None or use.ndim(1) > 2 or use.ndim(1) < 1 or chosen.ndim < 3:
        return as_written(use)
    if [d for d, _ in chosen.dims][-2:] != [chosen.ndim - 2, chosen.ndim - 1]:
        return as_written(use)
    out = chosen if use.ndim(1) == 2 else without_dimensions(chosen, [chosen.ndim - 1])
    return LayoutResult((chosen, None), (out,), {})


@operator(
    "relax.matmul", infer=_matmul_info, te=lambda x1, x2, out_dtype: topi.matmul(x1, x2, out_dtype=out_dtype or None),
    pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE, flops=_matmul_flops, layout=_matmul_layout, gradient=slopes.matmul,
    precision="always",
)  # fmt: skip
def matmul(x1: TensorArg, x2: TensorArg, out_dtype: OptionalDtype = None) -> Expr:
    """Multiply matrices, with numpy's rules for vectors and for the dimensions before the last two."""


def linear(data: Any, weight: Any, bias: Any = None, out_dtype: str | None = None) -> Call:
    """Multiply `data` by the transposed `weight`, and add `bias`, made of simpler calls.
    It is what a linear layer does."""
    product = matmul(data, permute_dims(weight), out_dtype)
    return product if bias is None else add(product, bias)


# ------------------------------------------------------------------------------ outer, einsum


def _outer_info(use: Use) -> StructInfo:
    a, b = use.tensor("x1", 1), use.tensor("x2", 1)
    dims = None if a.dims is None or b.dims is None else [*a.dims, *b.dims]
    return tensor(dims, use.dtype("x1", "x2"), 2, use.vdevice("x1", "x2"))


@operator(
    "relax.outer", infer=_outer_info, te=lambda x1, x2: topi.tensordot(x1, x2, 0), pattern=OpPatternKind.BROADCAST,
    flops=per_output(1), layout=as_written, gradient=slopes.outer,
)  # fmt: skip
def outer(x1: TensorArg, x2: TensorArg) -> Expr:
    """Multiply each element of one vector by each of another."""


def _einsum_info(use: Use) -> StructInfo:
    infos, text = use.tensors("operands"), use.call.attrs["subscripts"]
    dtypes = {info.dtype for info in infos if info.dtype}
    if len(dtypes) > 1:
        use.fail(f"the element types of operands differ: {', '.join(sorted(dtypes))}")
    dtype = dtypes.pop() if dtypes and all(info.dtype for info in infos) else ""
    if any(info.dims is None for info in infos):
        return tensor(None, dtype, -1)
    try:
        made = topi.einsum(text, *(placeholder(info.dims, info.dtype or "float32") for info in infos))
    except IRError as error:
        use.fail(error.message.partition(" (")[0])
    return tensor([simplified(ops.cast("int64", size)) for size in made.shape], dtype)


def _einsum_flops(call: Call) -> PrimExpr | None:
    """Count a multiplication and an addition for each combination of all indices of the operands."""
    counts = [elements(info) for info in tensors_in(info_of(call.args[0]))]
    known = [count for count in counts if count is not None]
    if len(known) != len(counts):
        return None
    total = known[0]
    for count in known[1:]:
        total = total * count
    return simplified(total * 2)


@operator(
    "relax.einsum", infer=_einsum_info, te=lambda operands, subscripts: topi.einsum(subscripts, *operands),
    pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE, flops=_einsum_flops, layout=as_written, gradient=slopes.einsum,
)  # fmt: skip
def einsum(operands: TensorsArg, subscripts: str) -> Expr:
    """Sum products of elements as `subscripts` says, by numpy's rules: "ij,jk->ik"."""


__all__ = ["einsum", "linear", "matmul", "outer"]
