"""Products of one value with several constants become one product."""

from __future__ import annotations

import math
from collections.abc import Sequence

from compiler.dtype import parse_dtype
from compiler.ir.base import Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax.nodes import Call, Constant, DataflowBlock, TensorStructInfo, Var, info_of
from compiler.relax.transform.fold_constant import is_left_unfolded
from compiler.relax.transform.matmul.combine_parallel_matmul import Combiner, MatmulBranch
from compiler.relax.transform.passes import relax_pass
from compiler.tir import nodes as n

_MOVES = ("relax.reshape", "relax.permute_dims", "relax.split", "relax.strided_slice", "relax.nn.attention")


@relax_pass("CombineConstantMatmul", over="block", opt_level=1)
def combine_constant_matmul(block: DataflowBlock, mod: IRModule, context: PassContext) -> DataflowBlock:
    """Compute products of one value with constants as one product, with the constants side by side.

    lv = R.matmul(x, A)    →    lv = R.matmul(x, R.concat((A, B), axis=1))    # the concat is computed by the build
    lv1 = R.matmul(x, B)        lv1 = R.split(lv, [columns of A], axis=1)

    Otherwise as `CombineParallelMatmul`. Two products stay apart if more is computed of them element by element, which
    becomes part of their kernels. So do products whose matrices `FoldConstant` leaves narrow.
    """
    return Combiner(block, _Uses(block).accept).made()


class _Uses:
    def __init__(self, block: DataflowBlock) -> None:
        self._users: dict[Var, list[RelaxExpr]] = {}
        for binding in block.bindings:
            for node in dict.fromkeys(walk(binding.value)):
                if isinstance(node, Var):
                    self._users.setdefault(node, []).append(binding.value)
        self._known: set[Var] = set()
        for binding in block.bindings:
            if all(node in self._known for node in walk(binding.value) if isinstance(node, Var)):
                self._known.add(binding.var)

    def accept(self, left: Var, branches: Sequence[MatmulBranch], values: dict[Var, RelaxExpr]) -> bool:
        """Whether products are with constants, and are three or only moved about afterwards."""
        parts = [part for branch in branches for part in (branch.matrix, branch.bias) if part is not None]
        known = all(part in self._known for part in parts if isinstance(part, Var))
        known = known and not any(_is_unpacked(branch.matrix, values) for branch in branches)
        return known and (len(branches) > 2 or all(self._is_moved(branch.last) for branch in branches))

    def _is_moved(self, var: Var) -> bool:
        users = self._users.get(var, [])
        return bool(users) and all(
            isinstance(user, Call) and isinstance(user.op, Op) and user.op.name in _MOVES for user in users
        )


def _is_unpacked(matrix: RelaxExpr, values: dict[Var, RelaxExpr]) -> bool:
    """Whether a matrix is made at each run, from constants much smaller than it."""
    made = values.get(matrix) if isinstance(matrix, Var) else None
    info = info_of(matrix)
    if not isinstance(made, Call) or not isinstance(info, TensorStructInfo):
        return False
    sizes = [dim.value for dim in info.dims or () if isinstance(dim, n.IntImm)]
    constants = [node for node in walk(made) if isinstance(node, Constant)]
    size = math.prod(sizes) * parse_dtype(info.dtype).bytes
    return bool(constants) and is_left_unfolded(size, constants)
