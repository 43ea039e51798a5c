"""N-grams: how often pieces of sequences of integers occur."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.relax import op
from compiler.te.extern import extern
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.ir_builder import create
from compiler.tir.nodes import Stmt
from compiler.topi.rows import int64, points

MAX_WIDTH = 1 << 24
"""Columns of counts."""
MAX_SKIPS = 1 << 10
"""How far apart the elements of an n-gram may lie."""


@converter("TfIdfVectorizer")
def tf_idf(g: GraphBuilder, node: Node) -> Result:
    """Count, for each n-gram of a pool, how often it occurs in each row, and weigh the counts."""
    x = node.value(0)
    pool = node.ints("pool_int64s")
    if pool is None:
        node.fail("a pool of texts, which tensor programs do not have")
    starts, columns = node.ints("ngram_counts") or [0], node.ints("ngram_indexes") or []
    least, most, skips = (int(node.required(name)) for name in ("min_gram_length", "max_gram_length", "max_skip_count"))
    width = max(columns, default=-1) + 1
    if min(columns, default=0) < 0 or width > MAX_WIDTH or not 0 <= skips <= MAX_SKIPS:
        node.fail(f"columns up to {width - 1}, {skips} skips")
    data, rank = g.expr(x), g.rank(x)
    if x.dtype != "int64":
        data = g.emit(op.astype(data, "int64"))
    if rank < 2:
        data = g.emit(op.reshape(data, (1, -1)))
    total, first = None, 0
    for length, (start, stop) in enumerate(zip(starts, [*starts[1:], len(pool)]), 1):
        count = max(stop - start, 0) // length
        places = columns[first : first + count]
        first += count
        if not count or not least <= length <= most:
            continue
        grams = {tuple(pool[start + k * length :][:length]): places[k] for k in range(count)}
        made = g.te(
            _counts, data, g.known(np.array(list(grams), np.int64)), g.known(np.array(list(grams.values()), np.int64)),
            width, 1 if length == 1 else skips + 1, name="ngrams",
        )  # fmt: skip
        total = made if total is None else g.emit(op.add(total, made))
    if total is None:
        total = g.emit(op.zeros(g.shape_expr([g.shape(data)[0], width]), "float32"))
    mode, weights = node.text("mode", "TF"), node.attr("weights")
    if mode == "IDF":
        total = g.emit(op.minimum(total, g.full(1, "float32")))
    if mode != "TF" and weights:
        total = g.emit(op.multiply(total, g.expr(g.known(np.array(weights, np.float32)[:width]))))
    return op.reshape(total, (width,)) if rank < 2 else total


def _counts(x: Tensor, grams: Tensor, places: Tensor, width: int, skips: int) -> Tensor:
    """How often rows hold each of `grams`, in the column of its place; elements lie 1 to `skips` apart."""
    length = int(ops.as_int(grams.shape[1]) or 1)

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        rows, held, columns = (ib.buffer_ptr(b) for b in ins)
        out = ib.buffer_ptr(outs[0])
        with points(ib, (x.shape[0], ops.const(width))) as place:
            out[place] = ops.const(0, "float32")
        with points(ib, (x.shape[0], ops.const(skips), x.shape[1], grams.shape[0])) as (r, skip, start, k):
            step = int64(skip) + 1
            inside = ops.less(int64(start) + step * (length - 1), int64(x.shape[1]))
            with ib.if_scope(inside):
                same = ops.const(True, "bool")
                for j in range(length):
                    same = ops.logical_and(same, ops.equal(rows[r, int64(start) + step * j], held[k, j]))
                with ib.if_scope(same):
                    out[r, columns[k]] = out[r, columns[k]] + ops.const(1.0, "float32")
        return ib.get()

    made: list[Tensor] = extern([(x.shape[0], width)], [x, grams, places], body, name="ngrams", dtype="float32")
    return made[0]
