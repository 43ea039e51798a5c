"""Activations: elementwise operators that stand between layers."""

from __future__ import annotations

from collections.abc import Callable

from compiler import topi
from compiler.relax.nodes import Call, Expr, StructInfo
from compiler.relax.op.core.families import elementwise
from compiler.relax.op.core.layout import LayoutResult, LayoutUse, as_written, follows_first
from compiler.relax.op.core.params import TensorArg
from compiler.relax.op.core.registry import Gradient, OpPatternKind, TeForm, operator
from compiler.relax.op.core.rules import like
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import per_output
from compiler.relax.op.gradients import elementwise as slopes

__all__ = ["gelu", "gelu_tanh", "leakyrelu", "prelu", "relu", "relu6", "selu", "silu", "softplus"]

_FLOATS = like("data", floats=True)
_SEVERAL = 10  # about what a function of the math library takes


def _activation(
    name: str, te: TeForm, doc: str, flops: int, gradient: Gradient, *, numbers: bool = False
) -> Callable[[TensorArg], Call]:
    """The operator `relax.nn.<name>` of one tensor `data` of floats; with `numbers`, also of integers."""

    def declared(data: TensorArg) -> Expr:
        raise AssertionError("a declaration")

    infer = like("data", numbers=True) if numbers else _FLOATS
    return elementwise(f"relax.nn.{name}", declared, doc, te, infer, flops, gradient)


relu = _activation("relu", topi.nn.relu, "Replace negative elements by 0.", 1, slopes.relu, numbers=True)
relu6 = _activation("relu6", topi.nn.relu6, "Limit elements to the range from 0 to 6.", 2, slopes.relu6, numbers=True)
gelu = _activation("gelu", topi.nn.gelu, "Take x * (1 + erf(x / sqrt(2))) / 2.", _SEVERAL + 4, slopes.gelu)
gelu_tanh = _activation(
    "gelu_tanh", topi.nn.gelu_tanh, "Take gelu by its approximation with tanh.", _SEVERAL + 8, slopes.gelu_tanh
)
silu = _activation("silu", topi.nn.silu, "Take x * sigmoid(x).", _SEVERAL + 1, slopes.silu)
selu = _activation(
    "selu", topi.nn.selu, "Take the self-normalising unit: scaled x or alpha * (exp(x) - 1).", _SEVERAL, slopes.selu
)


@operator(
    "relax.nn.leakyrelu", infer=_FLOATS, te=lambda data, alpha: topi.nn.leaky_relu(data, alpha),
    pattern=OpPatternKind.ELEMWISE, flops=per_output(2), layout=follows_first, gradient=slopes.leakyrelu,
)  # fmt: skip
def leakyrelu(data: TensorArg, alpha: float = 0.01) -> Expr:
    """Multiply negative elements by `alpha`."""


@operator(
    "relax.nn.softplus", infer=_FLOATS, te=lambda data, beta, threshold: topi.nn.softplus(data, beta, threshold),
    pattern=OpPatternKind.ELEMWISE, flops=per_output(2 * _SEVERAL), layout=follows_first, gradient=slopes.softplus,
)  # fmt: skip
def softplus(data: TensorArg, beta: float = 1.0, threshold: float = 20.0) -> Expr:
    """Take log(1 + exp(beta * x)) / beta; x itself where beta * x is above `threshold`."""


# -------------------------------------------------------------------------------------- prelu


def _prelu_info(use: Use) -> StructInfo:
    data, alpha = use.tensor("data"), use.tensor("alpha", 1)
    use.check_float("data", "alpha")
    use.dtype("data", "alpha")
    if data.ndim != -1:
        axis = use.axis(use.call.attrs["axis"], data.ndim)
        if data.dims is not None and alpha.dims is not None:
            what = "the dimension along axis and that of alpha"
            use.check_equal(what, data.dims[axis], alpha.dims[0], "data", "alpha")
    return data


def _prelu_layout(use: LayoutUse) -> LayoutResult:
    chosen = use.permuted()
    if chosen is None:
        return as_written(use)
    return LayoutResult((chosen, None), (chosen,), {"axis": chosen.axis(use.call.attrs["axis"])})


@operator(
    "relax.nn.prelu", infer=_prelu_info, te=lambda data, alpha, axis: topi.nn.prelu(data, alpha, axis),
    pattern=OpPatternKind.BROADCAST, flops=per_output(2), layout=_prelu_layout, gradient=slopes.prelu,
)  # fmt: skip
def prelu(data: TensorArg, alpha: TensorArg, axis: int = 1) -> Expr:
    """Multiply negative elements by the number in `alpha` that belongs to their place along `axis`."""
