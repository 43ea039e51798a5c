"""Normalisation: softmax, layer_norm and their kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.te.operation import comm_reducer, compute, const, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi import statistics
from compiler.topi.checks import described, need_shape, product, refusal
from compiler.topi.fast_math import fast_exp_of
from compiler.topi.reduction import Axis, normal_axes


class _Along:
    """Reductions of a tensor of `shape` along `axes`, and how its points and the results' belong together."""

    def __init__(self, shape: Sequence[PrimExpr], axes: Sequence[int]) -> None:
        self.shape, self.axes = shape, axes
        self.kept = [d for d in range(len(shape)) if d not in axes]

    @property
    def count(self) -> PrimExpr:
        count: PrimExpr = ops.const(1)
        for d in self.axes:
            count = ops.mul(count, self.shape[d])
        return count

    def reduce(self, reducer: Callable[..., Any], name: str, value: Callable[[list[PrimExpr]], PrimExpr]) -> Tensor:
        """The reduction of `value(point)`; its own indices are those of `kept`."""
        inner = {d: reduce_axis((0, self.shape[d]), name="k") for d in self.axes}

        def element(*indices: Var) -> PrimExpr:
            outer = dict(zip(self.kept, indices))
            point: list[PrimExpr] = [inner[d].var if d in inner else outer[d] for d in range(len(self.shape))]
            result: PrimExpr = reducer(value(point), axis=list(inner.values()))
            return result

        result: Tensor = compute([self.shape[d] for d in self.kept], element, name=name, tag="comm_reduce")
        return result

    def rest(self, point: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The results' indices for a point."""
        return [point[d] for d in self.kept]

    def own(self, point: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The indices along the reduced axes."""
        return [point[d] for d in self.axes]


# The greatest of the numbers: one instruction where `max`, which gives NaN for NaN, takes three. In a softmax the sum
# of the exponentials tells of a NaN all the same.
_largest_number = comm_reducer(lambda a, b: intrin.select(b > a, b, a), ops.min_value, "largest_number")


def wide_type(dtype: str) -> str:
    """The element type that sums are taken in: float32 for floats of 16 bits, else their own."""
    return "float32" if parse_dtype(dtype).bits == 16 else dtype


def _power(x: PrimExpr, largest: PrimExpr) -> PrimExpr:
    """exp(x - largest).
    A minimum that changes nothing says that the argument is small, and so makes `exp` cheaper. (Not with 0: LLVM makes
    two instructions of that.)"""
    return intrin.exp(ops.minimum(x - largest, const(1, x.dtype)))


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x - max) / sum(exp(x - max)), maximum and sum along `axis`.

    The maximum is subtracted first so that exp cannot overflow. Floats of 16 bits are computed with as float32. Raises
    IRError when `axis` is out of range.
    """
    return _softmax(x, axis, _power)


def fast_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Take the softmax, with powers of float32 by few operations (`fast_exp`)."""

    def power(x: PrimExpr, largest: PrimExpr) -> PrimExpr:
        return fast_exp_of(x - largest) if x.dtype == "float32" else _power(x, largest)

    return _softmax(x, axis, power)


def _softmax(x: Tensor, axis: int, power: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> Tensor:
    along = _Along(x.shape, normal_axes("softmax", axis, x.ndim))
    wide = wide_type(x.dtype)
    largest = along.reduce(_largest_number, "T_softmax_maxelem", lambda point: x(*point))
    powers: Tensor = compute(
        x.shape, lambda *i: power(x(*i).astype(wide), largest(*along.rest(i)).astype(wide)), name="T_softmax_exp",
        tag="elemwise",
    )  # fmt: skip
    total = along.reduce(te_sum, "T_softmax_expsum", lambda point: powers(*point))
    one = const(1.0, wide)  # a division a row, not an element; half a unit in the last place further off
    result: Tensor = compute(
        x.shape, lambda *i: (powers(*i) * (one / total(*along.rest(i)))).astype(x.dtype), name="T_softmax_norm",
        tag="softmax_output",
    )  # fmt: skip
    return result


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """log(softmax(x)) along `axis`, without the loss of taking the logarithm of a small number."""
    along = _Along(x.shape, normal_axes("log_softmax", axis, x.ndim))
    wide = wide_type(x.dtype)
    largest = along.reduce(_largest_number, "T_softmax_maxelem", lambda point: x(*point))

    def lowered(point: Sequence[PrimExpr]) -> tuple[PrimExpr, PrimExpr]:
        return x(*point).astype(wide), largest(*along.rest(point)).astype(wide)

    total = along.reduce(te_sum, "T_softmax_expsum", lambda point: _power(*lowered(point)))

    def value(*i: Var) -> PrimExpr:
        element, top = lowered(i)
        return (element - top - intrin.log(total(*along.rest(i)))).astype(x.dtype)

    result: Tensor = compute(x.shape, value, name="T_log_softmax", tag="log_softmax_output")
    return result


def layer_norm(data: Tensor, gamma: Tensor, beta: Tensor | None, axis: Axis = -1, epsilon: float = 1e-5) -> Tensor:
    """(data - mean) / sqrt(variance + epsilon) * gamma + beta, mean and variance along `axis`.

    `gamma` and `beta` (or None) have the shape of the axes. The variance is taken about the mean, in a second pass.
    Sums of float16 and bfloat16 are float32.
    Raises IRError when shapes do not fit.
    """
    along = _along("layer_norm", data, axis, gamma, beta)
    wide = wide_type(data.dtype)
    scale = const(1.0, wide) / ops.cast(wide, along.count)
    total = along.reduce(te_sum, "T_layer_norm_sum", lambda point: data(*point).astype(wide))

    def centred(point: Sequence[PrimExpr]) -> PrimExpr:
        return data(*point).astype(wide) - total(*along.rest(point)) * scale

    squares = along.reduce(te_sum, "T_layer_norm_var", lambda point: centred(point) * centred(point))

    def value(*i: Var) -> PrimExpr:
        inverse = intrin.rsqrt(squares(*along.rest(i)) * scale + const(epsilon, wide))
        scaled = centred(i) * inverse * gamma(*along.own(i)).astype(wide)
        return (scaled if beta is None else scaled + beta(*along.own(i)).astype(wide)).astype(data.dtype)

    result: Tensor = compute(data.shape, value, name="T_layer_norm", tag="layer_norm")
    return result


def rms_norm(data: Tensor, weight: Tensor, axis: Axis = -1, epsilon: float = 1e-5) -> Tensor:
    """data / sqrt(mean of squares + epsilon) * weight, with the mean along `axis`.

    Sums of float16 and bfloat16 are float32. Raises IRError when shapes do not fit.
    """
    along = _along("rms_norm", data, axis, weight, None)
    wide = wide_type(data.dtype)
    scale = const(1.0, wide) / ops.cast(wide, along.count)

    def squared(point: list[PrimExpr]) -> PrimExpr:
        element = data(*point).astype(wide)
        return element * element

    squares = along.reduce(te_sum, "T_rms_norm_sum", squared)

    def value(*i: Var) -> PrimExpr:
        inverse = intrin.rsqrt(squares(*along.rest(i)) * scale + const(epsilon, wide))
        return (data(*i).astype(wide) * inverse * weight(*along.own(i)).astype(wide)).astype(data.dtype)

    result: Tensor = compute(data.shape, value, name="T_rms_norm", tag="rms_norm")
    return result


def _along(op: str, data: Tensor, axis: Axis, gamma: Tensor, beta: Tensor | None) -> _Along:
    along = _Along(data.shape, normal_axes(op, axis, data.ndim))
    expected = [data.shape[d] for d in along.axes]
    for tensor in (gamma,) if beta is None else (gamma, beta):
        if shape_text(tensor.shape) != shape_text(expected):
            raise IRError(
                f"{op}: {tensor.name!r} is {shape_text(tensor.shape)}, axis {axis!r} of {data.name!r} "
                f"{shape_text(data.shape)} needs {shape_text(expected)}" + here()
            )
    return along


def batch_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, moving_mean: Tensor, moving_var: Tensor, axis: int | None = None,
    epsilon: float | None = None, center: bool | None = None, scale: bool | None = None, training: bool | None = None,
    momentum: float | None = None,
) -> list[Tensor]:  # fmt: skip
    """Normalise with moving statistics: [(data - mean) / sqrt(var + epsilon) * gamma + beta, mean, var].

    They are `moving_mean` and `moving_var`: this is inference. The four vectors have the size of dimension `axis` (1
    unless given); `epsilon` is 1e-5 unless given; without `scale` or `center` gamma or beta is left out. In `training`
    the data's own mean and variance take the place of the moving ones, which come back as (1 - momentum) * moving +
    momentum * own; `momentum` is 0.1 unless given. Raises IRError when shapes do not fit.
    """
    (dim,) = normal_axes("batch_norm", 1 if axis is None else axis, data.ndim)
    for tensor in (gamma, beta, moving_mean, moving_var):
        if shape_text(tensor.shape) != shape_text([data.shape[dim]]):
            raise IRError(
                f"batch_norm: {tensor.name!r} is {shape_text(tensor.shape)}, axis {dim} of {data.name!r} has size "
                f"{data.shape[dim]!r}" + here()
            )
    wide = wide_type(data.dtype)
    least = const(1e-5 if epsilon is None else epsilon, wide)
    mean, var = moving_mean, moving_var
    if training:
        others = [d for d in range(data.ndim) if d != dim]
        mean, var = statistics.mean(data, others), statistics.variance(data, others)

    def value(*i: Var) -> PrimExpr:
        spread = intrin.rsqrt(var(i[dim]).astype(wide) + least)
        result = (data(*i).astype(wide) - mean(i[dim]).astype(wide)) * spread
        if scale is not False:
            result = result * gamma(i[dim]).astype(wide)
        return (result if center is False else result + beta(i[dim]).astype(wide)).astype(data.dtype)

    result: Tensor = compute(data.shape, value, name="T_batch_norm", tag="broadcast")
    if not training:
        return [result, moving_mean, moving_var]
    share = 0.1 if momentum is None else momentum
    return [result, _moved(moving_mean, mean, share), _moved(moving_var, var, share)]


def _moved(moving: Tensor, own: Tensor, momentum: float) -> Tensor:
    old, new = const(1 - momentum, moving.dtype), const(momentum, moving.dtype)
    result: Tensor = compute(
        moving.shape, lambda c: moving(c) * old + own(c) * new, name="T_batch_norm_moving", tag="elemwise"
    )
    return result


def group_norm(
    data: Tensor, gamma: Tensor | None, beta: Tensor | None, num_groups: int, channel_axis: int, axes: Axis,
    epsilon: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(data - mean) / sqrt(variance + epsilon) * gamma + beta, over `axes` and the channels of a group.

    Channels, along `channel_axis`, are in `num_groups` equal groups; `gamma` and `beta` have one number a channel.
    Sums of float16 and bfloat16 are float32. Raises IRError when shapes do not fit.
    """
    op = "group_norm"
    (channel,) = normal_axes(op, channel_axis, data.ndim)
    reduced = normal_axes(op, axes, data.ndim)
    known = ops.as_int(data.shape[channel])
    if channel in reduced or num_groups < 1 or (known is not None and known % num_groups):
        raise refusal(op, f"{num_groups} groups of axis {channel_axis} over axes {axes!r} of {described(data)}")
    return _grouped(op, data, gamma, beta, num_groups, channel, reduced, epsilon)


def instance_norm(
    data: Tensor, gamma: Tensor | None, beta: Tensor | None, channel_axis: int, axis: Axis, epsilon: float = 1e-5
) -> Tensor:
    """(data - mean) / sqrt(variance + epsilon) * gamma + beta, over `axis`, each channel on its own.

    `gamma` and `beta` have one number a channel, along `channel_axis`. Raises IRError when shapes do not fit.
    """
    op = "instance_norm"
    (channel,) = normal_axes(op, channel_axis, data.ndim)
    reduced = normal_axes(op, axis, data.ndim)
    if channel in reduced:
        raise refusal(op, f"channels, axis {channel_axis}, are among the axes {axis!r}")
    return _grouped(op, data, gamma, beta, None, channel, reduced, epsilon)


def _grouped(
    op: str, data: Tensor, gamma: Tensor | None, beta: Tensor | None, groups: int | None, channel: int,
    axes: Sequence[int], epsilon: float,
) -> Tensor:  # fmt: skip
    """Normalisation over `axes`, and over the channels of each of `groups`; None is a group a channel."""
    for vector in (gamma, beta):
        if vector is not None:
            need_shape(op, vector, [data.shape[channel]])
    wide = wide_type(data.dtype)
    members = ops.const(1) if groups is None else ops.floordiv(data.shape[channel], groups)
    kept = [d for d in range(data.ndim) if d not in axes]
    shape = [ops.as_expr(groups) if d == channel and groups is not None else data.shape[d] for d in kept]
    count = ops.cast(wide, product([members, *(data.shape[d] for d in axes)]))

    def group_of(index: PrimExpr) -> PrimExpr:
        return index if groups is None else ops.floordiv(index, members)

    def summed(name: str, term: Callable[[list[PrimExpr], Sequence[PrimExpr]], PrimExpr]) -> Tensor:
        inner = {d: reduce_axis((0, data.shape[d]), name=f"k{d}") for d in axes}
        member = reduce_axis((0, members), name="kc")

        def element(*i: Var) -> PrimExpr:
            outer: dict[int, PrimExpr] = dict(zip(kept, i))
            if groups is not None:
                outer[channel] = ops.add(ops.mul(outer[channel], members), member.var)
            point: list[PrimExpr] = [inner[d].var if d in inner else outer[d] for d in range(data.ndim)]
            over = [*inner.values(), *([member] if groups is not None else [])]
            result: PrimExpr = te_sum(term(point, i), axis=over) if over else term(point, i)
            return result

        result: Tensor = compute(shape, element, name=name, tag="comm_reduce")
        return result

    total = summed("T_group_sum", lambda point, _: data(*point).astype(wide))

    def centred(point: Sequence[PrimExpr], row: Sequence[PrimExpr]) -> PrimExpr:
        return data(*point).astype(wide) - total(*row) / count

    squares = summed("T_group_var", lambda point, row: centred(point, row) * centred(point, row))

    def value(*i: Var) -> PrimExpr:
        row = [group_of(i[d]) if d == channel else i[d] for d in kept]
        result = centred(i, row) * intrin.rsqrt(squares(*row) / count + const(epsilon, wide))
        if gamma is not None:
            result = result * gamma(i[channel]).astype(wide)
        if beta is not None:
            result = result + beta(i[channel]).astype(wide)
        return result.astype(data.dtype)

    result: Tensor = compute(data.shape, value, name=f"T_{op}", tag=op)
    return result


def l2_normalize(data: Tensor, eps: float, axis: Axis = None) -> Tensor:
    """data / sqrt(max(sum of squares along `axis`, eps))."""
    along = _Along(data.shape, normal_axes("l2_normalize", axis, data.ndim))
    squares = along.reduce(te_sum, "T_l2_sum", lambda point: data(*point) * data(*point))
    least = const(eps, data.dtype)
    result: Tensor = compute(
        data.shape,
        lambda *i: data(*i) / intrin.sqrt(ops.maximum(squares(*along.rest(i)), least)),
        name="T_l2_normalize",
        tag="l2_normalize",
    )
    return result


def lrn(data: Tensor, size: int, axis: int = 1, alpha: float = 0.0001, beta: float = 0.75, bias: float = 2) -> Tensor:
    """data / (bias + alpha * sum of squares over `size` neighbours along `axis` / size) ** beta."""
    (dim,) = normal_axes("lrn", axis, data.ndim)
    if size < 1:
        raise refusal("lrn", f"size {size!r} is not positive")
    before = (size - 1) // 2
    k = reduce_axis((0, size), name="k")

    def squared(*i: Var) -> PrimExpr:
        place = ops.sub(ops.add(i[dim], k.var), before)
        inside = ops.logical_and(ops.greater_equal(place, 0), ops.less(place, data.shape[dim]))
        x = data(*i[:dim], place, *i[dim + 1 :])
        result: PrimExpr = te_sum(x * x, axis=k, where=inside)
        return result

    total: Tensor = compute(data.shape, squared, name="T_lrn_sum", tag="comm_reduce")
    scale, start, power = (const(v, data.dtype) for v in (alpha / size, bias, beta))
    result: Tensor = compute(
        data.shape, lambda *i: data(*i) / intrin.power(start + scale * total(*i), power), name="T_lrn", tag="lrn"
    )
    return result
