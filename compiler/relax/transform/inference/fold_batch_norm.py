"""A batch norm after a convolution is folded into the convolution's weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.nodes import Call, Constant, TensorStructInfo, Tuple, info_of
from compiler.relax.op.elementwise.binary import add, divide, multiply, subtract
from compiler.relax.op.elementwise.unary import sqrt
from compiler.relax.op.movement.manipulate import astype
from compiler.relax.transform.call_rewriter import CallRewriter, rewrite_calls
from compiler.relax.transform.inference.decompose_ops import along, number
from compiler.relax.transform.passes import relax_pass

CONVOLUTIONS = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")


@relax_pass("FoldBatchnormToConv2D", opt_level=1)
def fold_batch_norm(mod: IRModule, context: PassContext) -> IRModule:
    """Fold batch norms into the weights of the convolutions before them, and a bias.

    Norms that are in training stay.

    lv = R.nn.conv2d(x, w)                              →    s = gamma / sqrt(var + epsilon)
    lv1 = R.nn.batch_norm(lv, gamma, beta, mean, var)        lv = R.nn.conv2d(x, w * s)
    gv = lv1[0]                                              gv = lv + (beta - mean * s)

    Where all weights are constants, or parameters behind the first "num_input", and nothing else uses the convolution.
    A bias between the two is folded, too. Constants are computed here, in float64.
    Convolutions along one and three dimensions are treated alike.
    """
    return rewrite_calls(mod, {"relax.nn.batch_norm": _folded})


def _folded(rewriter: CallRewriter, call: Call) -> RelaxExpr | None:
    data, gamma, beta, mean, var = call.args
    info = info_of(data)
    if call.attrs["training"] or not isinstance(info, TensorStructInfo) or info.ndim < 3:
        return None
    if not all(_is_weight(rewriter, item) for item in (gamma, beta, mean, var)):
        return None
    axis = int(call.attrs["axis"]) % info.ndim
    conv, bias = _convolution(rewriter, data, axis, info.ndim)
    if conv is None or not _is_weight(rewriter, _before_cast(rewriter, conv.args[1])):
        return None
    short = _dtype_of(conv.args[1])
    taps = _widened(rewriter, conv.args[1], _dtype_of(gamma))

    def product_of(filters: RelaxExpr) -> Call:
        """The convolution with other filters, which are as short as its own."""
        held = filters if _dtype_of(gamma) == short else astype(filters, short)
        return Call(conv.op, (conv.args[0], held), conv.attrs, conv.sinfo_args, conv.span)

    norm = _Numbers.of(rewriter, call, taps, bias)
    if norm is not None:
        kernel, added = norm.folded(conv.attrs["kernel_layout"].index("O"), axis, info.ndim)
        return Tuple((add(product_of(kernel), added), mean, var))
    deviation = sqrt(add(var, number(call.attrs["epsilon"], var)))
    factor: RelaxExpr = divide(gamma, deviation) if call.attrs["scale"] else divide(number(1.0, var), deviation)
    factor = rewriter.builder_.emit(factor)
    kernel_layout = conv.attrs["kernel_layout"]
    product = product_of(multiply(taps, along(factor, kernel_layout.index("O"), len(kernel_layout))))
    moved: RelaxExpr = multiply(mean, factor)
    shift = subtract(beta, moved) if call.attrs["center"] else subtract(number(0.0, var), moved)
    total = along(shift, axis, info.ndim)
    if bias is not None:
        total = add(multiply(bias, along(factor, axis, info.ndim)), total)
    return Tuple((add(product, total), mean, var))


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The weights of a convolution and a batch norm after it, all of them known.
    `scale` and `shift` are the norm's, each with an element for each channel. `bias` is between the two."""

    kernel: Any
    bias: Any
    scale: Any
    shift: Any

    @staticmethod
    def of(rewriter: CallRewriter, call: Call, taps: RelaxExpr, bias: RelaxExpr | None) -> _Numbers | None:
        """None where a weight is only known when the model runs."""
        given = [taps, *call.args[1:], *(() if bias is None else (bias,))]
        held = [rewriter.value_of(item) for item in given]
        if not all(isinstance(item, Constant) and item.data.dtype in ("float32", "float64") for item in held):
            return None
        kernel, *rest = (item.array for item in held if isinstance(item, Constant))
        gamma, beta, mean, var = (item.astype("float64") for item in rest[:4])
        scale = (gamma if call.attrs["scale"] else 1.0) / np.sqrt(var + call.attrs["epsilon"])
        shift = (beta if call.attrs["center"] else 0.0) - mean * scale
        return _Numbers(kernel, rest[4].reshape(-1) if bias is not None else 0.0, scale, shift)

    def folded(self, outputs: int, axis: int, rank: int) -> tuple[Constant, Constant]:
        """The kernel, whose dimension `outputs` counts channels, and what is added along `axis` of the result."""
        kind = self.kernel.dtype
        kernel = self.kernel * self.scale.reshape([-1 if dim == outputs else 1 for dim in range(self.kernel.ndim)])
        added = (self.bias * self.scale + self.shift).reshape([-1 if dim == axis else 1 for dim in range(rank)])
        return Constant(kernel.astype(kind)), Constant(added.astype(kind))


