"""Normalisation: softmax and its logarithm, and the norms that layers use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler import topi
from compiler.relax.nodes import Expr, StructInfo, TensorStructInfo, TupleStructInfo
from compiler.relax.op.core.layout import LayoutResult, LayoutUse, as_written, follows_with_axis
from compiler.relax.op.core.params import Ints, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.use import Use, shown
from compiler.relax.op.core.work import per_input, per_output
from compiler.relax.op.gradients import norm as slopes
from compiler.te.tensor import Tensor
from compiler.tir.nodes import PrimExpr

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "log_softmax", "rms_norm", "softmax"]


def _softmax_info(use: Use) -> StructInfo:
    info = use.tensor("data")
    use.check_float("data")
    if info.ndim != -1:
        use.axis(use.call.attrs["axis"], info.ndim)
    return info


@operator(
    "relax.nn.softmax", infer=_softmax_info, te=topi.nn.softmax, pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE,
    flops=per_output(5), layout=follows_with_axis("axis"), gradient=slopes.softmax, precision="never",
)  # fmt: skip
def softmax(data: TensorArg, axis: int = -1) -> Expr:
    """Scale exp(data) so that its sum along `axis` is 1."""


@operator(
    "relax.nn.log_softmax", infer=_softmax_info, te=topi.nn.log_softmax, pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE,
    flops=per_output(5), layout=follows_with_axis("axis"), gradient=slopes.log_softmax, precision="never",
)  # fmt: skip
def log_softmax(data: TensorArg, axis: int = -1) -> Expr:
    """Take the logarithm of softmax, without the precision loss of a small number's logarithm."""


# ---------------------------------------------------------------- norms with weights along axes


def _vectors_fit(use: Use, names: Sequence[str], dims: Sequence[PrimExpr] | None, rank: int, what: str) -> None:
    """Fail where the tensors `names` do not have the shape `dims` (of `rank` dimensions; -1: unknown)."""
    for name in names:
        vector = use.tensor(name)
        if rank != -1 and vector.ndim not in (-1, rank):
            use.fail(f"{name} must have {rank} dimensions, one for each of {what}, got {shown(vector)}")
        if dims is None or vector.dims is None:
            continue
        for wanted, size in zip(dims, vector.dims):
            use.check_equal(f"the dimensions of {what} and those of {name}", wanted, size, "data", name)


def _along_axes(use: Use, names: Sequence[str]) -> StructInfo:
    data = use.tensor("data")
    use.check_float("data", *names)
    use.dtype("data", *names)
    given = use.call.attrs["axes"]
    if data.ndim == -1:
        return data
    axes = use.axes(given, data.ndim, "axes")
    dims = None if data.dims is None else [data.dims[axis] for axis in axes]
    _vectors_fit(use, names, dims, len(axes), "axes")
    return data


def _one_moves(use: LayoutUse) -> LayoutResult:
    """Let a norm along one axis follow any order of dimensions.
    Weights along several axes fix the order."""
    chosen, axes = use.permuted(), use.call.attrs["axes"]
    one = axes if isinstance(axes, int) else axes[0] if len(axes) == 1 else None
    if chosen is None or one is None:
        return as_written(use)
    moved = chosen.axis(one)
    rest = (None,) * (len(use.inputs) - 1)
    return LayoutResult((chosen, *rest), (chosen,), {"axes": moved if isinstance(axes, int) else (moved,)})


def _layer_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, axes: Any, epsilon: float, center: bool, scale: bool
) -> Tensor:
    weight = gamma if scale else topi.full_like(gamma, 1.0)
    return topi.nn.layer_norm(data, weight, beta if center else None, axes, epsilon)


@operator(
    "relax.nn.layer_norm", infer=lambda use: _along_axes(use, ("gamma", "beta")), te=_layer_norm,
    pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE, flops=per_output(8), layout=_one_moves, gradient=slopes.layer_norm,
    precision="never",
)  # fmt: skip
def layer_norm(
    data: TensorArg, gamma: TensorArg, beta: TensorArg, axes: Ints, epsilon: float = 1e-05, center: bool = True,
    scale: bool = True,
) -> Expr:  # fmt: skip
    """Take (data - mean) / sqrt(variance + epsilon) * gamma + beta, mean and variance along `axes`.

    `gamma` and `beta` have the shape of the axes. Without `scale` gamma is left out, without `center` beta.
    """


@operator(
    "relax.nn.rms_norm", infer=lambda use: _along_axes(use, ("weight",)),
    te=lambda data, weight, axes, epsilon: topi.nn.rms_norm(data, weight, axes, epsilon),
    pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE, flops=per_output(4), layout=_one_moves, gradient=slopes.rms_norm,
    precision="never",
)  # fmt: skip
def rms_norm(data: TensorArg, weight: TensorArg, axes: Ints = -1, epsilon: float = 1e-05) -> Expr:
    """Take data / sqrt(mean of squares + epsilon) * weight, the mean along `axes`."""


# ------------------------------------------------------------- norms with one weight a channel


def _channel(use: Use, data: TensorStructInfo, axis: int, name: str, vectors: Sequence[str]) -> int:
    """The dimension of channels counted from the front; fails where the vectors do not have its size."""
    channel = use.axis(axis, data.ndim, name)
    dims = None if data.dims is None else [data.dims[channel]]
    _vectors_fit(use, vectors, dims, 1, name)
    return channel


