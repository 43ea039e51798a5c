"""Tensors made of nothing, or with the shape of another; triangles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler import topi
from compiler.errors import IRError
from compiler.relax.nodes import Call, Expr, StructInfo, TensorStructInfo
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.layout import as_written, follows, follows_first
from compiler.relax.op.core.params import Dtype, OptionalDtype, ScalarArg, ShapeArg, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator, refused
from compiler.relax.op.core.rules import tensor
from compiler.relax.op.core.use import Use, shown
from compiler.relax.op.core.work import nothing, per_output
from compiler.relax.op.gradients import movement as slopes
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import FloatImm, IntImm, PrimExpr
from compiler.topi.create import arange_extent

__all__ = [
    "arange", "eye", "eye_like", "full", "full_like", "hamming_window", "ones", "ones_like", "tril", "triu", "zeros",
    "zeros_like",
]  # fmt: skip

_NO_INPUT = refused("its result does not depend on the elements of a tensor")


# ------------------------------------------------------------------------------------ constants


def _made(use: Use, dtype: str) -> StructInfo:
    shape = use.shape("shape")
    if shape.values is None:
        return TensorStructInfo(use.arg("shape"), dtype)  # type: ignore[arg-type]
    return tensor(shape.values, dtype)


def _scalar_tensor(use: Use) -> TensorStructInfo:
    value = use.tensor("fill_value")
    if value.ndim not in (-1, 0):
        use.fail(f"fill_value must have no dimensions, got {shown(value)}")
    return value


def _full_info(use: Use) -> StructInfo:
    value = _scalar_tensor(use)
    return _made(use, use.call.attrs["dtype"] or value.dtype)


@operator(
    "relax.full", infer=_full_info,
    te=lambda shape, fill_value, dtype: topi.full(shape, dtype or fill_value.dtype, fill_value()),
    pattern=OpPatternKind.INJECTIVE, flops=nothing, layout=as_written, gradient=slopes.filled,
)  # fmt: skip
def full(shape: ShapeArg, fill_value: TensorArg, dtype: OptionalDtype = None) -> Expr:
    """Fill a tensor of `shape` with `fill_value`, a tensor without dimensions."""


def _full_like_info(use: Use) -> StructInfo:
    data = use.tensor("x")
    _scalar_tensor(use)
    dtype = use.call.attrs["dtype"] or data.dtype
    return TensorStructInfo(data.shape, dtype, data.vdevice) if data.shape is not None else tensor(
        None, dtype, data.ndim, data.vdevice
    )  # fmt: skip


@operator(
    "relax.full_like", infer=_full_like_info,
    te=lambda x, fill_value, dtype: topi.full(x.shape, dtype or x.dtype, fill_value()), pattern=OpPatternKind.INJECTIVE,
    flops=nothing, layout=follows_first, gradient=slopes.filled,
)  # fmt: skip
def full_like(x: TensorArg, fill_value: TensorArg, dtype: OptionalDtype = None) -> Expr:
    """Fill a tensor of the shape of `x` with `fill_value`, a tensor without dimensions."""


def _like_info(use: Use) -> StructInfo:
    data, dtype = use.tensor("x"), use.call.attrs["dtype"]
    if data.shape is not None:
        return TensorStructInfo(data.shape, dtype or data.dtype, data.vdevice)
    return tensor(None, dtype or data.dtype, data.ndim, data.vdevice)


def _constant(name: str, value: int) -> Callable[..., Call]:
    def declared(shape: ShapeArg, dtype: Dtype) -> Expr:
        raise AssertionError("a declaration")

    declared.__name__ = declared.__qualname__ = name
    declared.__doc__ = f"Make a tensor of `shape` that is {value} everywhere."

    def form(shape: Any, dtype: str) -> Tensor:
        return topi.full(shape, dtype, value)

    return operator(
        f"relax.{name}", infer=lambda use: _made(use, use.call.attrs["dtype"]), te=form,
        pattern=OpPatternKind.INJECTIVE, flops=nothing, layout=as_written, gradient=_NO_INPUT,
    )(declared)  # fmt: skip


def _constant_like(name: str, value: int) -> Callable[..., Call]:
    def declared(x: TensorArg, dtype: OptionalDtype = None) -> Expr:
        raise AssertionError("a declaration")

    declared.__name__ = declared.__qualname__ = name
    declared.__doc__ = f"Make a tensor of the shape of `x` that is {value} everywhere."

    def form(x: Tensor, dtype: str) -> Tensor:
        return topi.full(x.shape, dtype or x.dtype, value)

    return operator(
        f"relax.{name}", infer=_like_info, te=form, pattern=OpPatternKind.INJECTIVE, flops=nothing,
        layout=follows, gradient=_NO_INPUT,
    )(declared)  # fmt: skip


zeros = _constant("zeros", 0)
ones = _constant("ones", 1)
zeros_like = _constant_like("zeros_like", 0)
ones_like = _constant_like("ones_like", 1)


# ------------------------------------------------------------------------------ ranges, windows


def _eye_info(use: Use) -> StructInfo:
    sizes = [use.scalar(name).value for name in ("n", "m")]
    use.scalar("k")
    known = [size for size in sizes if size is not None]
    return tensor(known if len(known) == 2 else None, use.call.attrs["dtype"], 2)


@operator(
    "relax.eye", infer=_eye_info, te=lambda n, m, k, dtype: topi.eye(n, m, k, dtype), pattern=OpPatternKind.INJECTIVE,
    flops=nothing, layout=as_written, gradient=_NO_INPUT,
)  # fmt: skip
def _eye_call(n: ScalarArg, m: ScalarArg, k: ScalarArg = 0, dtype: Dtype = "float32") -> Expr:
    """Make an n by m matrix of ones on the diagonal `k`, above the main one when positive, else zeros."""


def eye(n: Any, m: Any = None, k: Any = 0, dtype: str = "float32") -> Call:
    """Make an n by m matrix (n by n without m) of ones on the diagonal `k`, else zeros."""
    return _eye_call(n, n if m is None else m, k, dtype)


def _eye_like_info(use: Use) -> StructInfo:
    use.tensor("x", 2)
    use.scalar("k")
    return _like_info(use)


@operator(
    "relax.eye_like", infer=_eye_like_info,
    te=lambda x, k, dtype: topi.eye(x.shape[0], x.shape[1], k, dtype or x.dtype), pattern=OpPatternKind.INJECTIVE,
    flops=nothing, layout=as_written, gradient=_NO_INPUT,
)  # fmt: skip
def eye_like(x: TensorArg, k: ScalarArg = 0, dtype: OptionalDtype = None) -> Expr:
    """Make a matrix of the shape of `x`: ones on the diagonal `k`, else zeros."""


def _arange_info(use: Use) -> StructInfo:
    values = [use.scalar(name).value for name in ("start", "end", "step")]
    dtype = use.call.attrs["dtype"]
    if any(value is None for value in values):
        return tensor(None, dtype, 1)
    start, end, step = values
    if isinstance(step, IntImm | FloatImm) and step.value == 0:
        use.fail("step is 0")
    if all(isinstance(value, IntImm | FloatImm) for value in values):
        count = topi.arange(_plain(start), _plain(end), _plain(step), "int64").shape[0]
        return tensor([int64(ops.as_int(count) or 0)], dtype)
    try:
        return tensor([use.simplify(ops.cast("int64", arange_extent(start, end, step)))], dtype)
    except IRError:
        return tensor(None, dtype, 1)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, IntImm | FloatImm) else value


@operator(
    "relax.arange", infer=_arange_info,
    te=lambda start, end, step, dtype: topi.arange(_plain(start), _plain(end), _plain(step), dtype),
    pattern=OpPatternKind.INJECTIVE, flops=per_output(2), layout=as_written, gradient=_NO_INPUT,
)  # fmt: skip
def _arange_call(start: ScalarArg, end: ScalarArg, step: ScalarArg, dtype: Dtype) -> Expr:
    """Count from `start` in steps of `step`, up to before `end`."""


def arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> Call:
    """Count from `start` (0 when `end` is not given) in steps of `step`, up to before the end.

    The element type is int64 when all are integers, else float32, unless it is given.
    """
    if end is None:
        start, end = 0, start
    if dtype is None:
        whole = all(isinstance(v, int) or (isinstance(v, PrimExpr) and v.dtype.startswith("int"))
                    for v in (start, end, step))  # fmt: skip
        dtype = "int64" if whole else "float32"
    return _arange_call(start, end, step, dtype)


def _window_info(use: Use) -> StructInfo:
    size = use.scalar("window_size").value
    for name in ("periodic", "alpha", "beta"):
        use.scalar(name)
    known = None if size is None else ops.as_int(size)
    if known is not None and known < 0:
        use.fail(f"window_size is {known}, it must not be negative")
    return tensor(None if size is None else [ops.cast("int64", size)], use.call.attrs["dtype"], 1)


def _window(window_size: Any, periodic: Any, alpha: Any, beta: Any, dtype: str) -> Tensor:
    return topi.hamming_window(
        window_size, bool(_plain(periodic)), float(_plain(alpha)), float(_plain(beta)), dtype
    )


@operator(
    "relax.hamming_window", infer=_window_info, te=_window, pattern=OpPatternKind.INJECTIVE, flops=per_output(10),
    layout=as_written, gradient=_NO_INPUT,
)  # fmt: skip
def hamming_window(
    window_size: ScalarArg, periodic: ScalarArg, alpha: ScalarArg, beta: ScalarArg, dtype: Dtype
) -> Expr:
    """Make the window alpha - beta cos(2 pi i / n), n being `window_size`, or one less unless `periodic`."""


# ---------------------------------------------------------------------------------- triangles


def _triangle_info(use: Use) -> StructInfo:
    data = use.tensor("x")
    if data.ndim in (0, 1):
        use.fail(f"x must have at least 2 dimensions, got {shown(data)}")
    use.scalar("k")
    return data


@operator(
    "relax.tril", infer=_triangle_info, te=lambda x, k: topi.tril(x, k), pattern=OpPatternKind.ELEMWISE, flops=nothing,
    layout=as_written, gradient=slopes.triangle,
)  # fmt: skip
def tril(x: TensorArg, k: ScalarArg = 0) -> Expr:
    """Keep the lower triangle of matrices, the diagonal `k` included; the rest is zero."""


@operator(
    "relax.triu", infer=_triangle_info, te=lambda x, k: topi.triu(x, k), pattern=OpPatternKind.ELEMWISE, flops=nothing,
    layout=as_written, gradient=slopes.triangle,
)  # fmt: skip
def triu(x: TensorArg, k: ScalarArg = 0) -> Expr:
    """Keep the upper triangle of matrices, the diagonal `k` included; the rest is zero."""
