"""Normalisation: softmax, layer_norm and their kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.errors import IRError
from compiler.te.operation import comm_reducer, compute, const, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import at, caller_span
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
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


def _power(x: PrimExpr, largest: PrimExpr) -> PrimExpr:
    """exp(x - largest). A minimum that changes nothing says that the argument is small, and so makes `exp` cheaper.
    (Not with 0: LLVM makes two instructions of that.)"""
    return intrin.exp(ops.minimum(x - largest, const(1, x.dtype)))


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x - max) / sum(exp(x - max)), maximum and sum along `axis`.

    The maximum is subtracted first so that exp cannot overflow. Raises IRError when `axis` is out of range.
    """
    along = _Along(x.shape, normal_axes("softmax", axis, x.ndim))
    largest = along.reduce(_largest_number, "T_softmax_maxelem", lambda point: x(*point))
    powers: Tensor = compute(
        x.shape, lambda *i: _power(x(*i), largest(*along.rest(i))), name="T_softmax_exp", tag="elemwise"
    )
    total = along.reduce(te_sum, "T_softmax_expsum", lambda point: powers(*point))
    one = const(1.0, x.dtype)  # a division a row, not an element; half a unit in the last place further off
    result: Tensor = compute(
        x.shape, lambda *i: powers(*i) * (one / total(*along.rest(i))), name="T_softmax_norm", tag="softmax_output"
    )
    return result


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """log(softmax(x)) along `axis`, without the loss of taking the logarithm of a small number."""
    along = _Along(x.shape, normal_axes("log_softmax", axis, x.ndim))
    largest = along.reduce(_largest_number, "T_softmax_maxelem", lambda point: x(*point))
    total = along.reduce(
        te_sum, "T_softmax_expsum", lambda point: _power(x(*point), largest(*along.rest(point)))
    )
    result: Tensor = compute(
        x.shape,
        lambda *i: x(*i) - largest(*along.rest(i)) - intrin.log(total(*along.rest(i))),
        name="T_log_softmax",
        tag="log_softmax_output",
    )
    return result


def layer_norm(data: Tensor, gamma: Tensor, beta: Tensor | None, axis: Axis = -1, epsilon: float = 1e-5) -> Tensor:
    """(data - mean) / sqrt(variance + epsilon) * gamma + beta, mean and variance along `axis`.

    `gamma` and `beta` (or None) have the shape of the axes. The variance is taken about the mean, in a second pass.
    Raises IRError when shapes do not fit.
    """
    along = _along("layer_norm", data, axis, gamma, beta)
    scale = const(1.0, data.dtype) / ops.cast(data.dtype, along.count)
    total = along.reduce(te_sum, "T_layer_norm_sum", lambda point: data(*point))

    def centred(point: Sequence[PrimExpr]) -> PrimExpr:
        return data(*point) - total(*along.rest(point)) * scale

    squares = along.reduce(te_sum, "T_layer_norm_var", lambda point: centred(point) * centred(point))

    def value(*i: Var) -> PrimExpr:
        inverse = intrin.rsqrt(squares(*along.rest(i)) * scale + const(epsilon, data.dtype))
        scaled = centred(i) * inverse * gamma(*along.own(i))
        return scaled if beta is None else scaled + beta(*along.own(i))

    result: Tensor = compute(data.shape, value, name="T_layer_norm", tag="layer_norm")
    return result


def rms_norm(data: Tensor, weight: Tensor, axis: Axis = -1, epsilon: float = 1e-5) -> Tensor:
    """data / sqrt(mean of squares + epsilon) * weight, the mean along `axis`. Raises IRError when shapes do not fit."""
    along = _along("rms_norm", data, axis, weight, None)
    scale = const(1.0, data.dtype) / ops.cast(data.dtype, along.count)
    squares = along.reduce(te_sum, "T_rms_norm_sum", lambda point: data(*point) * data(*point))

    def value(*i: Var) -> PrimExpr:
        inverse = intrin.rsqrt(squares(*along.rest(i)) * scale + const(epsilon, data.dtype))
        return data(*i) * inverse * weight(*along.own(i))

    result: Tensor = compute(data.shape, value, name="T_rms_norm", tag="rms_norm")
    return result


def _along(op: str, data: Tensor, axis: Axis, gamma: Tensor, beta: Tensor | None) -> _Along:
    along = _Along(data.shape, normal_axes(op, axis, data.ndim))
    expected = [data.shape[d] for d in along.axes]
    for tensor in (gamma,) if beta is None else (gamma, beta):
        if shape_text(tensor.shape) != shape_text(expected):
            raise IRError(
                f"{op}: {tensor.name!r} is {shape_text(tensor.shape)}, axis {axis!r} of {data.name!r} "
                f"{shape_text(data.shape)} needs {shape_text(expected)}" + at(caller_span())
            )
    return along


def batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int | None = None,
    epsilon: float | None = None,
    center: bool | None = None,
    scale: bool | None = None,
    training: bool | None = None,
    momentum: float | None = None,
) -> list[Tensor]:
    """Inference: [(data - moving_mean) / sqrt(moving_var + epsilon) * gamma + beta, moving_mean, moving_var].

    The four vectors have the size of dimension `axis` (1 unless given); `epsilon` is 1e-5 unless given; without
    `scale` or `center` gamma or beta is left out. Raises IRError when shapes do not fit, and for training.
    """
    if training:
        raise IRError("batch_norm computes inference only: training=True" + at(caller_span()))
    (dim,) = normal_axes("batch_norm", 1 if axis is None else axis, data.ndim)
    for tensor in (gamma, beta, moving_mean, moving_var):
        if shape_text(tensor.shape) != shape_text([data.shape[dim]]):
            raise IRError(
                f"batch_norm: {tensor.name!r} is {shape_text(tensor.shape)}, axis {dim} of {data.name!r} has size "
                f"{data.shape[dim]!r}" + at(caller_span())
            )
    least = const(1e-5 if epsilon is None else epsilon, data.dtype)

    def value(*i: Var) -> PrimExpr:
        result = (data(*i) - moving_mean(i[dim])) * intrin.rsqrt(moving_var(i[dim]) + least)
        if scale is not False:
            result = result * gamma(i[dim])
        return result if center is False else result + beta(i[dim])

    result: Tensor = compute(data.shape, value, name="T_batch_norm", tag="broadcast")
    return [result, moving_mean, moving_var]
