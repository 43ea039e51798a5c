"""Kernels that only ONNX's operators need, as te functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from compiler.te.extern import extern
from compiler.te.operation import compute
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.ir_builder import create
from compiler.tir.nodes import PrimExpr, Select, Stmt
from compiler.topi.rows import int64, points


def elements(shape: Any, element: Callable[..., Any], name: str) -> Tensor:
    """The tensor whose element at a place is `element(place)`."""
    made: Tensor = compute(shape, element, name=name)
    return made


def determinant(x: Tensor) -> Tensor:
    """The determinants of square matrices, by elimination with the largest pivot."""
    size, outer = x.shape[-1], list(x.shape[:-2])

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        work = ib.allocate(x.dtype, (size, size), "work")
        best = ib.allocate("int64", (1,), "best")
        value = ib.allocate(x.dtype, (1,), "value")
        with points(ib, outer) as place:
            at = place or (0,)
            with points(ib, (size, size)) as (i, j):
                work[i, j] = given[(*place, i, j)]
            value[0] = ops.const(1, x.dtype)
            with ib.for_range(ops.const(0, "int64"), int64(size), "k") as k:
                best[0] = k
                with ib.for_range(ops.const(0, "int64"), int64(size) - k - 1, "i") as i:
                    row = k + 1 + i
                    with ib.if_scope(ops.greater(intrin.abs(work[row, k]), intrin.abs(work[best[0], k]))):
                        best[0] = row
                with ib.if_scope(ops.not_equal(best[0], k)):
                    value[0] = ops.const(0, x.dtype) - value[0]
                    with ib.for_range(ops.const(0, "int64"), int64(size), "j") as j:
                        held = ib.allocate(x.dtype, (1,), "held")
                        held[0] = work[k, j]
                        work[k, j] = work[best[0], j]
                        work[best[0], j] = held[0]
                value[0] = value[0] * work[k, k]
                regular = ops.not_equal(work[k, k], ops.const(0, x.dtype))
                with ib.if_scope(regular), ib.for_range(ops.const(0, "int64"), int64(size) - k - 1, "i") as i:
                    factor = ib.let("factor", work[k + 1 + i, k] / work[k, k])
                    with ib.for_range(ops.const(0, "int64"), int64(size) - k, "j") as j:
                        work[k + 1 + i, k + j] = work[k + 1 + i, k + j] - factor * work[k, k + j]
            out[at] = value[0]
        return ib.get()

    made: list[Tensor] = extern([tuple(outer)], [x], body, name="determinant", dtype=x.dtype)
    return made[0]


def max_pool_places(
    x: Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int],
    sizes: Sequence[Any], order: int,
) -> list[Tensor]:  # fmt: skip
    """Return the largest element of each window and its place in the flat tensor.
    `order` 1 counts columns first."""
    shape = (*x.shape[:2], *sizes)

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given = ib.buffer_ptr(ins[0])
        values, places = (ib.buffer_ptr(b) for b in outs)
        with points(ib, [ops.as_expr(s) for s in shape]) as i:
            values[i] = ops.min_value(x.dtype)
            places[i] = ops.const(0, "int64")
            with points(ib, [ops.const(extent, "int64") for extent in kernel]) as taps:
                at = [
                    int64(i[2 + d]) * strides[d] + tap * dilations[d] - pads[d] for d, tap in enumerate(taps)
                ]  # fmt: skip
                inside = ops.const(True, "bool")
                for d, place in enumerate(at):
                    fits = ops.logical_and(ops.greater_equal(place, int64(0)), ops.less(place, int64(x.shape[2 + d])))
                    inside = ops.logical_and(inside, fits)
                with ib.if_scope(inside), ExitStack() as stack:
                    number = ib.let("number", given[(i[0], i[1], *at)])
                    stack.enter_context(ib.if_scope(ops.greater(number, values[i])))
                    values[i] = number
                    flat: PrimExpr = int64(i[0]) * int64(x.shape[1]) + int64(i[1])
                    image = list(zip(at, x.shape[2:]))
                    for _, size in image:
                        flat = flat * int64(size)
                    inner: PrimExpr = ops.const(0, "int64")
                    for place, size in reversed(image) if order else image:
                        inner = inner * int64(size) + place
                    places[i] = flat + inner
        return ib.get()

    made: list[Tensor] = extern([shape, shape], [x], body, name="max_pool_places", dtype=[x.dtype, "int64"])
    return made


def unpooled(x: Tensor, places: Tensor, own: Sequence[Any], sizes: Sequence[Any]) -> Tensor:
    """Return elements at their places in a flat tensor of shape `own`, laid into one of shape `sizes`."""

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given, where, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
        with points(ib, [ops.as_expr(s) for s in sizes]) as i:
            out[i] = ops.const(0, x.dtype)
        with points(ib, x.shape) as i:
            rest = int64(where[i])
            at: list[PrimExpr] = []
            for size in reversed(own):
                at.insert(0, ops.floormod(rest, int64(size)))
                rest = ops.floordiv(rest, int64(size))
            inside = ops.equal(rest, int64(0))
            for place, size in zip(at, sizes):
                inside = ops.logical_and(inside, ops.less(place, int64(size)))
            with ib.if_scope(inside):
                out[tuple(at)] = given[i]
        return ib.get()

    made: list[Tensor] = extern([tuple(sizes)], [x, places], body, name="unpooled", dtype=x.dtype)
    return made[0]


def deformable_taps(
    x: Tensor, offset: Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    pads: Sequence[int], groups: int, *mask: Tensor,
) -> Tensor:  # fmt: skip
    """Return what a deformable convolution's filters see: (batch, channels, taps, height, width).
    It is read bilinearly."""
    batch, channels, height, width = x.shape
    rows, columns = kernel
    taps = rows * columns
    each = -(-int(ops.as_int(channels) or 1) // groups)

    def at(n: PrimExpr, c: PrimExpr, k: PrimExpr, i: PrimExpr, j: PrimExpr) -> PrimExpr:
        group = ops.floordiv(c, each)
        entry = (group * taps + k) * 2
        y = (i * strides[0] + ops.floordiv(k, columns) * dilations[0] - pads[0]).astype(x.dtype)
        y = y + offset(n, entry, i, j)
        z = (j * strides[1] + ops.floormod(k, columns) * dilations[1] - pads[1]).astype(x.dtype)
        z = z + offset(n, entry + 1, i, j)
        top, left = intrin.floor(y), intrin.floor(z)

        def corner(row: PrimExpr, column: PrimExpr, weight: PrimExpr) -> PrimExpr:
            r, s = row.astype("int64"), column.astype("int64")
            inside = ops.logical_and(
                ops.logical_and(ops.greater_equal(r, int64(0)), ops.less(r, int64(height))),
                ops.logical_and(ops.greater_equal(s, int64(0)), ops.less(s, int64(width))),
            )
            return intrin.if_then_else(inside, x(n, c, r, s) * weight, ops.const(0, x.dtype))

        one = ops.const(1, x.dtype)
        fy, fz = y - top, z - left
        value = (
            corner(top, left, (one - fy) * (one - fz)) + corner(top, left + one, (one - fy) * fz)
            + corner(top + one, left, fy * (one - fz)) + corner(top + one, left + one, fy * fz)
        )  # fmt: skip
        return value * mask[0](n, group * taps + k, i, j) if mask else value

    shape = (batch, channels, taps, offset.shape[2], offset.shape[3])
    return elements(shape, at, name="deformable_taps")


def compacted(flags: Tensor) -> list[Tensor]:
    """The positions of elements of a vector that are true, in order, and how many there are."""
    size = flags.shape[0]

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given, found, count = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0]), ib.buffer_ptr(outs[1])
        count[0] = ops.const(0, "int64")
        with ib.for_range(ops.const(0, "int64"), int64(size), "i") as i:
            found[i] = ops.const(0, "int64")
            with ib.if_scope(given[i]):
                found[count[0]] = i
                count[0] = count[0] + 1
        return ib.get()

    made: list[Tensor] = extern(
        [(size,), (1,)], [flags], body, name="compacted", dtype=["int64", "int64"]
    )  # fmt: skip
    return made


def distinct(x: Tensor, ordered: bool) -> list[Tensor]:
    """Return the distinct rows of a matrix.

    That is: their first places, their counts, the group of each row, and how many there are. `ordered` ones come in
    ascending order, compared element by element; others as they first occur.
    """
    count, width = x.shape

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given = ib.buffer_ptr(ins[0])
        first, counts, group, total = (ib.buffer_ptr(b) for b in outs)
        order = ib.allocate("int64", (1,), "order")
        total[0] = ops.const(0, "int64")

        def compare(a: Any, b: Any) -> None:
            """Compare rows: -1, 0 or 1 in `order`, as row `a` comes before, equals or comes after row `b`."""
            order[0] = ops.const(0, "int64")
            with ib.for_range(ops.const(0, "int64"), int64(width), "j") as j:
                with ib.if_scope(ops.logical_and(ops.equal(order[0], int64(0)), ops.less(given[a, j], given[b, j]))):
                    order[0] = ops.const(-1, "int64")
                with ib.if_scope(ops.logical_and(ops.equal(order[0], int64(0)), ops.greater(given[a, j], given[b, j]))):
                    order[0] = ops.const(1, "int64")

        with ib.for_range(ops.const(0, "int64"), int64(count), "i") as i:
            first[i] = ops.const(0, "int64")
            counts[i] = ops.const(0, "int64")
        with ib.for_range(ops.const(0, "int64"), int64(count), "i") as i:
            group[i] = ops.const(-1, "int64")
            have = ib.let("have", total[0])
            with ib.for_range(ops.const(0, "int64"), have, "k") as k, ib.if_scope(ops.less(group[i], int64(0))):
                compare(i, first[k])
                with ib.if_scope(ops.equal(order[0], int64(0))):
                    group[i] = k
                    counts[k] = counts[k] + 1
            with ib.if_scope(ops.less(group[i], int64(0))):
                place = ib.allocate("int64", (1,), "place")
                place[0] = have
                if ordered:
                    with ib.for_range(ops.const(0, "int64"), have, "k") as k:
                        compare(first[k], i)
                        open_ = ops.equal(place[0], have)
                        with ib.if_scope(ops.logical_and(ops.greater(order[0], int64(0)), open_)):
                            place[0] = k
                    moved = ib.let("moved", have - place[0])
                    with ib.for_range(ops.const(0, "int64"), moved, "k") as k:
                        back = have - k
                        first[back] = first[back - 1]
                        counts[back] = counts[back - 1]
                    with (
                        ib.for_range(ops.const(0, "int64"), i, "k") as k,
                        ib.if_scope(ops.greater_equal(group[k], place[0])),
                    ):
                        group[k] = group[k] + 1
                first[place[0]] = i
                counts[place[0]] = ops.const(1, "int64")
                group[i] = place[0]
                total[0] = have + 1
        return ib.get()

    made: list[Tensor] = extern(
        [(count,), (count,), (count,), (1,)], [x], body, name="distinct", dtype=["int64"] * 4
    )  # fmt: skip
    return made


def leading(x: Tensor, count: Any) -> Tensor:
    """The first `count` rows."""
    return elements((count, *x.shape[1:]), lambda *i: x(*i), name="leading")


def clamped(value: PrimExpr, size: Any) -> PrimExpr:
    """A place kept inside of `size`."""
    extent = int64(size)
    return Select(ops.less(value, int64(0)), int64(0), ops.minimum(value, extent - 1))
