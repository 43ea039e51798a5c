"""Pooling: the largest or mean element of windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler import topi
from compiler.errors import IRError
from compiler.relax.nodes import Call, Expr, StructInfo, info_of
from compiler.relax.nodes.dims import int64, simplified
from compiler.relax.op.core.params import Ints, OptionalInts, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import tensor
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import elements, per_input
from compiler.relax.op.gradients import window as slopes
from compiler.relax.op.nn.stored import (
    SPATIAL,
    around,
    check_positive,
    layout_attr,
    per_dimension,
    places,
    shape_in,
    sizes_of,
    stored_as,
    windows_layout,
)
from compiler.te.tensor import Tensor
from compiler.tir.nodes import PrimExpr

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "max_pool1d", "max_pool2d", "max_pool3d",
]  # fmt: skip

_Declare = Callable[[Callable[..., Expr]], Callable[..., Call]]
_POOLS = {1: topi.nn.pool1d, 2: topi.nn.pool2d, 3: topi.nn.pool3d}
_ADAPTIVE = {1: topi.nn.adaptive_pool1d, 2: topi.nn.adaptive_pool, 3: topi.nn.adaptive_pool3d}


def pool_canonical(op: str, rank: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def complete(attrs: dict[str, Any]) -> dict[str, Any]:
        moves = {name: per_dimension(op, name, attrs[name], rank) for name in ("pool_size", "strides", "dilation")}
        out = attrs["out_layout"] or attrs["layout"]
        return attrs | moves | {"padding": around(op, attrs["padding"], rank), "out_layout": out}

    return complete


def pool_sizes(use: Use, rank: int, size: dict[str, PrimExpr]) -> dict[str, PrimExpr]:
    """The sizes of what a pool gives, by letter."""
    attrs = use.call.attrs
    out = dict(size)
    for d, letter in enumerate(SPATIAL[rank]):
        stride = attrs["strides"][d]
        span = int64((attrs["pool_size"][d] - 1) * attrs["dilation"][d] + 1)
        padding = attrs["padding"][d] + attrs["padding"][d + rank] + (stride - 1 if attrs["ceil_mode"] else 0)
        out[letter] = places(use, f"dimension {letter} of data", size[letter], span, stride, padding)
    return out


def _info(rank: int) -> Callable[[Use], StructInfo]:
    letters = "NC" + SPATIAL[rank]

    def rule(use: Use) -> StructInfo:
        parts, out_parts = layout_attr(use, "layout", letters), layout_attr(use, "out_layout", letters)
        check_positive(use, "pool_size", "strides", "dilation")
        if any(amount < 0 for amount in use.call.attrs["padding"]):
            use.fail(f"padding is {use.call.attrs['padding']}, none must be negative")
        data, size = use.tensor("data"), sizes_of(use, "data", parts)
        if size is None:
            return tensor(None, data.dtype, len(out_parts), data.vdevice)
        return tensor(shape_in(use, out_parts, pool_sizes(use, rank, size)), data.dtype, vdevice=data.vdevice)

    return rule


def _flops(call: Call) -> PrimExpr | None:
    """One operation for each element of each window."""
    number = elements(info_of(call))
    if number is None:
        return None
    for size in call.attrs["pool_size"]:
        number = number * size
    return simplified(number)


def kernel_layout(layout: str, rank: int) -> str:
    """Return the layout in which the kernel works.
    It is the tensor's own, unless that swaps window dimensions or blocks batches."""
    fits = [letter for letter in layout if letter in "DHW"] == list(SPATIAL[rank]) and "n" not in layout
    return layout if fits else "NC" + SPATIAL[rank]


def _pooled(rank: int, kind: str) -> Callable[..., Tensor]:
    def form(
        data: Tensor, pool_size: Any, strides: Any, padding: Any, dilation: Any, ceil_mode: bool,
        count_include_pad: bool, layout: str, out_layout: str,
    ) -> Tensor:  # fmt: skip
        near = kernel_layout(layout, rank)
        source = stored_as(data, layout, near)
        made = _POOLS[rank](source, pool_size, strides, dilation, padding, kind, ceil_mode, near, count_include_pad)
        return stored_as(made, near, out_layout)

    return form


def _pool(name: str, rank: int, kind: str) -> _Declare:
    return operator(
        f"relax.nn.{name}", infer=_info(rank), te=_pooled(rank, kind), pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE,
        flops=_flops, layout=windows_layout("layout"), gradient=slopes.max_pool if kind == "max" else slopes.avg_pool,
        canonical=pool_canonical(f"relax.nn.{name}", rank),
    )  # fmt: skip


@_pool("max_pool1d", 1, "max")
def max_pool1d(
    data: TensorArg, pool_size: Ints = (1,), strides: Ints = (1,), padding: Ints = (0, 0), dilation: Ints = (1,),
    ceil_mode: bool = False, count_include_pad: bool = False, layout: str = "NCW", out_layout: str | None = None,
) -> Expr:  # fmt: skip
    """Take the largest element of windows along one dimension, as `max_pool2d` of two."""


@_pool("max_pool2d", 2, "max")
def max_pool2d(
    data: TensorArg, pool_size: Ints = (1, 1), strides: Ints = (1, 1), padding: Ints = (0, 0), dilation: Ints = (1, 1),
    ceil_mode: bool = False, count_include_pad: bool = False, layout: str = "NCHW", out_layout: str | None = None,
) -> Expr:  # fmt: skip
    """Take the largest element of windows of `pool_size` that move over images.

    `padding` is one number, (height, width) or (top, left, bottom, right). With `ceil_mode` a window that only begins
    inside counts, too. `count_include_pad` has no effect on a largest element.
    """


