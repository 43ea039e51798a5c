"""Gradients of pooling: what each element of the data contributed to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.te.operation import compute, const, reduce_axis
from compiler.te.operation import min as te_min
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.nn.conv import paddings, positive_ints
from compiler.topi.nn.pool import pool, spatial_dims, windows_inside

_NO_TAP = 1 << 30


class _Windows:
    """Windows that move over the dimensions `dims` of the data, and the taps of one."""

    def __init__(
        self, data: Tensor, grad: Tensor, dims: Sequence[int], kernel: Any, stride: Any, dilation: Any, padding: Any
    ) -> None:
        rank = len(dims)
        self.data, self.grad, self.dims = data, grad, dims
        self.place = {d: n for n, d in enumerate(dims)}
        self.window = positive_ints(kernel, rank, "kernel")
        self.strides = positive_ints(stride, rank, "stride")
        self.dilations = positive_ints(dilation, rank, "dilation")
        spans = [ops.const((size - 1) * d + 1) for size, d in zip(self.window, self.dilations)]
        self.before, self.after = paddings(padding, spans)

    def taps(self) -> list[Any]:
        return [reduce_axis((0, size), name=f"rv{n}") for n, size in enumerate(self.window)]

    def number(self, taps: Sequence[Any]) -> PrimExpr:
        """The number of a tap, in row-major order."""
        total: PrimExpr = ops.const(0)
        for tap, size in zip(taps, self.window):
            total = ops.add(ops.mul(total, size), tap.var)
        return total

    def scattered(self, name: str, share: Callable[[list[PrimExpr], PrimExpr], PrimExpr]) -> Tensor:
        """For each element of the data the sum of `share(window, tap)` over the windows that it stands in."""
        taps = self.taps()
        tap = self.number(taps)

        def value(*i: Var) -> PrimExpr:
            point: list[PrimExpr] = list(i)
            inside: list[PrimExpr] = []
            for d, n in self.place.items():
                offset = ops.sub(ops.add(i[d], self.before[n]), ops.mul(taps[n].var, self.dilations[n]))
                point[d] = ops.floordiv(offset, self.strides[n])
                inside += [
                    ops.equal(ops.floormod(offset, self.strides[n]), 0), ops.greater_equal(offset, 0),
                    ops.less(point[d], self.grad.shape[d]),
                ]  # fmt: skip
            held = intrin.if_then_else(ops.logical_and(*inside), share(point, tap), const(0, self.data.dtype))
            result: PrimExpr = te_sum(held, axis=taps)
            return result

        result: Tensor = compute(self.data.shape, value, name=name, tag=name)
        return result


def max_pool_backward(
    grad: Tensor, data: Tensor, kernel: Any, stride: Any, dilation: Any = 1, padding: Any = 0, ceil_mode: bool = False,
    layout: str = "NCHW",
) -> Tensor:  # fmt: skip
    """The gradient of the data of a largest-element pool.
    It goes to the first of a window's largest elements."""
    dims = spatial_dims("max_pool_backward", data, "max", layout)
    windows = _Windows(data, grad, dims, kernel, stride, dilation, padding)
    largest = pool("max_pool_backward", data, kernel, (stride, padding, dilation), "max", ceil_mode, layout, True)
    taps = windows.taps()

    def first(*i: Var) -> PrimExpr:
        point: list[PrimExpr] = list(i)
        inside: list[PrimExpr] = []
        for d, n in windows.place.items():
            moved = ops.add(ops.mul(i[d], windows.strides[n]), ops.mul(taps[n].var, windows.dilations[n]))
            point[d] = ops.sub(moved, windows.before[n])
            inside += [ops.greater_equal(point[d], 0), ops.less(point[d], data.shape[d])]
        read = intrin.if_then_else(ops.logical_and(*inside), data(*point), ops.min_value(data.dtype))
        held = ops.logical_and(*inside, ops.equal(read, largest(*i)))
        number = ops.cast("int32", windows.number(taps))
        result: PrimExpr = te_min(intrin.select(held, number, ops.const(_NO_TAP, "int32")), axis=taps)
        return result

    chosen: Tensor = compute(grad.shape, first, name="T_pool_first", tag="comm_reduce")

    def share(window: list[PrimExpr], tap: PrimExpr) -> PrimExpr:
        mine = ops.equal(chosen(*window), ops.cast("int32", tap))
        return intrin.select(mine, grad(*window), const(0, data.dtype))

    return windows.scattered("T_max_pool_backward", share)


def avg_pool_backward(
    grad: Tensor, data: Tensor, kernel: Any, stride: Any, dilation: Any = 1, padding: Any = 0, ceil_mode: bool = False,
    layout: str = "NCHW", count_include_pad: bool = False,
) -> Tensor:  # fmt: skip
    """The gradient of the data of a mean pool: each element of a window gets its part."""
    dims = spatial_dims("avg_pool_backward", data, "avg", layout)
    windows = _Windows(data, grad, dims, kernel, stride, dilation, padding)

    def share(window: list[PrimExpr], tap: PrimExpr) -> PrimExpr:
        count: PrimExpr = ops.const(1)
        for d, n in windows.place.items():
            start, size = ops.mul(window[d], windows.strides[n]), data.shape[d]
            if count_include_pad:
                size = ops.add(size, ops.add(windows.before[n], windows.after[n]))
            else:
                start = ops.sub(start, windows.before[n])
            count = ops.mul(count, windows_inside(start, windows.window[n], windows.dilations[n], size))
        return grad(*window) / ops.cast(data.dtype, ops.maximum(count, 1))

    return windows.scattered("T_avg_pool_backward", share)


def adaptive_avg_pool_backward(grad: Tensor, data: Tensor, layout: str = "NCHW") -> Tensor:
    """The gradient of the data of mean pooling to a given size, that of `grad`."""
    dims = spatial_dims("adaptive_avg_pool_backward", data, "avg", layout)
    axes = {d: reduce_axis((0, grad.shape[d]), name=f"rv{n}") for n, d in enumerate(dims)}

    def value(*i: Var) -> PrimExpr:
        inside: list[PrimExpr] = []
        area: PrimExpr = ops.const(1)
        for d, axis in axes.items():
            size, count = data.shape[d], grad.shape[d]
            begin = ops.floordiv(ops.mul(axis.var, size), count)
            end = ops.ceildiv(ops.mul(ops.add(axis.var, 1), size), count)
            inside += [ops.greater_equal(i[d], begin), ops.less(i[d], end)]
            area = ops.mul(area, ops.sub(end, begin))
        point = [axes[d].var if d in axes else index for d, index in enumerate(i)]
        part = grad(*point) / ops.cast(data.dtype, area)
        held = intrin.select(ops.logical_and(*inside), part, const(0, data.dtype))
        result: PrimExpr = te_sum(held, axis=list(axes.values()))
        return result

    result: Tensor = compute(data.shape, value, name="T_adaptive_pool_backward", tag="comm_reduce")
    return result
