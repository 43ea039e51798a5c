"""Products with sparse matrices."""

from __future__ import annotations

from typing import Any

from compiler.faces.relay.nodes import Tuple, as_expr
from compiler.faces.relay.op.values import rank
from compiler.faces.relay.table import OPERATORS, In, operator
from compiler.relax.block_builder import BlockBuilder
from compiler.te.extern import extern
from compiler.te.tensor import Tensor
from compiler.tir.ir_builder import create
from compiler.tir.nodes import Stmt


@operator("nn.sparse_dense")
def sparse_dense(dense_mat: In, data: In, indices: In, indptr: In, sparse_lhs: bool = False) -> Any:
    """Multiply a dense matrix by the transpose of a sparse one, in rows (CSR) or blocks of rows (BSR).

    With `sparse_lhs`, of the sparse matrix and the transpose of the dense one.
    """
    builder = BlockBuilder.current()
    assert builder is not None
    blocks = rank(data, "sparse_dense") == 3
    return builder.call_te(_product, dense_mat, data, indices, indptr, blocks, sparse_lhs)


def _product(dense: Tensor, data: Tensor, indices: Tensor, indptr: Tensor, blocks: bool, turned: bool) -> Tensor:
    rows = dense.shape[0]
    height, width = (data.shape[1], data.shape[2]) if blocks else (1, 1)
    groups = indptr.shape[0] - 1
    columns = groups * height
    shape = (columns, rows) if turned else (rows, columns)

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given, values, places, starts = (ib.buffer_ptr(b) for b in ins)
        result = ib.buffer_ptr(outs[0])
        total = ib.allocate(dense.dtype, (1,), "total")
        loops = ib.for_range
        with loops(0, rows, "i") as i, loops(0, groups, "group") as group, loops(0, height, "inner") as inner:
            total[0] = 0
            first = starts[group]
            with loops(0, starts[group + 1] - first, "k") as k, loops(0, width, "j") as j:
                value = values[first + k, inner, j] if blocks else values[first + k]
                total[0] = total[0] + given[i, places[first + k] * width + j] * value
            column = group * height + inner
            if turned:
                result[column, i] = total[0]
            else:
                result[i, column] = total[0]
        return ib.get()

    made: Tensor = extern(shape, [dense, data, indices, indptr], body, name="sparse_dense", dtype=dense.dtype)
    return made


def sparse_dense_of(dense_mat: Any, sparse_mat: Any, sparse_lhs: bool = False) -> Any:
    """Multiply `dense_mat` by the transpose of a sparse matrix; with `sparse_lhs`, the other way round.

    `sparse_mat` is a tuple (`data`, `indices`, `indptr`), or has these as attributes, as scipy's matrices do.
    """
    if hasattr(sparse_mat, "indptr"):
        sparse_mat = sparse_mat.data, sparse_mat.indices, sparse_mat.indptr
    parts = sparse_mat.fields if isinstance(sparse_mat, Tuple) else sparse_mat
    data, indices, indptr = map(as_expr, parts)
    return OPERATORS["nn.sparse_dense"].make(dense_mat, data, indices, indptr, sparse_lhs)
