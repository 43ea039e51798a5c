"""Padding, pixel shuffle, flattening, and dropout."""

from __future__ import annotations

from typing import Any

from compiler import topi
from compiler.errors import IRError
from compiler.relax.nodes import Expr, StructInfo, TupleStructInfo
from compiler.relax.op.core.layout import LayoutResult, LayoutUse, as_written, follows_first
from compiler.relax.op.core.params import Ints, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import product, tensor
from compiler.relax.op.core.use import Use, shown
from compiler.relax.op.core.work import nothing
from compiler.relax.op.gradients import movement, norm
from compiler.te.tensor import Tensor
from compiler.tir import ops

__all__ = ["batch_flatten", "dropout", "pad", "pixel_shuffle"]

_MODES = ("constant", "reflect", "replicate", "circular")


def _pad_canonical(attrs: dict[str, Any]) -> dict[str, Any]:
    given, mode = attrs["pad_width"], attrs["pad_mode"] or "constant"
    if isinstance(given, int) or len(given) % 2:
        raise IRError(f"relax.nn.pad: pad_width is {given!r}, it must be two numbers for each dimension")
    if mode not in _MODES:
        raise IRError(f"relax.nn.pad: pad_mode is {mode!r}, it must be one of {', '.join(_MODES)}")
    return {"pad_width": given, "pad_mode": mode, "pad_value": attrs["pad_value"] or 0.0}


def _pad_info(use: Use) -> StructInfo:
    data, width = use.tensor("data"), use.call.attrs["pad_width"]
    if any(amount < 0 for amount in width):
        use.fail(f"pad_width is {width}, none must be negative")
    if data.ndim not in (-1, len(width) // 2):
        use.fail(f"pad_width has {len(width)} numbers, two for each of {len(width) // 2} dimensions, but data is "
                 f"{shown(data)}")  # fmt: skip
    if data.dims is None:
        return tensor(None, data.dtype, len(width) // 2, data.vdevice)
    most = {"reflect": -1, "circular": 0}.get(use.call.attrs["pad_mode"])
    for size, before, after in zip(data.dims, width[::2], width[1::2]):
        known = ops.as_int(size)
        if most is not None and known is not None and max(before, after) > max(known + most, 0):
            use.fail(f"pad_width is {width}, more than data {shown(data)} has to repeat")
    dims = [use.simplify(size + (b + a)) for size, b, a in zip(data.dims, width[::2], width[1::2])]
    return tensor(dims, data.dtype, vdevice=data.vdevice)


def _pad(data: Tensor, pad_width: Any, pad_mode: str, pad_value: float) -> Tensor:
    before, after = pad_width[::2], pad_width[1::2]
    match pad_mode:
        case "reflect":
            return topi.nn.reflect_pad(data, before, after)
        case "replicate":
            return topi.nn.replicate_pad(data, before, after)
        case "circular":
            return topi.nn.circular_pad(data, before, after)
    return topi.nn.pad(data, before, after, pad_value)


def _pad_layout(use: LayoutUse) -> LayoutResult:
    chosen, width = use.permuted(), use.call.attrs["pad_width"]
    if chosen is None:
        return as_written(use)
    moved = tuple(amount for axis, _ in chosen.dims for amount in width[2 * axis : 2 * axis + 2])
    return LayoutResult((chosen,), (chosen,), {"pad_width": moved})


@operator(
    "relax.nn.pad", infer=_pad_info, te=_pad, pattern=OpPatternKind.INJECTIVE, flops=nothing, layout=_pad_layout,
    gradient=movement.pad, canonical=_pad_canonical,
)  # fmt: skip
def pad(data: TensorArg, pad_width: Ints, pad_mode: str | None = "constant", pad_value: float | None = 0.0) -> Expr:
    """Add elements around a tensor: `pad_width` has the amounts before and after each dimension, in turn.

    `pad_mode` is "constant" (with `pad_value`), "reflect", "replicate" or "circular".
    """


def _shuffle_info(use: Use) -> StructInfo:
    data, factor = use.tensor("data"), use.call.attrs["upscale_factor"]
    use.check_float("data")
    if factor < 1:
        use.fail(f"upscale_factor is {factor}, it must be positive")
    if data.ndim != -1 and data.ndim < 3:
        use.fail(f"data must have at least 3 dimensions, got {shown(data)}")
    if data.dims is None:
        return data
    *batch, channels, height, width = data.dims
    known = ops.as_int(channels)
    if known is not None and known % (factor * factor):
        use.fail(f"upscale_factor is {factor}, whose square does not divide the {known} channels")
    sizes = [channels // (factor * factor), height * factor, width * factor]
    return tensor([*batch, *map(use.simplify, sizes)], data.dtype, vdevice=data.vdevice)


@operator(
    "relax.nn.pixel_shuffle", infer=_shuffle_info,
    te=lambda data, upscale_factor: topi.nn.pixel_shuffle(data, upscale_factor), pattern=OpPatternKind.INJECTIVE,
    flops=nothing, layout=as_written, gradient=movement.pixel_shuffle,
)  # fmt: skip
def pixel_shuffle(data: TensorArg, upscale_factor: int) -> Expr:
    """Turn (..., C * r * r, H, W) into (..., C, H * r, W * r), where r is `upscale_factor`."""


def _flatten_info(use: Use) -> StructInfo:
    data = use.tensor("data")
    if data.ndim == 0:
        use.fail("data must have dimensions, got a scalar tensor")
    if data.dims is None:
        return tensor(None, data.dtype, 2, data.vdevice)
    return tensor([data.dims[0], product(use, data.dims[1:])], data.dtype, vdevice=data.vdevice)


@operator(
    "relax.nn.batch_flatten", infer=_flatten_info, te=topi.nn.flatten, pattern=OpPatternKind.INJECTIVE, flops=nothing,
    layout=as_written, gradient=movement.reshaped,
)  # fmt: skip
def batch_flatten(data: TensorArg) -> Expr:
    """Lay all dimensions but the first flat."""


def _dropout_info(use: Use) -> StructInfo:
    data, rate = use.tensor("data"), use.call.attrs["rate"]
    use.check_float("data")
    if not 0 <= rate < 1:
        use.fail(f"rate is {rate}, it must be at least 0 and less than 1")
    return TupleStructInfo((data, data))


@operator(
    "relax.nn.dropout", infer=_dropout_info, te=lambda data, rate: [data, topi.full_like(data, 1.0)],
    pattern=OpPatternKind.ELEMWISE, flops=nothing, layout=follows_first, gradient=norm.dropout,
)  # fmt: skip
def dropout(data: TensorArg, rate: float = 0.5) -> Expr:
    """Give the data and a mask of ones: programs run inference, which drops nothing.

    `rate` says which part training would drop; frontends that train make the mask themselves.
    """