def _dtype_of(expr: RelaxExpr) -> str:
    info = info_of(expr)
    return info.dtype or "" if isinstance(info, TensorStructInfo) else ""


def _widened(rewriter: CallRewriter, taps: RelaxExpr, dtype: str) -> RelaxExpr:
    """The filters of a convolution as `dtype`.
    Filters that were shortened are taken as they were before."""
    if _dtype_of(taps) == dtype:
        return taps
    before = _before_cast(rewriter, taps)
    return before if _dtype_of(before) == dtype else rewriter.builder_.emit(astype(taps, dtype))


def _before_cast(rewriter: CallRewriter, taps: RelaxExpr) -> RelaxExpr:
    """The filters before their cast, else the filters."""
    cast = rewriter.call_of(taps, "relax.astype")
    return taps if cast is None else cast.args[0]


def _convolution(rewriter: CallRewriter, data: RelaxExpr, axis: int, rank: int) -> tuple[Call | None, RelaxExpr | None]:
    """The convolution that gave `data`, and the bias that was added to it."""
    if rewriter.uses(data) != 1:
        return None, None
    conv = _as_convolution(rewriter, data, axis, rank)
    total = rewriter.call_of(data, "relax.add")
    if conv is not None or total is None:
        return conv, None
    for product, bias in (total.args, total.args[::-1]):
        conv = _as_convolution(rewriter, product, axis, rank)
        shape = info_of(bias)
        if conv is None or rewriter.uses(product) != 1 or not _is_weight(rewriter, bias):
            continue
        if isinstance(shape, TensorStructInfo) and _is_along(shape, axis, rank):
            return conv, bias
    return None, None


def _as_convolution(rewriter: CallRewriter, expr: RelaxExpr, axis: int, rank: int) -> Call | None:
    for name in CONVOLUTIONS:
        conv = rewriter.call_of(expr, name)
        if conv is not None:
            layout = conv.attrs["out_layout"] or conv.attrs["data_layout"]
            plain = len(layout) == rank and len(conv.attrs["kernel_layout"]) == rank
            return conv if plain and layout.index("C") == axis else None
    return None


def _is_along(info: TensorStructInfo, axis: int, rank: int) -> bool:
    """Whether a tensor differs along `axis` only, when it is broadcast to `rank` dimensions."""
    if info.dims is None or info.ndim > rank:
        return False
    first = rank - info.ndim
    return all(first + place == axis or getattr(size, "value", 0) == 1 for place, size in enumerate(info.dims))


def _is_weight(rewriter: CallRewriter, expr: RelaxExpr) -> bool:
    return rewriter.is_early(expr) or isinstance(rewriter.value_of(expr), Constant)
