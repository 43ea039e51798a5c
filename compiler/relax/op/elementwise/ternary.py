"""Elementwise operators of three tensors."""

from __future__ import annotations

from compiler import topi
from compiler.relax.nodes import Expr, StructInfo
from compiler.relax.op.core.layout import follows
from compiler.relax.op.core.params import TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import tensor
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import per_output
from compiler.relax.op.gradients import elementwise as slopes
from compiler.te.tensor import Tensor


def _fma_info(use: Use) -> StructInfo:
    names = ("x1", "x2", "x3")
    infos = [use.tensor(name) for name in names]
    dtype, device = use.dtype(*names), use.vdevice(*names)
    ranks = {info.ndim for info in infos if info.ndim != -1}
    if len(ranks) > 1:
        use.fail(f"x1, x2 and x3 must have one shape, but have {', '.join(map(str, sorted(ranks)))} dimensions")
    known = [info for info in infos if info.dims is not None]
    for name, other in zip(names[1:], infos[1:]):
        if infos[0].dims is not None and other.dims is not None:
            for a, b in zip(infos[0].dims, other.dims):
                use.check_equal("the dimensions of x1 and " + name, a, b, "x1", name)
    if known:
        return tensor(known[0].dims, dtype, vdevice=device)
    return tensor(None, dtype, ranks.pop() if ranks else -1, device)


def _fma(x1: Tensor, x2: Tensor, x3: Tensor) -> Tensor:
    result: Tensor = topi.add(topi.multiply(x1, x2), x3)
    return result


@operator(
    "relax.ewise_fma", infer=_fma_info, te=_fma, pattern=OpPatternKind.ELEMWISE, flops=per_output(2), layout=follows,
    gradient=slopes.fma,
)  # fmt: skip
def ewise_fma(x1: TensorArg, x2: TensorArg, x3: TensorArg) -> Expr:
    """Take x1 * x2 + x3, of tensors of one shape."""


__all__ = ["ewise_fma"]
