"""Concatenations that copy nothing: their parts are computed where they belong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.analysis.joined_parts import JOINED_PARTS, Join, joined_parts, place_parts
from compiler.relax.analysis.reshape_pattern import has_reshape_pattern
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.op.core.registry import OpPatternKind
from compiler.relax.transform.fusion.annotate_tir_op_pattern import OP_PATTERN
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.runtime.core.host import ALIGNMENT
from compiler.tir import nodes as n


@relax_pass("JoinInPlace", opt_level=1)
def join_in_place(mod: IRModule, context: PassContext) -> IRModule:
    """Mark concatenations whose parts can be computed in place; StaticPlanBlockMemory places the parts.

        lv = R.call_tir(cls.relu, (x,), …)                →    (the same, but nothing is fused with cls.concat)
        lv1 = R.call_tir(cls.relu, (y,), …)
        lv2 = R.call_tir(cls.concatenate, (lv, lv1), …)        lv2 = R.call_tir(cls.concatenate_joined, (lv, lv1), …)

    The axes before the joined one have size 1, so that a part is one piece of memory. The parts are results of kernels
    of the same dataflow block, and only kernels use them. The marked kernel still copies its parts if they come to lie
    elsewhere.
    """
    return rewritten(mod, _Marking)


class _Marking(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._sizes: dict[GlobalVar, tuple[int, ...] | None] = {}
        self._marked: dict[GlobalVar, GlobalVar] = {}
        self._joins: frozenset[r.Var] = frozenset()

    def visit_dataflow_block_(self, block: r.DataflowBlock) -> r.BindingBlock:
        self._joins = self._in_place(block.bindings)
        return super().visit_dataflow_block_(block)

    def _in_place(self, bindings: Sequence[r.Binding]) -> frozenset[r.Var]:
        """The results of concatenations that have nothing to copy."""
        made: dict[r.Var, r.Var] = {}  # the result of the kernel that a value lies in
        joins: list[Join[r.Var]] = []
        seen: set[r.Var] = set()  # by others than kernels, which may keep them
        for binding in bindings:
            var, value = binding.var, binding.value
            if isinstance(value, r.DataflowVar) and isinstance(var, r.DataflowVar):
                made |= {var: made[value]} if value in made else {}
                continue
            name, args = _kernel(value) if isinstance(value, r.Call) else (None, ())
            if name is None:
                seen.update(made.get(node, node) for node in walk(value) if isinstance(node, r.Var))
            if not isinstance(value, r.Call) or not isinstance(var, r.DataflowVar):
                continue
            func = None if name is None else self.builder_.get().get(name)
            if not isinstance(func, n.PrimFunc) or not isinstance(r.info_of(value), r.TensorStructInfo):
                continue
            if has_reshape_pattern(func):
                made |= {var: made[args[0]]} if isinstance(args[0], r.Var) and args[0] in made else {}
                continue
            made[var] = var
            assert name is not None
            sizes = self._sizes_of(name, func)
            parts = [made[arg] for arg in args if isinstance(arg, r.Var) and arg in made]
            if sizes is not None and len(parts) == len(args) == len(sizes):
                joins.append(Join(var, tuple(parts), sizes))
        free = [join for join in joins if seen.isdisjoint((join.whole, *join.parts))]
        return frozenset(join.whole for join in place_parts(free)[1])

    def _sizes_of(self, name: GlobalVar, func: n.PrimFunc) -> tuple[int, ...] | None:
        if name not in self._sizes:
            sizes = joined_parts(func)
            aligned = sizes is not None and not any(size % ALIGNMENT for size in sizes[:-1])
            self._sizes[name] = sizes if aligned else None
        return self._sizes[name]

    def visit_var_binding_(self, binding: r.VarBinding) -> None:
        value: Any = binding.value
        if binding.var in self._joins:
            args = (self._mark(value.args[0]), *value.args[1:])
            value = r.Call(value.op, args, value.attrs, value.sinfo_args, value.span)
            binding = r.VarBinding(binding.var, value, binding.span)
        super().visit_var_binding_(binding)

    def _mark(self, name: GlobalVar) -> GlobalVar:
        if name not in self._marked:
            func = self.builder_.get()[name]
            assert isinstance(func, n.PrimFunc)
            marked = func.with_attr(JOINED_PARTS, self._sizes[name]).with_attr(OP_PATTERN, int(OpPatternKind.OPAQUE))
            self._marked[name] = self.builder_.add_func(marked, f"{name.name_hint}_joined")
        return self._marked[name]


def _kernel(call: r.Call) -> tuple[GlobalVar | None, Sequence[RelaxExpr]]:
    """The kernel that a `call_tir` without scalars calls, and its arguments."""
    if not isinstance(call.op, Op) or call.op.name != "relax.call_tir" or len(call.args) > 2:
        return None, ()
    name, args = call.args[0], call.args[1]
    return (name, args.fields) if isinstance(name, GlobalVar) and isinstance(args, r.Tuple) else (None, ())
