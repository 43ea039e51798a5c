"""Kernels that concatenate arrays, and where their arguments can lie so that nothing is copied."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic, TypeVar

from compiler.dtype import parse_dtype
from compiler.ir.base import Op
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr
from compiler.tir.ops import as_int

JOINED_PARTS = "relax.joined_parts"
"""The attribute of a kernel that lays its arguments one behind the other: the bytes of each, in order."""
Key = TypeVar("Key", bound=Hashable)


def joined_parts(func: n.PrimFunc) -> tuple[int, ...] | None:
    """Return the bytes of each argument of a kernel that concatenates them; None for other kernels.

    The arguments are in order. The axes before the joined one must have size 1, and sizes must be constants.
    """
    buffers = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
    blocks = [node for node in walk(func.body) if isinstance(node, n.Block) and node.iter_vars]
    stores = [node for node in walk(func.body) if isinstance(node, n.BufferStore)]
    if len(buffers) < 3 or len(buffers) != len(func.params) or len(blocks) != 1 or len(stores) != 1:
        return None
    store, (*sources, target) = stores[0], buffers
    axes = [axis.var for axis in blocks[0].iter_vars]
    shapes = [_shape(buffer) for buffer in buffers]
    whole = shapes[-1]
    if store.buffer is not target or list(store.indices) != axes or whole is None:
        return None
    axis = next((dim for dim, size in enumerate(whole) if size != 1), None)
    if axis is None or parse_dtype(target.dtype).bits % 8:
        return None
    starts = _starts(store.value, axes, axis, sources)
    sizes: list[int] = []
    for source, shape in zip(sources, shapes):
        fits = shape is not None and source.dtype == target.dtype and (*shape[:axis], *shape[axis + 1 :]) == (
            *whole[:axis], *whole[axis + 1 :],
        )  # fmt: skip
        if not fits or starts.get(source) != sum(sizes):
            return None
        assert shape is not None
        sizes.append(shape[axis])
    if sum(sizes) != whole[axis]:
        return None
    row = prod(whole[axis + 1 :]) * parse_dtype(target.dtype).bytes
    return tuple([size * row for size in sizes])


def _starts(value: PrimExpr, axes: Sequence[n.Var], axis: int, sources: Sequence[n.Buffer]) -> dict[n.Buffer, int]:
    """Return where each source begins along the axis, by the conditions that choose among them.
    Empty for other conditions."""
    found: dict[n.Buffer, int] = {}
    while True:
        start, chosen, rest = 0, value, None
        match value:
            case n.Call(op=Op(name="tir.if_then_else"), args=(n.GE(a=n.Var() as along, b=bound), yes, no)):
                known = as_int(bound)
                if along is not axes[axis] or known is None:
                    return {}
                start, chosen, rest = known, yes, no
        if not isinstance(chosen, n.BufferLoad) or chosen.buffer in found or chosen.buffer not in sources:
            return {}
        if not all(_is_at(i, var, start * (d == axis)) for d, (i, var) in enumerate(zip(chosen.indices, axes))):
            return {}
        found[chosen.buffer] = start
        if rest is None:
            return found
        value = rest


def _is_at(index: PrimExpr, var: n.Var, start: int) -> bool:
    """Whether `index` is `var - start`."""
    match index:
        case n.Var():
            return index is var and start == 0
        case n.Sub(a=n.Var() as moved, b=by):
            return moved is var and as_int(by) == start
    return False


def _shape(buffer: n.Buffer) -> tuple[int, ...] | None:
    sizes = [as_int(size) for size in buffer.shape]
    return None if buffer.strides or None in sizes else tuple([size for size in sizes if size is not None])


@dataclass(frozen=True, slots=True)
class Join(Generic[Key]):
    """An array `whole` that consists of `parts`, of `sizes` bytes, end to end."""

    whole: Key
    parts: tuple[Key, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlaceInArray(Generic[Key]):
    """A place in the memory of the array `within`, `offset` bytes behind its beginning."""

    within: Key
    offset: int


def place_parts(joins: Sequence[Join[Key]]) -> tuple[dict[Key, PlaceInArray[Key]], list[Join[Key]]]:
    """Place arrays so that joins have nothing to copy. Return the places, and the joins that copy nothing.

    An array lies in one place only, so of two joins that share parts one may still copy. Neither copies if the parts of
    one follow each other in the other, as in layers that read the results of all earlier layers.
    """
    places: dict[Key, PlaceInArray[Key]] = {}
    kept: list[Join[Key]] = []
    for join in sorted(joins, key=lambda join: -sum(join.sizes)):
        if len({join.whole, *join.parts}) != 1 + len(join.parts):
            continue
        offsets = [sum(join.sizes[:i]) for i in range(len(join.sizes))]
        there = [places.get(part) for part in join.parts]
        if not any(there):
            begin = places.setdefault(join.whole, PlaceInArray(join.whole, 0))
            for part, offset in zip(join.parts, offsets):
                places[part] = PlaceInArray(begin.within, begin.offset + offset)
        else:
            first = there[0]
            if first is None or join.whole in places:
                continue
            if there != [PlaceInArray(first.within, first.offset + offset) for offset in offsets]:
                continue
            places[join.whole] = first
        kept.append(join)
    return places, kept
