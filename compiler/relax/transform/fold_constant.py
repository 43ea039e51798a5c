"""Kernels whose arguments are constants run when the graph is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from compiler.dtype import is_float
from compiler.interp.interpreter import run as interpret
from compiler.ir.base import GlobalVar, Op
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.analysis.overwritten import overwritten_values
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, Constant, Function, TensorStructInfo, Tuple, TupleStructInfo, Var, VarBinding
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.runtime.core.dtypes import storage_dtype
from compiler.tir import nodes as n

Evaluate = Callable[[n.PrimFunc, Sequence[Any]], None]
"""Runs a kernel on numpy arrays, the results last."""
SMALL_BYTES = 4096
MOST_GROWTH = 4
_SUM_BYTES = 4


@relax_pass("FoldConstant", opt_level=1)
def fold_constant(mod: IRModule, context: PassContext, *, evaluate: Evaluate | None = None) -> IRModule:
    """Compute values that depend on constants only when the graph is built.

        lv = R.call_tir(cls.transpose, (R.const(w),), …)    →    lv = R.const(w_transposed)
        lv1 = R.call_tir(cls.matmul, (x, lv), …)                 lv1 = R.call_tir(cls.matmul, (x, lv), …)

    Values that a call writes over are not folded. Results much larger than their arguments are left to be computed by
    the executable. `evaluate` runs a kernel; by default the interpreter does, or what `use_evaluator` set.
    """
    run = evaluate or _evaluator[-1]
    return rewritten(mod, lambda own: _Folder(own, run))


_evaluator: list[Evaluate] = [lambda func, arrays: interpret(func, *arrays)]


def use_evaluator(evaluate: Evaluate) -> None:
    """Set what runs kernels from now on: a driver's, which compiles them."""
    _evaluator.append(evaluate)


def is_left_unfolded(size: int, constants: Sequence[Constant]) -> bool:
    """Return whether each run computes a result, because its `size` in bytes is large.
    It is compared with its `constants`. Floats narrower than float32 count as float32, which sums of them are."""
    return size > max(SMALL_BYTES, MOST_GROWTH * sum(map(_widened_bytes, constants)))


def _widened_bytes(constant: Constant) -> int:
    least = _SUM_BYTES if is_float(constant.data.dtype) else 1
    return constant.array.size * max(constant.array.itemsize, least)


class _Folder(PyExprMutator):
    def __init__(self, mod: IRModule, evaluate: Evaluate) -> None:
        super().__init__(mod)
        self._module = mod
        self._evaluate = evaluate
        self._overwritten: frozenset[Var] = frozenset()
        self._folds = True

    def visit_function_(self, op: Function) -> Any:
        self._overwritten |= overwritten_values(op)
        return super().visit_function_(op)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        self._folds = binding.var not in self._overwritten  # else it is computed again at every call
        super().visit_var_binding_(binding)
        self._folds = True

    def visit_var_(self, op: Any) -> Any:
        found: Any = super().visit_var_(op)
        held = self.lookup_binding(found)
        return held if isinstance(held, Constant) else found

    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        if not self._folds or not isinstance(call.op, Op) or call.op.name != "relax.call_tir" or len(call.args) > 2:
            return call
        gvar, args = call.args
        func = self._module.get(gvar) if isinstance(gvar, GlobalVar) else None
        if not isinstance(func, n.PrimFunc) or not isinstance(args, Tuple):
            return call
        fields = [item for item in args.fields if isinstance(item, Constant)]
        outs = _outputs(call)
        if len(fields) != len(args.fields) or outs is None:
            return call
        if is_left_unfolded(sum(out.nbytes for out in outs), fields):
            return call
        self._evaluate(func, [*(item.array for item in fields), *outs])
        made = [Constant(out) for out in outs]
        return Tuple(tuple(made)) if isinstance(call.sinfo_args[0], TupleStructInfo) else made[0]


def _outputs(call: Call) -> list[Any] | None:
    """Arrays for the results; None where a size of them is not known."""
    (info,) = call.sinfo_args
    found = []
    for item in info.fields if isinstance(info, TupleStructInfo) else (info,):
        if not isinstance(item, TensorStructInfo) or item.dims is None:
            return None
        sizes = [size.value for size in item.dims if isinstance(size, n.IntImm)]
        if len(sizes) != len(item.dims):
            return None
        found.append(np.zeros(sizes, storage_dtype(item.dtype)))
    return found
