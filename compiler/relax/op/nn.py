"""Operators of neural networks."""

from __future__ import annotations

from compiler import topi
from compiler.relax.nodes import Expr, StructInfo
from compiler.relax.op.layout import follows, follows_with_axis
from compiler.relax.op.params import TensorArg
from compiler.relax.op.registry import OpPatternKind, operator, refused
from compiler.relax.op.rules import like
from compiler.relax.op.use import Use
from compiler.relax.op.work import per_output

__all__ = ["relu", "softmax"]

_NO_GRADIENT_YET = refused("gradients are not written yet")


@operator(
    "relax.nn.relu",
    infer=like("data"),
    te=topi.nn.relu,
    pattern=OpPatternKind.ELEMWISE,
    flops=per_output(1),
    layout=follows,
    gradient=_NO_GRADIENT_YET,
)
def relu(data: TensorArg) -> Expr:
    """Replace negative elements by 0."""


def _softmax_info(use: Use) -> StructInfo:
    info = use.tensor("data")
    use.check_float("data")
    if info.ndim != -1:
        use.axis(use.call.attrs["axis"], info.ndim)
    return info


@operator(
    "relax.nn.softmax",
    infer=_softmax_info,
    te=topi.nn.softmax,
    pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE,
    flops=per_output(5),
    layout=follows_with_axis("axis"),
    gradient=_NO_GRADIENT_YET,
    precision="never",
)
def softmax(data: TensorArg, axis: int = -1) -> Expr:
    """Scale exp(data) so that its sum along `axis` is 1."""
