"""Pooling: means and maxima of windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.table import converts
from compiler.relax import op
from compiler.tir import ops

_MAX = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
_MEAN = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}
_ADAPTIVE = {1: op.nn.adaptive_avg_pool1d, 2: op.nn.adaptive_avg_pool2d, 3: op.nn.adaptive_avg_pool3d}


def _each(value: Any, rank: int) -> tuple[int, ...]:
    values = [value] if isinstance(value, int) else list(value)
    return tuple(values * rank if len(values) == 1 else values)


def _batched(c: Conversion, x: Any, rank: int, index: int | None, make: Callable[[Any], Any]) -> Any:
    """Call `make` on data with a batch dimension. Data without one gets one meanwhile."""
    if c.ndim(x) == rank + 2:
        return make(x)
    return c.reshaped(make(c.reshaped(x, [1, *c.shape(x)])), c.out_shape(index))


def _largest(
    c: Conversion, x: Any, rank: int, size: Any, stride: Any, padding: Any, dilation: Any, ceil: Any,
    index: int | None = None,
) -> Any:  # fmt: skip
    windows, steps = _each(size, rank), _each(stride or size, rank)
    amounts, apart = _each(padding, rank), _each(dilation, rank)
    return _batched(c, x, rank, index, lambda data: _MAX[rank](data, windows, steps, amounts, apart, bool(ceil)))


def _of_rank(rank: int) -> None:
    @converts(f"aten.max_pool{rank}d.default")
    def largest(
        c: Conversion, self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any
    ) -> Any:
        return _largest(c, self, rank, kernel_size, stride, padding, dilation, ceil_mode)

    @converts(f"aten.max_pool{rank}d_with_indices.default")
    def with_places(
        c: Conversion, self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any
    ) -> Any:
        if any(user.args[1] == 1 and user.users for user in c.node.users if user.op == "call_function"):
            c.refuse("the places of the maxima are used")
        return c.emit(_largest(c, self, rank, kernel_size, stride, padding, dilation, ceil_mode, 0)), None

    @converts(f"aten.avg_pool{rank}d.default")
    def mean(
        c: Conversion, self: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: Any, count_include_pad: Any,
        divisor_override: Any = None,
    ) -> Any:  # fmt: skip
        if divisor_override is not None:
            c.refuse("divisor_override is given")
        windows, steps, amounts = _each(kernel_size, rank), _each(stride or kernel_size, rank), _each(padding, rank)
        counted = bool(count_include_pad)
        return _batched(
            c, self, rank, None,
            lambda data: _MEAN[rank](data, windows, steps, amounts, (1,) * rank, bool(ceil_mode), counted),
        )  # fmt: skip

    @converts(f"aten.adaptive_avg_pool{rank}d.default", *([f"aten._adaptive_avg_pool{rank}d.default"] * (rank > 1)))
    def adaptive(c: Conversion, self: Any, output_size: Any) -> Any:
        return _batched(c, self, rank, None, lambda data: _ADAPTIVE[rank](data, _sizes(c, output_size, rank)))

    @converts(f"aten.adaptive_max_pool{rank}d.default")
    def adaptive_largest(c: Conversion, self: Any, output_size: Any) -> Any:
        sizes, have = _sizes(c, output_size, rank), [ops.as_int(size) for size in c.shape(self)[-rank:]]
        if any(size is None or size % wanted for size, wanted in zip(have, sizes)):
            c.refuse(f"maxima of {sizes} windows of unequal or unknown size")
        windows = tuple((size or 0) // wanted for size, wanted in zip(have, sizes))
        return c.emit(_largest(c, self, rank, windows, windows, 0, 1, False, 0)), None


def _sizes(c: Conversion, output_size: Any, rank: int) -> tuple[int, ...]:
    values = [output_size] * rank if not isinstance(output_size, list | tuple) else list(output_size)
    return tuple(c.static(size, "a number of windows") for size in values)


for _rank in (1, 2, 3):
    _of_rank(_rank)
