"""Operators that make one tensor of several, or several of one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from compiler import topi
from compiler.relax.nodes import Expr, StructInfo, TensorStructInfo, TupleStructInfo
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.layout import (
    LayoutResult,
    LayoutUse,
    as_written,
    fields_follow,
    follows_with_axis,
    with_dimensions,
)
from compiler.relax.op.core.params import TensorArg, TensorsArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import tensor
from compiler.relax.op.core.use import Use, shown
from compiler.relax.op.core.work import nothing
from compiler.relax.op.gradients import movement as slopes
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

__all__ = ["concat", "meshgrid", "split", "stack"]


def _common(use: Use, infos: Sequence[TensorStructInfo], name: str) -> tuple[str, int]:
    """The element type and the number of dimensions that the tensors have in common."""
    if not infos:
        use.fail(f"{name} is empty")
    dtypes = {info.dtype for info in infos if info.dtype}
    if len(dtypes) > 1:
        use.fail(f"the element types of {name} differ: {', '.join(sorted(dtypes))}")
    ranks = {info.ndim for info in infos if info.ndim != -1}
    if len(ranks) > 1:
        use.fail(f"{name} have different numbers of dimensions: {', '.join(map(shown, infos))}")
    dtype = dtypes.pop() if dtypes and all(info.dtype for info in infos) else ""
    return dtype, ranks.pop() if ranks else -1


def _concat_info(use: Use) -> StructInfo:
    infos, axis = use.tensors("tensors"), use.call.attrs["axis"]
    dtype, rank = _common(use, infos, "tensors")
    if axis is None:
        if rank not in (-1, 1):
            use.fail(f"axis is None, but tensors have {rank} dimensions")
        axis, rank = 0, 1
    if rank == -1:
        return tensor(None, dtype, -1, infos[0].vdevice)
    axis = use.axis(axis, rank)
    known = [info.dims for info in infos if info.dims is not None]
    for first, other in pairwise(known):
        for d, (a, b) in enumerate(zip(first, other)):
            if d != axis and use.differ(a, b):
                use.fail(f"tensors differ in dimension {d}: {', '.join(map(shown, infos))}")
    if len(known) != len(infos):
        return tensor(None, dtype, rank, infos[0].vdevice)
    total: PrimExpr = int64(0)
    for dims in known:
        total = total + dims[axis]
    joined = [use.simplify(total) if d == axis else size for d, size in enumerate(known[0])]
    return tensor(joined, dtype, vdevice=infos[0].vdevice)


def _concat_layout(use: LayoutUse) -> LayoutResult:
    chosen, axis = fields_follow(use), use.call.attrs["axis"]
    if chosen is None or axis is None:
        return as_written(use)
    count = len(use.inputs[0])  # type: ignore[arg-type]
    return LayoutResult(((chosen,) * count,), (chosen,), {"axis": chosen.axis(axis)})


@operator(
    "relax.concat", infer=_concat_info, te=lambda tensors, axis: topi.concatenate(tensors, 0 if axis is None else axis),
    pattern=OpPatternKind.INJECTIVE, flops=nothing, layout=_concat_layout, gradient=slopes.concat,
)  # fmt: skip
def concat(tensors: TensorsArg, axis: int | None = 0) -> Expr:
    """Put tensors one after another along `axis`."""


def _stack_info(use: Use) -> StructInfo:
    infos = use.tensors("tensors")
    dtype, rank = _common(use, infos, "tensors")
    if rank == -1:
        return tensor(None, dtype, -1, infos[0].vdevice)
    axis = use.axis(use.call.attrs["axis"], rank + 1)
    known = [info.dims for info in infos if info.dims is not None]
    for first, other in pairwise(known):
        if any(use.differ(a, b) for a, b in zip(first, other)):
            use.fail(f"tensors differ in shape: {', '.join(map(shown, infos))}")
    if not known:
        return tensor(None, dtype, rank + 1, infos[0].vdevice)
    dims = [*known[0][:axis], int64(len(infos)), *known[0][axis:]]
    return tensor(dims, dtype, vdevice=infos[0].vdevice)


def _stack_layout(use: LayoutUse) -> LayoutResult:
    chosen = fields_follow(use)
    if chosen is None:
        return as_written(use)
    axis = use.call.attrs["axis"] % (chosen.ndim + 1)
    count = len(use.inputs[0])  # type: ignore[arg-type]
    return LayoutResult(((chosen,) * count,), (with_dimensions(chosen, [axis]),), {"axis": axis})


@operator(
    "relax.stack", infer=_stack_info, te=topi.stack, pattern=OpPatternKind.INJECTIVE, flops=nothing,
    layout=_stack_layout, gradient=slopes.stack,
)  # fmt: skip
def stack(tensors: TensorsArg, axis: int = 0) -> Expr:
    """Put tensors of one shape beside each other along a new dimension `axis`."""


def _split_info(use: Use) -> StructInfo:
    data, attrs = use.tensor("x"), use.call.attrs
    parts, axis = attrs["indices_or_sections"], attrs["axis"]
    count = parts if isinstance(parts, int) else len(parts) + 1
    if isinstance(parts, int) and parts < 1:
        use.fail(f"indices_or_sections is {parts}, it must be positive")
    if data.ndim != -1:
        axis = use.axis(axis, data.ndim)
    if data.dims is None:
        return TupleStructInfo((tensor(None, data.dtype, data.ndim, data.vdevice),) * count)
    size = data.dims[axis]
    sizes: list[PrimExpr]
    if isinstance(parts, int):
        each = use.simplify(ops.floordiv(size + (parts - 1), parts))
        sizes = [each] * (parts - 1) + [use.simplify(size - each * (parts - 1))]
        known = ops.as_int(sizes[-1])
        if known is not None and known < 0:
            use.fail(f"dimension {axis} cannot be split in {parts} parts: {shown(data)}")
        if ops.as_int(size) is None:
            sizes = [use.simplify(ops.floordiv(size, parts))] * parts
    else:
        cuts = [int64(0), *(int64(p) if isinstance(p, int) else p for p in parts), size]
        sizes = [use.simplify(b - a) for a, b in pairwise(cuts)]
        if any((ops.as_int(s) or 0) < 0 for s in sizes):
            use.fail(f"the indices {tuple(parts)} do not ascend within dimension {axis}: {shown(data)}")
    fields = [[s if d == axis else old for d, old in enumerate(data.dims)] for s in sizes]
    return TupleStructInfo(tuple(tensor(dims, data.dtype, vdevice=data.vdevice) for dims in fields))


def _split(x: Tensor, indices_or_sections: Any, axis: int) -> list[Tensor]:
    size = ops.as_int(x.shape[axis])
    if isinstance(indices_or_sections, int) and size is not None and size % indices_or_sections:
        each = -(-size // indices_or_sections)
        indices_or_sections = [each * n for n in range(1, indices_or_sections)]
    return topi.split(x, indices_or_sections, axis)


@operator(
    "relax.split", infer=_split_info, te=_split, pattern=OpPatternKind.INJECTIVE, flops=nothing,
    layout=follows_with_axis("axis"), gradient=slopes.split,
)  # fmt: skip
def split(x: TensorArg, indices_or_sections: Any, axis: int = 0) -> Expr:
    """Cut `x` along `axis` into that many parts, or before each of those indices.

    Parts are equal, the last one smaller where they cannot be. A symbolic dimension is taken to be divisible.
    """


def _meshgrid_info(use: Use) -> StructInfo:
    infos, indexing = use.tensors("tensors"), use.call.attrs["indexing"]
    dtype, _ = _common(use, [tensor(None, info.dtype) for info in infos], "tensors")
    if indexing not in (None, "ij", "xy"):
        use.fail(f"indexing is {indexing!r}, it must be 'ij' or 'xy'")
    sizes: list[PrimExpr | None] = []
    for info in infos:
        if info.ndim not in (-1, 0, 1):
            use.fail(f"tensors must have one dimension, got {shown(info)}")
        sizes.append(None if info.dims is None else info.dims[0] if info.dims else int64(1))
    if indexing == "xy" and len(sizes) > 1:
        sizes[0], sizes[1] = sizes[1], sizes[0]
    known = [size for size in sizes if size is not None]
    field = tensor(known if len(known) == len(sizes) else None, dtype, len(sizes), infos[0].vdevice)
    return TupleStructInfo((field,) * len(infos))


@operator(
    "relax.meshgrid", infer=_meshgrid_info, te=lambda tensors, indexing: topi.meshgrid(tensors, indexing or "ij"),
    pattern=OpPatternKind.BROADCAST, flops=nothing, layout=as_written, gradient=slopes.meshgrid,
)  # fmt: skip
def meshgrid(tensors: TensorsArg, indexing: str | None = "ij") -> Expr:
    """Repeat each of several vectors along the dimensions of the others.

    With `indexing` "xy" the first two dimensions change places.
    """
