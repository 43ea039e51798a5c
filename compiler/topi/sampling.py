"""Drawing from distributions that tensors hold."""

from __future__ import annotations

from typing import Any

from compiler.te.extern import extern
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.ir_builder import create
from compiler.tir.nodes import Stmt
from compiler.topi.checks import described, differ, need_floats, need_integers, need_rank, refusal
from compiler.topi.rows import int64, rows

_LINE = 16  # floats in a cache line, so that rows of different threads share none


def multinomial_from_uniform(prob: Tensor, uniform: Tensor, which: Tensor, dtype: str = "int64") -> Tensor:
    """Draw an entry of a row of `prob` for each number of `uniform` (n, 1), which is from 0 to below 1.

    Number i draws from row `which[i, 0]` of `prob` (rows, entries): the first entry up to which the probabilities sum
    to more than the number, the last one where none does. Gives (n, 1) of `dtype`.
    """
    op = "multinomial_from_uniform"
    need_floats(op, prob, uniform)
    need_integers(op, which)
    for tensor in (prob, uniform, which):
        need_rank(op, tensor, 2)
    if differ(uniform.shape[1], 1) or differ(which.shape[1], 1) or differ(uniform.shape[0], which.shape[0]):
        raise refusal(op, f"shapes do not fit: {described(prob, uniform, which)}")
    entries = prob.shape[1]
    wide = "float64" if prob.dtype == "float64" else "float32"

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        share, number, row_of = (ib.buffer_ptr(b) for b in ins)
        drawn = ib.buffer_ptr(outs[0])
        sums = ib.allocate(wide, (uniform.shape[0], _LINE), "sums")
        with rows(ib, (uniform.shape[0], ops.const(1)), 1, 1) as row:
            i = row.at(0)[0]
            (found,) = row.cells
            found.set(0)
            sums[i, 0] = ops.const(0.0, wide)
            given = ib.let("given", number[i, 0].astype(wide))
            inside = ops.minimum(int64(row_of[i, 0]), ops.sub(int64(prob.shape[0]), 1))
            source = ib.let("source", ops.maximum(inside, int64(0)))
            with ib.for_range(ops.const(0, "int64"), int64(entries), "k") as k:
                sums[i, 0] = sums[i, 0] + share[source, k].astype(wide)
                found.set(found.value + intrin.select(ops.less_equal(sums[i, 0], given), int64(1), int64(0)))
            last = ops.sub(int64(entries), 1)
            drawn[i, 0] = ops.cast(dtype, ops.minimum(found.value, last))
        return ib.get()

    made: Tensor = extern((uniform.shape[0], ops.const(1)), [prob, uniform, which], body, name=op, dtype=dtype,
                          tag="sampling")  # fmt: skip
    return made
