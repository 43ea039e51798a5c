"""Quantisation: numbers as small integers, with a scale and a zero point."""

from __future__ import annotations

from compiler import topi
from compiler.relax.nodes import Expr, StructInfo, TensorStructInfo
from compiler.relax.op.core.layout import follows_with_axis
from compiler.relax.op.core.params import Dtype, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator, refused
from compiler.relax.op.core.rules import check_kind, with_dtype
from compiler.relax.op.core.use import Use, shown
from compiler.relax.op.core.work import per_output
from compiler.tir import ops

__all__ = ["dequantize", "quantize"]

_AFTER_TRAINING = refused("models are quantised after they are trained")
_QUANTISED = ("int8", "uint8", "int16", "uint16", "int32")
_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _vectors_fit(use: Use, data: TensorStructInfo) -> None:
    axis = use.call.attrs["axis"]
    if data.ndim > 0:
        axis = use.axis(axis, data.ndim)
    for name in ("scale", "zero_point"):
        vector = use.tensor(name)
        if vector.ndim not in (-1, 0, 1):
            use.fail(f"{name} must have at most one dimension, got {shown(vector)}")
        if vector.dims and data.dims and ops.as_int(vector.dims[0]) != 1:
            what = f"the dimension along axis and that of {name}"
            use.check_equal(what, data.dims[axis], vector.dims[0], "data", name)


def _quantize_info(use: Use) -> StructInfo:
    data, dtype = use.tensor("data"), use.call.attrs["out_dtype"]
    if dtype not in _QUANTISED:
        use.fail(f"out_dtype is {dtype!r}, it must be one of {', '.join(_QUANTISED)}")
    use.check_float("data", "scale")
    _vectors_fit(use, data)
    return with_dtype(data, dtype)


@operator(
    "relax.quantize", infer=_quantize_info,
    te=lambda data, scale, zero_point, axis, out_dtype: topi.nn.quantize(data, scale, zero_point, axis, out_dtype),
    pattern=OpPatternKind.BROADCAST, flops=per_output(4), layout=follows_with_axis("axis"), gradient=_AFTER_TRAINING,
    precision="never",
)  # fmt: skip
def quantize(
    data: TensorArg, scale: TensorArg, zero_point: TensorArg, axis: int = -1, out_dtype: Dtype = "int8"
) -> Expr:
    """Round data / scale, add the zero point, and limit the result to the range of `out_dtype`.

    Scale and zero point are one number each, or one a slice along `axis`.
    """


def _dequantize_info(use: Use) -> StructInfo:
    data, dtype = use.tensor("data"), use.call.attrs["out_dtype"]
    if dtype not in _FLOATS:
        use.fail(f"out_dtype is {dtype!r}, it must be one of {', '.join(_FLOATS)}")
    check_kind(use, ("data",), floats=False, integers=True, bools=False)
    _vectors_fit(use, data)
    return with_dtype(data, dtype)


@operator(
    "relax.dequantize", infer=_dequantize_info,
    te=lambda data, scale, zero_point, axis, out_dtype: topi.nn.dequantize(data, scale, zero_point, axis, out_dtype),
    pattern=OpPatternKind.BROADCAST, flops=per_output(2), layout=follows_with_axis("axis"), gradient=_AFTER_TRAINING,
    precision="never",
)  # fmt: skip
def dequantize(
    data: TensorArg, scale: TensorArg, zero_point: TensorArg, axis: int = -1, out_dtype: Dtype = "float32"
) -> Expr:
    """Take (data - zero point) * scale."""
