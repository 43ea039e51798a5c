"""Compute products of short floating-point numbers in float32, on CPUs without a faster way."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from compiler.ir.base import Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, Function, TensorStructInfo, Var, info_of
from compiler.relax.op.movement.manipulate import astype
from compiler.relax.transform.inference.to_mixed_precision import FULL, SHORT
from compiler.relax.transform.layout.channels_last_narrow import before_cast, is_constant, takes_rows_as_tiles
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.target.cpu_features import multiplies_pairs_fast
from compiler.target.target import Target
from compiler.tir.intrin.amx import TILE, TILE_GROUPS
from compiler.tir.ops import as_int

_MATMUL = "relax.matmul"
_CONVOLUTIONS = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
_FEW_ROWS = 32
"""Of so few rows, what weights take to come from memory counts for more than what it takes to widen them."""


@relax_pass("WidenProducts")
def widen_products(mod: IRModule, context: PassContext) -> IRModule:
    """On CPUs, compute float16 and bfloat16 products that are summed in float32 by float32 arithmetic.

    lv = R.matmul(x, w, out_dtype="float32")    →    x32 = R.astype(x, "float32")
                                                     w32 = R.astype(w, "float32")
                                                     lv = R.matmul(x32, w32)

    Such numbers are float32 whose last bits are zero, and their products are exact there, so only the order of sums
    differs. The conversion becomes part of the kernel before, and of constants. Some products stay: those with
    a parameter of the function, those of few rows, and those of bfloat16 that a CPU multiplies faster in pairs, or in
    whole tiles.
    """
    target = Target.current(allow_none=True)
    if target is None or not target.is_cpu:
        return mod
    cpu = target

    def asked(call: Call) -> bool:
        return _is_short(call) and not _is_fast(call, cpu)

    functions = [func for func in mod.values() if isinstance(func, Function) and func.body is not None]
    if not any(isinstance(node, Call) and asked(node) for func in functions for node in walk(func.body)):
        return mod
    return rewritten(mod, lambda own: _Widen(own, asked, "amx-bf16" in cpu.features))


class _Widen(PyExprMutator):
    def __init__(self, mod: IRModule, asked: Callable[[Call], bool], with_tiles: bool) -> None:
        super().__init__(mod)
        self._asked = asked
        self._with_tiles = with_tiles
        self._params: frozenset[Var] = frozenset()

    def visit_function_(self, op: Function) -> Any:
        if "Primitive" in op.attrs:
            return op
        self._params = frozenset(op.params)
        return super().visit_function_(op)

    def visit_call_(self, op: Call) -> Any:
        made: Any = super().visit_call_(op)
        if not isinstance(made, Call) or not self._asked(made) or any(map(self._is_given, made.args)):
            return made
        if self._has_rows_as_tiles(made):
            return made
        wide = tuple(self.builder_.emit(astype(arg, FULL)) for arg in made.args)
        return Call(made.op, wide, made.attrs, made.sinfo_args, made.span)

    def _has_rows_as_tiles(self, call: Call) -> bool:
        """Whether `ChannelsLastNarrow` makes whole tiles of a convolution by zeros in its filters."""
        if not self._with_tiles or not isinstance(call.op, Op) or call.op.name == _MATMUL:
            return False
        return takes_rows_as_tiles(call) and is_constant(self, call.args[1])

    def _is_given(self, operand: RelaxExpr) -> bool:
        """Whether an operand is a parameter, or one in another type."""
        found = before_cast(self, operand)
        return isinstance(found, Var) and found in self._params


def _is_fast(call: Call, cpu: Target) -> bool:
    """Whether a CPU computes a product of short numbers faster as they are."""
    if any(getattr(info_of(arg), "dtype", None) != "bfloat16" for arg in call.args):
        return False
    if multiplies_pairs_fast(cpu.mcpu, cpu.features):
        return True
    return "amx-bf16" in cpu.features and _is_in_tiles(call)


def _is_in_tiles(call: Call) -> bool:
    """Whether a product of matrices, or a convolution of images, is one of whole tiles of a matrix unit."""
    left, right, result = map(_sizes, (*call.args, call))
    assert isinstance(call.op, Op)
    if call.op.name == _MATMUL:
        rows, depth, columns = left[-2], left[-1], right[-1]
    elif (call.attrs.get("data_layout"), call.attrs.get("kernel_layout")) == ("NCHW", "OIHW"):
        rows, depth, columns = result[-2] * result[-1], right[-3], right[-4]
    else:
        return False
    whole = columns % TILE == 0 and depth % (2 * TILE_GROUPS) == 0 and int(call.attrs.get("groups", 1)) == 1
    return whole and rows > TILE // 2  # of which more than a half are no zeros


def _sizes(value: RelaxExpr) -> list[int]:
    """The sizes of an array; 1 for those that are not known, and before a vector's."""
    dims = getattr(info_of(value), "dims", None) or ()
    return [1, *(as_int(size) or 1 for size in dims)]


def _is_short(call: Call) -> bool:
    """Whether a call multiplies short numbers and sums them in float32, with more than a few rows."""
    if not isinstance(call.op, Op) or call.op.name not in (_MATMUL, *_CONVOLUTIONS):
        return False
    if call.attrs["out_dtype"] != FULL:
        return False
    infos = [info_of(arg) for arg in call.args]
    if not all(isinstance(info, TensorStructInfo) and info.dtype in SHORT for info in infos):
        return False
    return call.op.name != _MATMUL or _rows(*infos) > _FEW_ROWS


def _rows(left: Any, right: Any) -> int:
    """The rows that each number of a product's right operand is used for; 0 where that is not known."""
    sizes = [as_int(size) for size in getattr(left.shape, "values", ())]
    if not sizes or None in sizes:
        return 0
    rows = sizes[:-1] if right.ndim <= 2 else sizes[-2:-1]
    return math.prod(size for size in rows if size is not None)
