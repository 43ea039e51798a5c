"""Normalisations, kept whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.converters.elementwise import number
from compiler.frontend.torch.table import converts
from compiler.relax import op
from compiler.relax.nodes import TupleGetItem, const
from compiler.runtime.core.dtypes import storage_dtype


def _filled(c: Conversion, given: Any, shape: Sequence[Any], value: float, dtype: str) -> Any:
    """A weight; where it is left out, a constant."""
    if given is not None:
        return c.cast(given, dtype)
    sizes = [c.static(size, "the size of a weight") for size in shape]
    return const(np.full(sizes, value, storage_dtype(dtype)), dtype)


def _batch_norm(
    c: Conversion, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    if training or mean is None:
        c.refuse("batch_norm of a model that trains; export it after model.eval()")
    dtype, channels = c.dtype(x), [c.shape(x)[1]]
    gamma, beta = _filled(c, weight, channels, 1.0, dtype), _filled(c, bias, channels, 0.0, dtype)
    mean, var = c.cast(mean, dtype), c.cast(var, dtype)
    whole = op.nn.batch_norm(
        x, gamma, beta, mean, var, axis=1, epsilon=float(eps), momentum=float(momentum), training=False
    )
    return c.emit(TupleGetItem(c.emit(whole), 0))


@converts("aten.batch_norm.default")
def batch_norm(
    c: Conversion, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: Any,
    momentum: Any, eps: Any,
) -> Any:  # fmt: skip
    return _batch_norm(c, input, weight, bias, running_mean, running_var, training, momentum, eps)


@converts("aten._native_batch_norm_legit_no_training.default")
def batch_norm_no_training(
    c: Conversion, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: Any, eps: Any
) -> Any:
    return _batch_norm(c, input, weight, bias, running_mean, running_var, False, momentum, eps), None, None


@converts("aten.native_batch_norm.default")
def native_batch_norm(
    c: Conversion, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: Any,
    momentum: Any, eps: Any,
) -> Any:  # fmt: skip
    return _batch_norm(c, input, weight, bias, running_mean, running_var, training, momentum, eps), None, None


@converts("aten.layer_norm.default")
def layer_norm(c: Conversion, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: Any) -> Any:
    dtype, ndim = c.dtype(input), c.ndim(input)
    gamma, beta = _filled(c, weight, normalized_shape, 1.0, dtype), _filled(c, bias, normalized_shape, 0.0, dtype)
    axes = tuple(range(ndim - len(normalized_shape), ndim))
    return op.nn.layer_norm(input, gamma, beta, axes, float(eps), bias is not None, weight is not None)


@converts("aten.native_layer_norm.default")
def native_layer_norm(c: Conversion, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: Any) -> Any:
    """Normalise; compute mean and deviation only if a node asks for them."""
    result = c.emit(layer_norm(c, input, normalized_shape, weight, bias, eps))
    wanted = {user.args[1] for user in c.node.users if getattr(user.target, "__name__", "") == "getitem" and user.users}
    if not wanted & {1, 2} and "output" not in {user.op for user in c.node.users}:
        return result, None, None
    ndim = c.ndim(input)
    axes = tuple(range(ndim - len(normalized_shape), ndim))
    mean = c.emit(op.mean(input, axes, True))
    deviation = op.rsqrt(op.add(op.variance(input, axes, True), number(c, float(eps), input)))
    return result, mean, c.emit(deviation)


@converts("aten.rms_norm.default")
def rms_norm(c: Conversion, input: Any, normalized_shape: Any, weight: Any, eps: Any) -> Any:
    dtype, ndim = c.dtype(input), c.ndim(input)
    gamma = _filled(c, weight, normalized_shape, 1.0, dtype)
    axes = tuple(range(ndim - len(normalized_shape), ndim))
    smallest = float(np.finfo(np.float64 if dtype == "float64" else np.float32).eps)
    return op.nn.rms_norm(input, gamma, axes, smallest if eps is None else float(eps))


@converts("aten._fused_rms_norm.default")
def fused_rms_norm(c: Conversion, input: Any, normalized_shape: Any, weight: Any, eps: Any) -> Any:
    result = c.emit(rms_norm(c, input, normalized_shape, weight, eps))
    axes = tuple(range(c.ndim(input) - len(normalized_shape), c.ndim(input)))
    epsilon = 1.1920929e-07 if eps is None else float(eps)
    squares = op.mean(op.multiply(input, input), axes, True)
    return result, c.emit(op.rsqrt(op.add(squares, number(c, epsilon, input))))


@converts("aten.group_norm.default")
def group_norm(c: Conversion, input: Any, num_groups: Any, weight: Any, bias: Any, eps: Any) -> Any:
    dtype, channels = c.dtype(input), [c.shape(input)[1]]
    gamma, beta = _filled(c, weight, channels, 1.0, dtype), _filled(c, bias, channels, 0.0, dtype)
    axes = tuple(range(2, c.ndim(input)))
    return op.nn.group_norm(
        input, gamma, beta, c.static(num_groups, "a number of groups"), 1, axes, float(eps), bias is not None,
        weight is not None,
    )  # fmt: skip


@converts("aten.native_group_norm.default")
def native_group_norm(c: Conversion, input: Any, weight: Any, bias: Any, group: Any, eps: Any) -> Any:
    return c.emit(group_norm(c, input, group, weight, bias, eps)), None, None


@converts("aten.instance_norm.default")
def instance_norm(
    c: Conversion, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: Any,
    momentum: Any, eps: Any,
) -> Any:  # fmt: skip
    if not use_input_stats:
        return _batch_norm(c, input, weight, bias, running_mean, running_var, False, momentum, eps)
    dtype, channels = c.dtype(input), [c.shape(input)[1]]
    gamma, beta = _filled(c, weight, channels, 1.0, dtype), _filled(c, bias, channels, 0.0, dtype)
    axes = tuple(range(2, c.ndim(input)))
    return op.nn.instance_norm(input, gamma, beta, 1, axes, float(eps), bias is not None, weight is not None)
