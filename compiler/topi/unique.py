"""Operators whose number of results depends on the data: unique, argwhere.

Their outputs have the largest size that can be; another output says how many entries hold results.
"""

from __future__ import annotations

from typing import Any

from compiler.te.extern import extern
from compiler.te.operation import compute
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.ir_builder import create
from compiler.tir.nodes import Stmt
from compiler.topi.broadcast import truth
from compiler.topi.checks import need_rank, product, simplified
from compiler.topi.rows import int64, points
from compiler.topi.sort import argsort


def unique(data: Tensor, is_sorted: bool = True, return_counts: bool = False) -> list[Tensor]:
    """The different values of a tensor of one dimension, in ascending order, or as they first occur.

    Returns [values, indices, inverse, num_unique] and, with `return_counts`, counts as the fifth. Of the n entries of
    values, indices (where a value first occurs) and counts the first num_unique[0] hold results; the others hold 0.
    `inverse` says for each element which value it is. Positions and counts are int32.
    """
    need_rank("unique", data, 1)
    size = data.shape[0]
    order = argsort(data, None, 0, True, "int64")

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given, ordered = (ib.buffer_ptr(b) for b in ins)
        values, indices, inverse, number, counts = (ib.buffer_ptr(b) for b in outs)
        found = ib.allocate("int64", (1,), "found")
        first = ib.allocate("int64", (size,), "first")  # for each sorted group, where it first occurs
        slot = ib.allocate("int64", (size,), "slot")  # for each element, its group; then for each group, its place
        place = ib.allocate("int64", (size,), "place")
        count = int64(size)
        zero = ops.const(0, "int64")
        found[0] = -1
        with ib.for_range(zero, count, "i") as i:
            values[i] = 0
            indices[i] = 0
            counts[i] = 0
        with ib.for_range(zero, count, "i") as i:
            here = ordered[i]
            with ib.if_scope(ops.equal(i, 0)):
                found[0] = 0
                first[found[0]] = here
            with ib.else_scope(), ib.if_scope(ops.not_equal(given[here], given[ordered[i - 1]])):
                found[0] = found[0] + 1
                first[found[0]] = here
            slot[here] = found[0]
        if is_sorted:
            with ib.for_range(zero, ops.add(found[0], 1), "g") as g:
                place[g] = g
        else:
            # Groups take places in the order of their first elements.
            number[0] = 0
            with ib.for_range(zero, count, "i") as i, ib.if_scope(ops.equal(first[slot[i]], i)):
                place[slot[i]] = int64(number[0])
                number[0] = number[0] + 1
        with ib.for_range(zero, ops.add(found[0], 1), "g") as g:
            values[place[g]] = given[first[g]]
            indices[place[g]] = first[g].astype("int32")
        with ib.for_range(zero, count, "i") as i:
            inverse[i] = place[slot[i]].astype("int32")
            counts[inverse[i]] = counts[inverse[i]] + 1
        number[0] = ops.add(found[0], 1).astype("int32")
        return ib.get()

    shapes = [(size,), (size,), (size,), (ops.const(1),), (size,)]
    dtypes = [data.dtype, "int32", "int32", "int32", "int32"]
    made: list[Tensor] = extern(shapes, [data, order], body, name="T_unique", dtype=dtypes, tag="unique")
    if return_counts:
        return made
    return made[:4]


def nonzero(data: Tensor, dtype: str = "int64") -> list[Tensor]:
    """The points of the elements that are not zero, in row-major order.

    Returns [points, count]: `points` is (rank, n) with n elements in `data`; its first count[0] columns hold results,
    the others 0.
    """
    size = simplified(product(data.shape))
    rank = max(data.ndim, 1)

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given, where, number = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0]), ib.buffer_ptr(outs[1])
        with points(ib, [ops.const(rank), size]) as point:
            where[point] = 0
        number[0] = 0
        with points(ib, data.shape) as point, ib.if_scope(truth(given[point if point else (0,)])):
            for d, index in enumerate(point if point else (ops.const(0),)):
                where[d, number[0]] = ops.cast(dtype, index)
            number[0] = number[0] + 1
        return ib.get()

    shapes = [(ops.const(rank), size), (ops.const(1),)]
    made: list[Tensor] = extern(shapes, [data], body, name="T_nonzero", dtype=[dtype, "int64"], tag="nonzero")
    return made


def argwhere(condition: Tensor, dtype: str = "int64") -> list[Tensor]:
    """`nonzero` with a row a point: returns [points (n, rank), count]."""
    found, count = nonzero(condition, dtype)
    turned: Tensor = compute(
        [found.shape[1], found.shape[0]], lambda i, d: found(d, i), name="T_argwhere", tag="injective"
    )
    return [turned, count]
