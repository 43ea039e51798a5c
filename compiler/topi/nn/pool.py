"""Pooling: the largest or mean value of windows."""

from __future__ import annotations

from typing import Any

from compiler.dtype import is_float
from compiler.errors import IRError
from compiler.te.operation import compute, reduce_axis
from compiler.te.operation import max as te_max
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import product, refusal
from compiler.topi.nn.conv import out_size, paddings, positive_ints
from compiler.topi.nn.pad import pad
from compiler.topi.reduction import max as largest
from compiler.topi.reduction import sum as total


def pool2d(
    data: Tensor, kernel: Any, stride: Any, dilation: Any = 1, padding: Any = 0, pool_type: str = "max",
    ceil_mode: bool = False, layout: str = "NCHW", count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The largest ("max") or mean ("avg") value of windows of `kernel` (height, width).

    `layout` is NCHW or NHWC. With `ceil_mode` a window that only begins inside counts too. The mean divides by the
    window's size, or without `count_include_pad` by how much of it is inside. Raises IRError when shapes do not fit.
    """
    return pool("pool2d", data, kernel, (stride, padding, dilation), pool_type, ceil_mode, layout, count_include_pad)


def pool1d(
    data: Tensor, kernel: Any, stride: Any, dilation: Any = 1, padding: Any = 0, pool_type: str = "max",
    ceil_mode: bool = False, layout: str = "NCW", count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """`pool2d` along one dimension, in layout NCW or NWC."""
    return pool("pool1d", data, kernel, (stride, padding, dilation), pool_type, ceil_mode, layout, count_include_pad)


def pool3d(
    data: Tensor, kernel: Any, stride: Any, dilation: Any = 1, padding: Any = 0, pool_type: str = "max",
    ceil_mode: bool = False, layout: str = "NCDHW", count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """`pool2d` along three dimensions, in layout NCDHW or NDHWC."""
    return pool("pool3d", data, kernel, (stride, padding, dilation), pool_type, ceil_mode, layout, count_include_pad)


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The largest or mean value of each image's channel: height and width become 1."""
    dims = spatial_dims("global_pool", data, pool_type, layout)
    if pool_type == "max":
        return largest(data, axis=dims, keepdims=True)
    return _mean(total(data, axis=dims, keepdims=True), product([data.shape[d] for d in dims]))


def spatial_dims(op: str, data: Tensor, pool_type: str, layout: str) -> list[int]:
    """The dimensions that windows move over. `layout` may hold parts of channels: NCHW16c."""
    if pool_type not in ("max", "avg"):
        raise refusal(op, f"pool_type {pool_type!r} is neither 'max' nor 'avg'")
    names = "".join(name for name in layout if not name.isdigit())
    dims = [d for d, name in enumerate(names) if name in "DHW"]
    if not dims or not set(names) <= set("NCcDHW") or len(set(names)) != len(names):
        raise refusal(op, f"no layout {layout!r}")
    if data.ndim != len(names):
        raise IRError(
            f"{op} in {layout} needs {len(names)} dimensions, got {shape_text(data.shape)}" + here()
        )
    return dims


def pool(
    op: str, data: Tensor, kernel: Any, moves: tuple[Any, Any, Any], pool_type: str, ceil_mode: bool, layout: str,
    count_include_pad: bool,
) -> Tensor:  # fmt: skip
    """Pooling in the name of `op`; `moves` are stride, padding and dilation."""
    dims = spatial_dims(op, data, pool_type, layout)
    rank = len(dims)
    window = positive_ints(kernel, rank, "kernel")
    strides, dilations = positive_ints(moves[0], rank, "stride"), positive_ints(moves[2], rank, "dilation")
    spans = [ops.const((size - 1) * d + 1) for size, d in zip(window, dilations)]
    before, after = paddings(moves[1], spans)
    asked = after  # without what a last window that is not whole needs
    if ceil_mode:
        after = [ops.add(a, stride - 1) for a, stride in zip(after, strides)]
    place = {d: n for n, d in enumerate(dims)}
    sizes = [
        out_size(op, data.shape[d], spans[n], strides[n], ops.add(before[n], after[n])) for d, n in place.items()
    ]
    shape = [sizes[place[d]] if d in place else size for d, size in enumerate(data.shape)]
    source = data
    if not all(ops.is_const(p, 0) for p in (*before, *after)):
        zero = ops.const(0)
        filler = ops.min_value(data.dtype) if pool_type == "max" else ops.const(0, data.dtype)
        source = pad(
            data,
            [before[place[d]] if d in place else zero for d in range(data.ndim)],
            [after[place[d]] if d in place else zero for d in range(data.ndim)],
            filler,
            name="pad_temp",
        )
    axes = [reduce_axis((0, size), name=f"rv{n}") for n, size in enumerate(window)]

    def value(*indices: Var) -> PrimExpr:
        point = [
            i * strides[place[d]] + axes[place[d]].var * dilations[place[d]] if d in place else i
            for d, i in enumerate(indices)
        ]
        result: PrimExpr = (te_max if pool_type == "max" else te_sum)(source(*point), axis=axes)
        return result

    name = "pool_max" if pool_type == "max" else "pool_sum"
    pooled: Tensor = compute(shape, value, name=name, tag=name)
    if pool_type == "max":
        return pooled
    if count_include_pad and not ceil_mode:
        return _mean(pooled, product(window))

    def divide(*indices: Var) -> PrimExpr:
        inside: PrimExpr = ops.const(1)
        for d, n in place.items():
            start, size = ops.mul(indices[d], strides[n]), data.shape[d]
            if count_include_pad:
                size = ops.add(size, ops.add(before[n], asked[n]))
            else:
                start = ops.sub(start, before[n])
            inside = ops.mul(inside, windows_inside(start, window[n], dilations[n], size))
        return _quotient(pooled(*indices), ops.maximum(inside, 1))

    result: Tensor = compute(shape, divide, name="pool_avg", tag="elemwise")
    return result


def windows_inside(start: PrimExpr, count: int, step: int, size: PrimExpr) -> PrimExpr:
    """How many of start, start + step, ... (`count` of them) are from 0 to below `size`."""
    skipped = ops.maximum(ops.floordiv(ops.add(ops.neg(start), step - 1), step), 0)
    reached = ops.minimum(ops.floordiv(ops.add(ops.sub(size, start), step - 1), step), count)
    return ops.maximum(ops.sub(reached, skipped), 0)


def _mean(pooled: Tensor, count: PrimExpr) -> Tensor:
    result: Tensor = compute(
        pooled.shape, lambda *i: _quotient(pooled(*i), count), name="pool_avg", tag="elemwise"
    )
    return result


def _quotient(value: PrimExpr, count: PrimExpr) -> PrimExpr:
    """Integers are divided rounding towards zero, as in TVM and ONNX Runtime."""
    divisor = ops.cast(value.dtype, count)
    return value / divisor if is_float(value.dtype) else ops.truncdiv(value, divisor)
