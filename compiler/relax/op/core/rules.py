"""StructInfo rules that many operators share."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.dtype import parse_dtype
from compiler.relax.nodes import ShapeExpr, StructInfo, TensorStructInfo
from compiler.relax.nodes.dims import int64, shape_text, text
from compiler.relax.op.core.registry import InferRule
from compiler.relax.op.core.use import Use, shown
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr


def like(
    name: str, *, floats: bool = False, integers: bool = False, numbers: bool = False, bools: bool = False,
    dtype: str | None = None,
) -> InferRule:  # fmt: skip
    """Make the result like the tensor argument `name`.
    Its elements must be of one of the requested kinds: floating point, integers, both (`numbers`), truth values."""

    def rule(use: Use) -> StructInfo:
        info = use.tensor(name)
        check_kind(use, (name,), floats=floats or numbers, integers=integers or numbers, bools=bools)
        return info if dtype is None or dtype == info.dtype else with_dtype(info, dtype)

    return rule


def with_dtype(info: TensorStructInfo, dtype: str) -> TensorStructInfo:
    """`info` with another element type."""
    if info.shape is None:
        return TensorStructInfo(None, dtype, info.vdevice, info.ndim)
    return TensorStructInfo(info.shape, dtype, info.vdevice)


def tensor(dims: Sequence[PrimExpr] | None, dtype: str, ndim: int = -1, vdevice: object = None) -> TensorStructInfo:
    """A tensor of `dims`; where they are unknown, of `ndim` dimensions."""
    if dims is None:
        return TensorStructInfo(None, dtype, vdevice, ndim)  # type: ignore[arg-type]
    return TensorStructInfo(ShapeExpr(tuple(dims)), dtype, vdevice)  # type: ignore[arg-type]


def check_kind(use: Use, names: Sequence[str], *, floats: bool, integers: bool, bools: bool) -> None:
    """Fail unless elements are of one of the kinds that are asked for. Without kinds, accept all."""
    if not (floats or integers or bools):
        return
    wanted = [
        word
        for word, asked in (("floating point", floats), ("integer", integers), ("bool", bools))
        if asked
    ]
    for name in names:
        dtype = use.tensor(name).dtype
        if not dtype:
            continue
        parsed = parse_dtype(dtype)
        fits = (parsed.is_float and floats) or (parsed.is_int and integers) or (parsed.code == "bool" and bools)
        if not fits:
            use.fail(f"{name} must have {' or '.join(wanted)} elements, got {dtype}")


def broadcast(
    first: str = "x1", second: str = "x2", *, floats: bool = False, integers: bool = False, bools: bool = False,
    dtype: str | None = None,
) -> InferRule:  # fmt: skip
    """The result has the shape that two tensors broadcast to, and their common element type, or `dtype`."""

    def rule(use: Use) -> StructInfo:
        a, b = use.tensor(first), use.tensor(second)
        check_kind(use, (first, second), floats=floats, integers=integers, bools=bools)
        common = use.dtype(first, second)
        result = common if dtype is None else dtype
        device = use.vdevice(first, second)
        if a.dims is None or b.dims is None:
            if a.shape is not None and a.shape is b.shape:
                return TensorStructInfo(a.shape, result, device)
            return tensor(None, result, -1 if -1 in (a.ndim, b.ndim) else max(a.ndim, b.ndim), device)
        shape = broadcast_dims(use, a.dims, b.dims, first, second)
        return tensor(shape, result, max(a.ndim, b.ndim), device)

    return rule


def broadcast_dims(
    use: Use, a: Sequence[PrimExpr], b: Sequence[PrimExpr], first: str, second: str
) -> tuple[PrimExpr, ...] | None:
    """Return the shape that two shapes broadcast to; None where it depends on the sizes.
    Fails if they do not broadcast."""
    found: list[PrimExpr] = []
    decided = True
    long, short = (a, b) if len(a) >= len(b) else (b, a)
    offset = len(long) - len(short)
    for axis, x in enumerate(long):
        if axis < offset:
            found.append(x)
            continue
        y = short[axis - offset]
        one_x, one_y = ops.as_int(x) == 1, ops.as_int(y) == 1
        if one_y or use.same(x, y):
            found.append(x)
        elif one_x:
            found.append(y)
        elif use.differ(x, y) and use.differ(x, int64(1)) and use.differ(y, int64(1)):
            use.fail(
                f"{first} and {second} do not broadcast: dimension {axis - len(long)} is {text(x)} and {text(y)}; "
                f"{first} is {shown(use.info(first))}, {second} is {shown(use.info(second))}"
            )
        else:
            decided = False
    return tuple(found) if decided else None


def broadcast_all(use: Use, names: Sequence[str], dtype: str) -> StructInfo:
    """The result of elementwise work on several tensors that broadcast."""
    infos = [use.tensor(name) for name in names]
    device = use.vdevice(*names)
    ranks = [info.ndim for info in infos]
    rank = -1 if -1 in ranks else max(ranks)
    if any(info.dims is None for info in infos):
        return tensor(None, dtype, rank, device)
    dims: tuple[PrimExpr, ...] | None = infos[0].dims
    for name, info in zip(names[1:], infos[1:]):
        if dims is None or info.dims is None:
            return tensor(None, dtype, rank, device)
        dims = broadcast_dims(use, dims, info.dims, names[0], name)
    return tensor(dims, dtype, rank, device)


def product(use: Use, dims: Sequence[PrimExpr]) -> PrimExpr:
    """The number of elements of a shape."""
    total: PrimExpr = int64(1)
    for size in dims:
        total = total * size
    return use.simplify(total)


def broadcast_dims_to(use: Use, name: str, dims: Sequence[PrimExpr], shape: Sequence[PrimExpr]) -> None:
    """Fail if `dims`, of the argument `name`, certainly do not broadcast to `shape`."""
    for axis, (size, wanted) in enumerate(zip(reversed(dims), reversed(shape)), 1):
        if not use.same(size, int64(1)) and use.differ(size, wanted) and use.differ(size, int64(1)):
            use.fail(
                f"{name} does not broadcast to {shape_text(shape)}: its dimension {-axis} is {text(size)}"
            )
