"""Kernels that belong together become functions of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.config import register_option
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.analysis.reshape_pattern import has_reshape_pattern
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.fusion.groups import MOST_KERNELS, BlockValue, grouped
from compiler.relax.fusion.kernel_pattern import KernelPattern, elements, pattern_of
from compiler.relax.fusion.outline import PRIMITIVE, outlined
from compiler.relax.op.core.registry import OPERATORS, OpPatternKind
from compiler.relax.transform.fusion.annotate_tir_op_pattern import OP_PATTERN
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.tir import nodes as n

_NUMBER = re.compile(r"\d+$")
_MOST_NAMES = 6


def _depth(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("it must be positive")
    return value


MAX_DEPTH = register_option(
    "relax.FuseOps.max_depth",
    "a positive number",
    f"how many kernels at most become one, {MOST_KERNELS} by default",
    _depth,
    MOST_KERNELS,
)


@relax_pass("FuseOps", opt_level=1)
def fuse_ops(
    mod: IRModule, context: PassContext, *, fuse_opt_level: int = -1, most_kernels: int | None = None
) -> IRModule:
    """Make a function of kernels that should be fused; `FuseTIR` makes one kernel of it.

        lv = call_tir(cls.conv2d, (x, w))        def fused_conv2d_relu(x, w):     # Primitive
        lv1 = call_tir(cls.relu, (lv,))    →         lv = call_tir(cls.conv2d, (x, w))
                                                     return call_tir(cls.relu, (lv,))
                                                 lv1 = cls.fused_conv2d_relu(x, w)

    Only in dataflow blocks. `compiler/relax/fusion/groups.py` says what belongs together. `fuse_opt_level` 0 leaves all
    as it is. A function has at most `most_kernels` kernels; the default is the option `relax.FuseOps.max_depth` (64).
    """
    most = MAX_DEPTH.value(context) if most_kernels is None else most_kernels
    return mod if fuse_opt_level == 0 else rewritten(mod, lambda own: _Fuser(own, most))


class _Fuser(PyExprMutator):
    def __init__(self, mod: IRModule, most_kernels: int) -> None:
        super().__init__(mod)
        self._module = mod
        self._most = most_kernels
        self._kernels: dict[GlobalVar, tuple[KernelPattern | None, bool]] = {}

    def visit_dataflow_block_(self, block: r.DataflowBlock) -> r.BindingBlock:
        bindings = block.bindings
        groups = grouped(self._values(bindings), self._most)
        if not groups:
            return block
        ends = {group[-1]: [bindings[number] for number in group] for group in groups}
        inside = {number for group in groups for number in group}
        left: list[r.Binding] = []
        for number, binding in enumerate(bindings):
            if number in ends:
                left.append(self._fused(ends[number]))
            elif number not in inside:
                left.append(binding)
        return r.DataflowBlock(tuple(left), block.span)

    def _fused(self, group: Sequence[r.Binding]) -> r.Binding:
        """The call of a function that computes a group, bound to the variable of the last."""
        made = outlined(group, [group[-1].var], {PRIMITIVE: 1})
        gvar = self.builder_.add_func(made.func, self._name(group))
        return r.VarBinding(group[-1].var, made.call(gvar), group[-1].span)

    def _name(self, group: Sequence[r.Binding]) -> str:
        calls = [binding.value for binding in group if isinstance(binding.value, r.Call)]
        names = [_plain(call.args[0].name_hint, self._module) for call in calls if isinstance(call.args[0], GlobalVar)]
        more = [f"and_{len(names) - _MOST_NAMES}"] if len(names) > _MOST_NAMES else []
        return "_".join(["fused", *names[:_MOST_NAMES], *more])

    # ------------------------------------------------------------------- what grouping asks for

    def _values(self, bindings: Sequence[r.Binding]) -> list[BlockValue]:
        numbers = {binding.var: number for number, binding in enumerate(bindings)}
        return [self._value(binding, numbers) for binding in bindings]

    def _value(self, binding: r.Binding, numbers: dict[r.Var, int]) -> BlockValue:
        value = binding.value
        kept = not isinstance(binding.var, r.DataflowVar)
        dims, device = _dims(binding.var)
        size = _size(r.info_of(binding.var))
        is_binding = isinstance(binding, r.VarBinding)
        if is_binding and isinstance(value, r.TupleGetItem) and isinstance(value.tuple_value, r.Var):
            source = numbers.get(value.tuple_value)
            return BlockValue((source,), None, (None,), dims, size, kept, is_field=True, device=device)
        if isinstance(binding, r.VarBinding) and isinstance(value, r.Call):
            known = self._kernel(value)
            args = value.args[1].fields if known is not None and isinstance(value.args[1], r.Tuple) else ()
            if known is not None and len(args) == len(known[0].inputs):
                sources = tuple([numbers.get(arg) if isinstance(arg, r.Var) else None for arg in args])
                shapes = tuple([_dims(arg)[0] for arg in args])
                return BlockValue(sources, known[0], shapes, dims, size, kept, is_view=known[1], device=device)
        mentioned = [numbers[node] for node in walk(value) if isinstance(node, r.Var) and node in numbers]
        return BlockValue(tuple(mentioned), kept=kept)

    def _kernel(self, call: r.Call) -> tuple[KernelPattern, bool] | None:
        """How the called kernel may be fused, and whether it only copies; None if it may not be fused."""
        if not isinstance(call.op, Op) or call.op.name != "relax.call_tir" or not isinstance(call.args[0], GlobalVar):
            return None
        gvar = call.args[0]
        if gvar not in self._kernels:
            func = self._module.get(gvar)
            if not isinstance(func, n.PrimFunc) or func.attrs.get(OP_PATTERN) == OpPatternKind.OPAQUE:
                self._kernels[gvar] = None, False
            else:
                self._kernels[gvar] = pattern_of(func), has_reshape_pattern(func)
        pattern, view = self._kernels[gvar]
        if pattern is None or not all(isinstance(arg, r.Var | r.Constant) for arg in _fields(call)):
            return None
        return pattern, view


def _fields(call: r.Call) -> Sequence[RelaxExpr]:
    return call.args[1].fields if isinstance(call.args[1], r.Tuple) else (call.args[1],)


def _dims(expr: RelaxExpr) -> tuple[tuple[Any, ...] | None, Any]:
    info = r.info_of(expr)
    return (info.dims, info.vdevice) if isinstance(info, r.TensorStructInfo) else (None, None)


def _size(info: r.StructInfo | None) -> float:
    match info:
        case r.TensorStructInfo() if info.dims is not None:
            return max(1.0, elements(info.dims))
        case r.TupleStructInfo():
            return max(1.0, sum(map(_size, info.fields)))
    return 1.0


def _plain(name: str, mod: IRModule) -> str:
    """The name of a kernel without the number that told it from others."""
    short = _NUMBER.sub("", name)
    return short if short in mod or short in _operator_names() else name


@cache
def _operator_names() -> frozenset[str]:
    return frozenset(operator.short_name for operator in OPERATORS.values())
