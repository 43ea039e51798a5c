"""Matrix products."""

from __future__ import annotations

from compiler import topi
from compiler.relax.nodes import Call, Expr, StructInfo, TensorStructInfo, info_of
from compiler.relax.nodes.dims import simplified
from compiler.relax.op.layout import as_written
from compiler.relax.op.params import OptionalDtype, TensorArg
from compiler.relax.op.registry import OpPatternKind, operator, refused
from compiler.relax.op.rules import broadcast_dims, tensor
from compiler.relax.op.use import Use
from compiler.relax.op.work import elements
from compiler.te.tensor import Tensor
from compiler.tir.nodes import PrimExpr


def _matmul_info(use: Use) -> StructInfo:
    a, b = use.tensor("x1"), use.tensor("x2")
    for name, info in (("x1", a), ("x2", b)):
        if info.ndim == 0:
            use.fail(f"{name} must have at least one dimension, got a scalar tensor")
    dtype = use.call.attrs["out_dtype"] or use.dtype("x1", "x2")
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
    """A multiplication and an addition for each element of the result and each term of its sum."""
    first, count = info_of(call.args[0]), elements(info_of(call))
    if count is None or not isinstance(first, TensorStructInfo) or not first.dims:
        return None
    return simplified(count * first.dims[-1] * 2)


def _matmul(x1: Tensor, x2: Tensor, out_dtype: str) -> Tensor:
    return topi.matmul(x1, x2, out_dtype=out_dtype or None)


@operator(
    "relax.matmul",
    infer=_matmul_info,
    te=_matmul,
    pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE,
    flops=_matmul_flops,
    layout=as_written,
    gradient=refused("gradients are not written yet"),
    precision="always",
)
def matmul(x1: TensorArg, x2: TensorArg, out_dtype: OptionalDtype = None) -> Expr:
    """Multiply matrices, with numpy's rules for vectors and for the dimensions before the last two."""