@_pool("max_pool3d", 3, "max")
def max_pool3d(
    data: TensorArg, pool_size: Ints = (1, 1, 1), strides: Ints = (1, 1, 1), padding: Ints = (0, 0, 0),
    dilation: Ints = (1, 1, 1), ceil_mode: bool = False, count_include_pad: bool = False, layout: str = "NCDHW",
    out_layout: str | None = None,
) -> Expr:  # fmt: skip
    """Take the largest element of windows in volumes, as `max_pool2d` in images."""


@_pool("avg_pool1d", 1, "avg")
def avg_pool1d(
    data: TensorArg, pool_size: Ints = (1,), strides: Ints = (1,), padding: Ints = (0, 0), dilation: Ints = (1,),
    ceil_mode: bool = False, count_include_pad: bool = True, layout: str = "NCW", out_layout: str | None = None,
) -> Expr:  # fmt: skip
    """Take the mean of windows along one dimension, as `avg_pool2d` of two."""


@_pool("avg_pool2d", 2, "avg")
def avg_pool2d(
    data: TensorArg, pool_size: Ints = (1, 1), strides: Ints = (1, 1), padding: Ints = (0, 0), dilation: Ints = (1, 1),
    ceil_mode: bool = False, count_include_pad: bool = False, layout: str = "NCHW", out_layout: str | None = None,
) -> Expr:  # fmt: skip
    """Take the mean of windows of `pool_size` that move over images.

    The mean divides by how much of a window lies inside, or with `count_include_pad` inside the padded image.
    """


@_pool("avg_pool3d", 3, "avg")
def avg_pool3d(
    data: TensorArg, pool_size: Ints = (1, 1, 1), strides: Ints = (1, 1, 1), padding: Ints = (0, 0, 0),
    dilation: Ints = (1, 1, 1), ceil_mode: bool = False, count_include_pad: bool = True, layout: str = "NCDHW",
    out_layout: str | None = None,
) -> Expr:  # fmt: skip
    """Take the mean of windows in volumes, as `avg_pool2d` in images."""


# ----------------------------------------------------------------------------- to a given size


def _adaptive_canonical(op: str, rank: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def complete(attrs: dict[str, Any]) -> dict[str, Any]:
        given, out = attrs["output_size"], attrs["out_layout"] or attrs["layout"]
        sizes = None if given is None else per_dimension(op, "output_size", given, rank)
        if sizes is not None and min(sizes) < 1:
            raise IRError(f"{op}: output_size is {given!r}, its numbers must be positive")
        return attrs | {"output_size": sizes, "out_layout": out}

    return complete


def _adaptive_info(rank: int) -> Callable[[Use], StructInfo]:
    letters = "NC" + SPATIAL[rank]

    def rule(use: Use) -> StructInfo:
        parts, out_parts = layout_attr(use, "layout", letters), layout_attr(use, "out_layout", letters)
        data, size, wanted = use.tensor("data"), sizes_of(use, "data", parts), use.call.attrs["output_size"]
        if size is None:
            return tensor(None, data.dtype, len(out_parts), data.vdevice)
        out = size | dict(zip(SPATIAL[rank], map(int64, wanted or ())))
        return tensor(shape_in(use, out_parts, out), data.dtype, vdevice=data.vdevice)

    return rule


def _adaptive_form(rank: int) -> Callable[..., Tensor]:
    def form(data: Tensor, output_size: Any, layout: str, out_layout: str) -> Tensor:
        near = kernel_layout(layout, rank)
        source = stored_as(data, layout, near)
        sizes = dict(zip((letter for letter in near if not letter.isdigit()), source.shape))
        wanted = [sizes[letter] for letter in SPATIAL[rank]] if output_size is None else output_size
        return stored_as(_ADAPTIVE[rank](source, wanted, "avg", near), near, out_layout)

    return form


def _adaptive(rank: int) -> _Declare:
    name = f"relax.nn.adaptive_avg_pool{rank}d"
    return operator(
        name, infer=_adaptive_info(rank), te=_adaptive_form(rank), pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE,
        flops=per_input(1), layout=windows_layout("layout"), gradient=slopes.adaptive_avg_pool,
        canonical=_adaptive_canonical(name, rank),
    )  # fmt: skip


@_adaptive(1)
def adaptive_avg_pool1d(
    data: TensorArg, output_size: OptionalInts = None, layout: str = "NCW", out_layout: str | None = None
) -> Expr:
    """Take means along one dimension, so many as `output_size` says."""


@_adaptive(2)
def adaptive_avg_pool2d(
    data: TensorArg, output_size: OptionalInts = None, layout: str = "NCHW", out_layout: str | None = None
) -> Expr:
    """Take means of windows, as many as `output_size` (height, width) says; None keeps the size.

    Mean i covers the elements from floor(i * in / out) to below ceil((i + 1) * in / out).
    """


@_adaptive(3)
def adaptive_avg_pool3d(
    data: TensorArg, output_size: OptionalInts = None, layout: str = "NCDHW", out_layout: str | None = None
) -> Expr:
    """Take means of windows of volumes, as `adaptive_avg_pool2d` of images."""