def _batch_norm_info(use: Use) -> StructInfo:
    names = ("gamma", "beta", "moving_mean", "moving_var")
    data = use.tensor("data")
    use.check_float("data", *names)
    use.dtype("data", *names)
    for name in names:
        use.tensor(name, 1)
    if data.ndim != -1:
        _channel(use, data, use.call.attrs["axis"], "axis", names)
    return TupleStructInfo((data, use.tensor("moving_mean"), use.tensor("moving_var")))


def _batch_norm_layout(use: LayoutUse) -> LayoutResult:
    chosen = use.permuted()
    if chosen is None:
        return as_written(use)
    axis = chosen.axis(use.call.attrs["axis"])
    return LayoutResult((chosen, None, None, None, None), (chosen, None, None), {"axis": axis})


def _batch_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, moving_mean: Tensor, moving_var: Tensor, axis: int, epsilon: float,
    center: bool, scale: bool, momentum: float, training: bool,
) -> Any:  # fmt: skip
    return topi.nn.batch_norm(
        data, gamma, beta, moving_mean, moving_var, axis, epsilon, center, scale, training, momentum
    )


@operator(
    "relax.nn.batch_norm", infer=_batch_norm_info, te=_batch_norm, pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE,
    flops=per_input(8), layout=_batch_norm_layout, gradient=slopes.batch_norm, precision="never",
)  # fmt: skip
def batch_norm(
    data: TensorArg, gamma: TensorArg, beta: TensorArg, moving_mean: TensorArg, moving_var: TensorArg, axis: int,
    epsilon: float = 1e-05, center: bool = True, scale: bool = True, momentum: float = 0.1, training: bool = True,
) -> Expr:  # fmt: skip
    """Normalise each channel, along `axis`, over all other dimensions; three results.

    In `training` mean and variance are the data's own, and the moving ones come back as
    (1 - momentum) * moving + momentum * own. Otherwise the moving ones are used, and come back as they were.
    """


def _over_axes_info(use: Use) -> StructInfo:
    data = use.tensor("data")
    use.check_float("data", "gamma", "beta")
    use.dtype("data", "gamma", "beta")
    for name in ("gamma", "beta"):
        use.tensor(name, 1)
    attrs = use.call.attrs
    if data.ndim == -1:
        return data
    channel = _channel(use, data, attrs["channel_axis"], "channel_axis", ("gamma", "beta"))
    if channel in use.axes(attrs["axes"], data.ndim, "axes"):
        use.fail(f"axes is {attrs['axes']}, which has channel_axis {attrs['channel_axis']} among them")
    return data


def _group_norm_info(use: Use) -> StructInfo:
    data, groups = use.tensor("data"), use.call.attrs["num_groups"]
    if groups < 1:
        use.fail(f"num_groups is {groups}, it must be positive")
    info = _over_axes_info(use)
    if data.dims is not None:
        channels = data.dims[use.axis(use.call.attrs["channel_axis"], data.ndim)]
        if use.differ(channels % groups, channels * 0):
            use.fail(f"num_groups is {groups}, which does not divide the channels of {shown(data)}")
    return info


def _axes_move(use: LayoutUse) -> LayoutResult:
    chosen, attrs = use.permuted(), use.call.attrs
    if chosen is None:
        return as_written(use)
    axes = attrs["axes"]
    moved = chosen.axis(axes) if isinstance(axes, int) else tuple(map(chosen.axis, axes))
    return LayoutResult((chosen, None, None), (chosen,), {"channel_axis": chosen.axis(attrs["channel_axis"]),
                                                          "axes": moved})  # fmt: skip


def _group_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, num_groups: int, channel_axis: int, axes: Any, epsilon: float,
    center: bool, scale: bool,
) -> Tensor:  # fmt: skip
    weight, offset = gamma if scale else None, beta if center else None
    return topi.nn.group_norm(data, weight, offset, num_groups, channel_axis, axes, epsilon)


@operator(
    "relax.nn.group_norm", infer=_group_norm_info, te=_group_norm, pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE,
    flops=per_output(8), layout=_axes_move, gradient=slopes.group_norm, precision="never",
)  # fmt: skip
def group_norm(
    data: TensorArg, gamma: TensorArg, beta: TensorArg, num_groups: int, channel_axis: int, axes: Ints,
    epsilon: float = 1e-05, center: bool = True, scale: bool = True,
) -> Expr:  # fmt: skip
    """Normalise over `axes` and over the channels of each of `num_groups` equal groups.

    `gamma` and `beta` have one number a channel. Without `scale` gamma is left out, without `center` beta.
    """


def _instance_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, channel_axis: int, axes: Any, epsilon: float, center: bool, scale: bool
) -> Tensor:
    weight, offset = gamma if scale else None, beta if center else None
    return topi.nn.instance_norm(data, weight, offset, channel_axis, axes, epsilon)


@operator(
    "relax.nn.instance_norm", infer=_over_axes_info, te=_instance_norm, pattern=OpPatternKind.OUT_ELEMWISE_FUSABLE,
    flops=per_output(8), layout=_axes_move, gradient=slopes.instance_norm, precision="never",
)  # fmt: skip
def instance_norm(
    data: TensorArg, gamma: TensorArg, beta: TensorArg, channel_axis: int, axes: Ints, epsilon: float = 1e-05,
    center: bool = True, scale: bool = True,
) -> Expr:  # fmt: skip
    """Normalise each channel of each instance over `axes`; `gamma` and `beta` have one number a channel."""
