"""Store the sums of a product from the registers of a warp's threads, as pairs of neighbours along n."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.tensorcore.warp_fetch import axes_at
from compiler.tensorcore.warp_form import WarpProduct, flat
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.visit import seq, substitute


@dataclass(frozen=True)
class Results:
    """The results of blocks that compute `tile` (rows, columns) of a product, in one of its batches.

    `sums`: a thread's.
    """

    product: WarpProduct
    batch: Mapping[n.Var, PrimExpr]
    sums: n.Buffer
    tile: tuple[int, int]

    def row(self, row: PrimExpr, pairs: list[tuple[PrimExpr, int]]) -> Stmt:
        """Return pairs of a row: columns 2 p and the next.
        Their sums are number `first` and the next, of each (p, first)."""
        stored = seq(*(self._pair(row, pair, first) for pair, first in pairs))
        return _where(row, self.product.sizes[1], self.tile[0], stored)

    def _pair(self, row: PrimExpr, pair: PrimExpr, first: int) -> Stmt:
        size, tile, column = self.product.sizes[2], self.tile[1], pair * 2
        if not self.product.paired:
            parts = [(column + e, axes_at(self.product.n, column + e), ops.const(first + e)) for e in range(2)]
            return seq(*(_where(at, size, tile, self._result(row, axes, total)) for at, axes, total in parts))
        *outer, last = self.product.n
        lane = n.Var("lane", "int32")
        pairs = replace(last, extent=last.extent // 2)  # seen to be even, so that both are stored at once
        axes = axes_at((*outer, pairs), pair)
        axes[last.var] = axes[last.var] * 2 + lane
        stored = self._result(row, axes, lane + first)
        return _where(column, size, tile, n.For(lane, ops.const(0), ops.const(2), ForKind.VECTORIZED, stored))

    def _result(self, row: PrimExpr, columns: Mapping[n.Var, PrimExpr], total: PrimExpr) -> Stmt:
        product = self.product
        values = {**self.batch, **axes_at(product.m, row), **columns}
        value = substitute(product.value, {**values, product.total: n.BufferLoad(self.sums, (total,))})
        return n.BufferStore(flat(product.out), value, (substitute(product.index, values),))


def _where(number: PrimExpr, size: int, tile: int, body: Stmt) -> Stmt:
    """`body` where `number` is below `size`; asked only where tiles go beyond it."""
    return n.IfThenElse(ops.less(number, size), body) if size % tile else body
