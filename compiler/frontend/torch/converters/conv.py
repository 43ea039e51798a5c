"""Convolutions, and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.table import converts
from compiler.relax import op
from compiler.relax.nodes.dims import int64

_PLAIN = {1: op.nn.conv1d, 2: op.nn.conv2d, 3: op.nn.conv3d}
_TRANSPOSED = {1: op.nn.conv1d_transpose, 2: op.nn.conv2d_transpose, 3: op.nn.conv3d_transpose}


def _each(value: Any, rank: int) -> tuple[int, ...]:
    """A number for each dimension: one is for all."""
    values = [value] if isinstance(value, int) else list(value)
    return tuple(values * rank if len(values) == 1 else values)


def _with_bias(c: Conversion, result: Any, bias: Any, rank: int) -> Any:
    if bias is None:
        return result
    return op.add(result, c.reshaped(bias, [1, c.shape(bias)[0], *([1] * rank)]))


def _convolved(
    c: Conversion, x: Any, weight: Any, bias: Any, stride: Any, padding: Sequence[int], dilation: Any, groups: Any
) -> Any:
    """A convolution; data without a batch gets one for the time being."""
    rank = c.ndim(weight) - 2
    batched = c.ndim(x) == rank + 2
    data = x if batched else c.reshaped(x, [1, *c.shape(x)])
    made = _PLAIN[rank](data, weight, _each(stride, rank), tuple(padding), _each(dilation, rank), groups)
    made = _with_bias(c, made, bias, rank)
    return made if batched else c.reshaped(made, c.out_shape())


def _of_rank(rank: int) -> None:
    @converts(f"aten.conv{rank}d.default")
    def plain(
        c: Conversion, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any
    ) -> Any:
        return _convolved(c, input, weight, bias, stride, _each(padding, rank), dilation, groups)

    @converts(f"aten.conv{rank}d.padding")
    def named(
        c: Conversion, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any
    ) -> Any:
        if padding == "valid":
            amounts: list[int] = [0] * rank
        else:
            taps = [c.static(size, "a filter's size") for size in c.shape(weight)[2:]]
            total = [step * (size - 1) for step, size in zip(_each(dilation, rank), taps)]
            amounts = [each // 2 for each in total] + [each - each // 2 for each in total]
        return _convolved(c, input, weight, bias, stride, amounts, dilation, groups)

    @converts(f"aten.conv_transpose{rank}d.{'input' if rank > 1 else 'default'}")
    def transposed(
        c: Conversion, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: Any,
        dilation: Any,
    ) -> Any:  # fmt: skip
        return _transposed(c, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _transposed(
    c: Conversion, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: Any,
    dilation: Any,
) -> Any:  # fmt: skip
    rank = c.ndim(weight) - 2
    batched = c.ndim(x) == rank + 2
    data = x if batched else c.reshaped(x, [int64(1), *c.shape(x)])
    steps, amounts, more = _each(stride, rank), _each(padding, rank), _each(output_padding, rank)
    made = _TRANSPOSED[rank](data, weight, steps, amounts, more, _each(dilation, rank), groups)
    made = _with_bias(c, made, bias, rank)
    return made if batched else c.reshaped(made, c.out_shape())


for _rank in (1, 2, 3):
    _of_rank(_rank)


@converts("aten.convolution.default")
def convolution(
    c: Conversion, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: Any,
    output_padding: Any, groups: Any,
) -> Any:  # fmt: skip
    if transposed:
        return _transposed(c, input, weight, bias, stride, padding, output_padding, groups, dilation)
    rank = c.ndim(weight) - 2
    return _convolved(c, input, weight, bias, stride, _each(padding, rank), dilation, groups)
