"""Convolutions and transposed convolutions of 1 to 3 dimensions, in all layouts of letters and blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler import topi
from compiler.relax.nodes import Call, Expr, StructInfo, TensorStructInfo, info_of
from compiler.relax.nodes.dims import simplified
from compiler.relax.op.core.params import Ints, OptionalDtype, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import tensor
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import elements
from compiler.relax.op.gradients import conv as slopes
from compiler.relax.op.nn.stored import (
    SPATIAL,
    around,
    check_positive,
    convolution_layout,
    layout_attr,
    parts_of,
    per_dimension,
    places,
    plain,
    shape_in,
    sizes_of,
    stored_as,
)
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

__all__ = ["conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose"]

_Sizes = dict[str, PrimExpr]


def _canonical(op: str, rank: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def complete(attrs: dict[str, Any]) -> dict[str, Any]:
        moves = {name: per_dimension(op, name, attrs[name], rank) for name in ("strides", "dilation")}
        if "output_padding" in attrs:
            moves["output_padding"] = per_dimension(op, "output_padding", attrs["output_padding"], rank)
        out = attrs["out_layout"] or attrs["data_layout"]
        return attrs | moves | {"padding": around(op, attrs["padding"], rank), "out_layout": out}

    return complete


def _info(rank: int, result: Callable[[Use, str, _Sizes, _Sizes], _Sizes]) -> Callable[[Use], StructInfo]:
    """The rule of a convolution. `result` gives the sizes of the result's dimensions by letter."""
    letters = SPATIAL[rank]

    def rule(use: Use) -> StructInfo:
        data_parts = layout_attr(use, "data_layout", "NC" + letters)
        kernel_parts = layout_attr(use, "kernel_layout", "OI" + letters)
        out_parts = layout_attr(use, "out_layout", "NC" + letters)
        check_positive(use, "strides", "dilation")
        if use.call.attrs["groups"] < 1:
            use.fail(f"groups is {use.call.attrs['groups']}, it must be positive")
        if any(amount < 0 for amount in use.call.attrs["padding"]):
            use.fail(f"padding is {use.call.attrs['padding']}, none must be negative")
        size, taps = sizes_of(use, "data", data_parts), sizes_of(use, "weight", kernel_parts)
        dtype = use.sum_dtype("data", "weight", use.call.attrs["out_dtype"])
        device = use.vdevice("data", "weight")
        if size is None or taps is None:
            return tensor(None, dtype, len(out_parts), device)
        return tensor(shape_in(use, out_parts, result(use, letters, size, taps)), dtype, vdevice=device)

    return rule


def _check_divided(use: Use, what: str, size: PrimExpr) -> None:
    groups, known = use.call.attrs["groups"], ops.as_int(size)
    if known is not None and known % groups:
        use.fail(f"groups is {groups}, which does not divide the {known} {what}")


def _conv_sizes(use: Use, letters: str, size: _Sizes, taps: _Sizes) -> _Sizes:
    attrs, rank = use.call.attrs, len(letters)
    use.check_equal(
        "the channels of data and those of weight, times groups",
        size["C"], use.simplify(taps["I"] * attrs["groups"]), "data", "weight",
    )  # fmt: skip
    _check_divided(use, "filters", taps["O"])
    out = {"N": size["N"], "C": taps["O"]}
    for d, letter in enumerate(letters):
        span = use.simplify((taps[letter] - 1) * attrs["dilation"][d] + 1)
        padding = attrs["padding"][d] + attrs["padding"][d + rank]
        out[letter] = places(use, f"dimension {letter} of data", size[letter], span, attrs["strides"][d], padding)
    return out


def _transpose_sizes(use: Use, letters: str, size: _Sizes, taps: _Sizes) -> _Sizes:
    attrs, rank = use.call.attrs, len(letters)
    use.check_equal("the channels of data and those of weight", size["C"], taps["I"], "data", "weight")
    _check_divided(use, "channels", size["C"])
    out = {"N": size["N"], "C": use.simplify(taps["O"] * attrs["groups"])}
    for d, letter in enumerate(letters):
        stride, step, extra = attrs["strides"][d], attrs["dilation"][d], attrs["output_padding"][d]
        if not 0 <= extra < max(stride, step):
            use.fail(f"output_padding is {attrs['output_padding']}, it must be less than strides or dilation")
        padding = attrs["padding"][d] + attrs["padding"][d + rank]
        grown = use.simplify((size[letter] - 1) * stride - padding + (taps[letter] - 1) * step + extra + 1)
        if (ops.as_int(grown) or 0) < 0:
            use.fail(f"padding is {attrs['padding']}, which leaves nothing along {letter}")
        out[letter] = grown
    return out


def _flops(rank: int, transposed: bool) -> Callable[[Call], PrimExpr | None]:
    """Count a multiplication and an addition for each tap that an element of the result sees."""

    def count(call: Call) -> PrimExpr | None:
        outer, weight = (info_of(call.args[0]) if transposed else info_of(call)), info_of(call.args[1])
        number = elements(outer)
        if number is None or not isinstance(weight, TensorStructInfo) or weight.dims is None:
            return None
        shared = "I" if transposed else "O"  # an element of `outer` meets all of the weight but along this one
        for (letter, _), size in zip(parts_of(call.attrs["kernel_layout"], "OI" + SPATIAL[rank]), weight.dims):
            number = number if letter == shared else number * size
        return simplified(number * 2)

    return count


