"""Gradients of softmax and of norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.backward import Backward, Gradients
from compiler.tir import ops


def softmax(use: Backward) -> Gradients:
    axis = use.attrs["axis"]
    weighed = use.multiply(use.grad, use.result)
    return (use.subtract(weighed, use.multiply(use.result, use.sum(weighed, axis, True))),)


def log_softmax(use: Backward) -> Gradients:
    axis = use.attrs["axis"]
    return (use.subtract(use.grad, use.multiply(use.exp(use.result), use.sum(use.grad, axis, True))),)


def _normal(use: Backward, x: Any, axes: Sequence[int], epsilon: float) -> tuple[Any, Any]:
    """`x` normalised along axes, and 1 / its standard deviation."""
    centred = use.subtract(x, use.mean(x, list(axes), True))
    inverse = use.rsqrt(use.add(use.mean(use.square(centred), list(axes), True), epsilon))
    return use.multiply(centred, inverse), inverse


def _through(use: Backward, grad: Any, normal: Any, inverse: Any, axes: Sequence[int]) -> Any:
    """The gradient of what was normalised, from that of the normal values."""
    mean = use.mean(grad, list(axes), True)
    along = use.mean(use.multiply(grad, normal), list(axes), True)
    return use.multiply(inverse, use.subtract(use.subtract(grad, mean), use.multiply(normal, along)))


def _aligned(use: Backward, vector: Any, axes: Sequence[int], rank: int) -> Any:
    """A tensor whose dimensions are `axes` of one of `rank` dimensions, so that both broadcast."""
    order = sorted(range(len(axes)), key=lambda n: axes[n])
    turned = use.permute_dims(vector, order) if order != sorted(order) else vector
    others = [d for d in range(rank) if d not in axes]
    return use.expand_dims(turned, others) if others else turned


def _summed(use: Backward, grad: Any, axes: Sequence[int]) -> Any:
    """`grad` summed over all dimensions but `axes`, which it has in that order."""
    others = [d for d in range(use.rank(grad)) if d not in axes]
    summed = use.sum(grad, others) if others else grad
    order = [sorted(axes).index(axis) for axis in axes]
    return use.permute_dims(summed, order) if order != sorted(order) else summed


def layer_norm(use: Backward) -> Gradients:
    x, gamma, beta = use.call.args
    axes = use.axes(use.attrs["axes"], x)
    normal, inverse = _normal(use, x, axes, use.attrs["epsilon"])
    scale, center = use.attrs["scale"], use.attrs["center"]
    inner = use.multiply(use.grad, _aligned(use, gamma, axes, use.rank(x))) if scale else use.grad
    return (
        _through(use, inner, normal, inverse, axes),
        _summed(use, use.multiply(use.grad, normal), axes) if scale else use.zeros_like(gamma),
        _summed(use, use.grad, axes) if center else use.zeros_like(beta),
    )


def rms_norm(use: Backward) -> Gradients:
    x, weight = use.call.args
    axes = use.axes(use.attrs["axes"], x)
    inverse = use.rsqrt(use.add(use.mean(use.square(x), list(axes), True), use.attrs["epsilon"]))
    normal = use.multiply(x, inverse)
    inner = use.multiply(use.grad, _aligned(use, weight, axes, use.rank(x)))
    along = use.multiply(normal, use.mean(use.multiply(inner, normal), list(axes), True))
    return (use.multiply(inverse, use.subtract(inner, along)), _summed(use, use.multiply(use.grad, normal), axes))


def batch_norm(use: Backward) -> Gradients:
    x, gamma, beta, mean, variance = use.call.args
    attrs = use.attrs
    (channel,) = use.axes(attrs["axis"], x)
    rank, others = use.rank(x), [d for d in range(use.rank(x)) if d != channel]
    grad, for_mean, for_variance = use.grads
    inner = use.multiply(grad, _aligned(use, gamma, [channel], rank)) if attrs["scale"] else grad

    def spread(vector: Any) -> Any:
        return _aligned(use, vector, [channel], rank)

    if attrs["training"]:
        share = attrs["momentum"]
        normal, inverse = _normal(use, x, others, attrs["epsilon"])
        count = use.sum(use.ones_like(x), others, True)
        centred = use.divide(normal, inverse)
        data = _through(use, inner, normal, inverse, others)
        data = use.add(data, use.divide(use.multiply(spread(for_mean), share), count))
        slope = use.divide(use.multiply(spread(for_variance), 2 * share), count)
        data = use.add(data, use.multiply(centred, slope))
        kept = [use.multiply(part, 1 - share) for part in (for_mean, for_variance)]
    else:
        inverse = spread(use.rsqrt(use.add(variance, attrs["epsilon"])))
        normal = use.multiply(use.subtract(x, spread(mean)), inverse)
        data = use.multiply(inner, inverse)
        falls = use.multiply(use.multiply(use.multiply(inner, normal), use.square(inverse)), -0.5)
        kept = [
            use.add(for_mean, use.negative(_summed(use, data, [channel]))),
            use.add(for_variance, _summed(use, falls, [channel])),
        ]
    return (
        data,
        _summed(use, use.multiply(grad, normal), [channel]) if attrs["scale"] else use.zeros_like(gamma),
        _summed(use, grad, [channel]) if attrs["center"] else use.zeros_like(beta),
        *kept,
    )


def _by_channel(use: Backward, parts: Sequence[Any] | None, axes: Sequence[int]) -> Gradients:
    """A norm over `axes` of the data laid out as `parts` (None: as it is).
    Weight and offset have one number a channel."""
    x, gamma, beta = use.call.args
    attrs, rank = use.attrs, use.rank(x)
    (channel,) = use.axes(attrs["channel_axis"], x)
    inner = use.multiply(use.grad, _aligned(use, gamma, [channel], rank)) if attrs["scale"] else use.grad
    source = x if parts is None else use.reshape(x, parts)
    normal, inverse = _normal(use, source, axes, attrs["epsilon"])
    data = _through(use, inner if parts is None else use.reshape(inner, parts), normal, inverse, axes)
    if parts is not None:
        data, normal = use.reshaped(data, x), use.reshaped(normal, x)
    return (
        data,
        _summed(use, use.multiply(use.grad, normal), [channel]) if attrs["scale"] else use.zeros_like(gamma),
        _summed(use, use.grad, [channel]) if attrs["center"] else use.zeros_like(beta),
    )


def group_norm(use: Backward) -> Gradients:
    x = use.arg(0)
    (channel,) = use.axes(use.attrs["channel_axis"], x)
    dims, groups = list(use.dims(x)), use.attrs["num_groups"]
    parts = [*dims[:channel], int64(groups), ops.floordiv(dims[channel], groups), *dims[channel + 1 :]]
    axes = [d + (d > channel) for d in use.axes(use.attrs["axes"], x)]
    return _by_channel(use, parts, [*axes, channel + 1])


def instance_norm(use: Backward) -> Gradients:
    return _by_channel(use, None, use.axes(use.attrs["axes"], use.arg(0)))


# -------------------------------------------------------------------------------------- losses


def cross_entropy(use: Backward) -> Gradients:
    predictions, labels = use.call.args
    share = use.negative(use.grad)
    if use.rank(predictions) > 1:
        rows = use.sum(use.ones_like(use.part(use.reshape(predictions, [use.dims(predictions)[0], -1]), 1, 0, 1)))
        share = use.divide(share, rows)
    return use.multiply(share, labels), use.multiply(share, predictions)


def nll_loss(use: Backward) -> Gradients:
    """Take the gradient of the predictions; weights of classes count as constants."""
    found = use.op("grad.nll_loss_backward", use.grad, *use.call.args, **use.attrs)
    return found, *(None,) * (len(use.call.args) - 1)


def dropout(use: Backward) -> Gradients:
    return (use.grads[0],)