def _conv(
    data: Tensor, weight: Tensor, strides: Any, padding: Any, dilation: Any, groups: int, data_layout: str,
    kernel_layout: str, out_layout: str, out_dtype: str,
) -> Tensor:  # fmt: skip
    layout, taps = plain(data_layout), plain(kernel_layout)
    source, kernel = stored_as(data, data_layout, layout), stored_as(weight, kernel_layout, taps)
    made = plain(out_layout)
    dtype = out_dtype or None
    result = topi.nn.conv(source, kernel, strides, padding, dilation, groups, layout, taps, dtype, made)
    return stored_as(result, made, out_layout)


def _conv_transpose(
    data: Tensor, weight: Tensor, strides: Any, padding: Any, output_padding: Any, dilation: Any, groups: int,
    data_layout: str, kernel_layout: str, out_layout: str, out_dtype: str,
) -> Tensor:  # fmt: skip
    layout, taps = plain(data_layout), plain(kernel_layout)
    source, kernel = stored_as(data, data_layout, layout), stored_as(weight, kernel_layout, taps)
    name = f"conv{len(layout) - 2}d_transpose_{layout.lower()}"
    made = topi.nn.conv_transpose(
        name, source, kernel, strides, padding, output_padding, dilation, groups, out_dtype or None, layout, taps
    )
    return stored_as(made, layout, out_layout)


def _convolution(rank: int) -> Callable[[Callable[..., Expr]], Callable[..., Call]]:
    name = f"relax.nn.conv{rank}d"
    return operator(
        name, infer=_info(rank, _conv_sizes), te=_conv, pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE,
        flops=_flops(rank, transposed=False), layout=convolution_layout(name), gradient=slopes.conv, precision="always",
        canonical=_canonical(name, rank),
    )  # fmt: skip


def _transposed(rank: int) -> Callable[[Callable[..., Expr]], Callable[..., Call]]:
    name = f"relax.nn.conv{rank}d_transpose"
    return operator(
        name, infer=_info(rank, _transpose_sizes), te=_conv_transpose, pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE,
        flops=_flops(rank, transposed=True), layout=convolution_layout(name), gradient=slopes.conv_transpose,
        precision="always", canonical=_canonical(name, rank),
    )  # fmt: skip


@_convolution(1)
def conv1d(
    data: TensorArg, weight: TensorArg, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1, groups: int = 1,
    data_layout: str = "NCW", kernel_layout: str = "OIW", out_layout: str | None = None,
    out_dtype: OptionalDtype = None,
) -> Expr:  # fmt: skip
    """Move filters along one dimension, as `conv2d` along two."""


@_convolution(2)
def conv2d(
    data: TensorArg, weight: TensorArg, strides: Ints = (1, 1), padding: Ints = (0, 0), dilation: Ints = (1, 1),
    groups: int = 1, data_layout: str = "NCHW", kernel_layout: str = "OIHW", out_layout: str | None = None,
    out_dtype: OptionalDtype = None,
) -> Expr:  # fmt: skip
    """Move filters over images: an element of the result sums the products of a window and a filter.

    `padding` is one number, (height, width) or (top, left, bottom, right). Channels and filters are in `groups` that
    do not mix. `out_layout` is `data_layout` unless given. Layouts may have blocks: NCHW16c, OIHW16o.
    """


@_convolution(3)
def conv3d(
    data: TensorArg, weight: TensorArg, strides: Ints = (1, 1, 1), padding: Ints = (0, 0, 0),
    dilation: Ints = (1, 1, 1), groups: int = 1, data_layout: str = "NCDHW", kernel_layout: str = "OIDHW",
    out_layout: str | None = None, out_dtype: OptionalDtype = None,
) -> Expr:  # fmt: skip
    """Move filters through volumes, as `conv2d` over images."""


@_transposed(1)
def conv1d_transpose(
    data: TensorArg, weight: TensorArg, strides: Ints = 1, padding: Ints = 0, output_padding: Ints = 0,
    dilation: Ints = 1, groups: int = 1, data_layout: str = "NCW", kernel_layout: str = "IOW",
    out_layout: str | None = None, out_dtype: OptionalDtype = None,
) -> Expr:  # fmt: skip
    """Add weighted filters along one dimension, as `conv2d_transpose` along two."""


@_transposed(2)
def conv2d_transpose(
    data: TensorArg, weight: TensorArg, strides: Ints = (1, 1), padding: Ints = (0, 0), output_padding: Ints = (0, 0),
    dilation: Ints = (1, 1), groups: int = 1, data_layout: str = "NCHW", kernel_layout: str = "IOHW",
    out_layout: str | None = None, out_dtype: OptionalDtype = None,
) -> Expr:  # fmt: skip
    """Add to the result a weighted filter for each element of the data: a convolution transposed.

    A dimension of n becomes (n - 1) * stride - padding + (taps - 1) * dilation + 1 + output_padding.
    """


@_transposed(3)
def conv3d_transpose(
    data: TensorArg, weight: TensorArg, strides: Ints = (1, 1, 1), padding: Ints = (0, 0, 0),
    output_padding: Ints = (0, 0, 0), dilation: Ints = (1, 1, 1), groups: int = 1, data_layout: str = "NCDHW",
    kernel_layout: str = "IODHW", out_layout: str | None = None, out_dtype: OptionalDtype = None,
) -> Expr:  # fmt: skip
    """Add weighted filters to volumes, as `conv2d_transpose` to images."""
