"""Operators become kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from compiler.ir.base import Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo, info_of
from compiler.relax.op.core.registry import OPERATORS, Operator, RefusedPart
from compiler.relax.op.execution.calls import call_tir
from compiler.relax.te_calls import kernel_key, make_kernel, tensors_of
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.te.where import at

Rule = Callable[[Any, Call], RelaxExpr]


@relax_pass("LegalizeOps")
def legalize_ops(
    mod: IRModule, context: PassContext, *, customize_legalize_map: Mapping[str, Rule] | None = None,
    skip_ops: Sequence[str] | None = None, enable_warning: bool = False,
) -> IRModule:  # fmt: skip
    """Replace operators by calls of kernels that compute them; equal kernels are made once.

        lv = R.matmul(x, w)     →    lv = R.call_tir(cls.matmul, (x, w), out_sinfo=R.Tensor((2, 3), "float32"))
        lv1 = R.matmul(lv, v)        lv1 = R.call_tir(cls.matmul1, (lv, v), out_sinfo=R.Tensor((2, 5), "float32"))

    An operator becomes what `customize_legalize_map` gives for its name, `rule(builder, call)`, else what its
    declaration says. Some calls stay: those of unknown shapes, operators that no kernel computes, and `skip_ops`.
    `enable_warning` warns of the first two.
    """
    rules, skipped = dict(customize_legalize_map or {}), frozenset(skip_ops or ())
    return rewritten(mod, lambda own: _Legalizer(own, rules, skipped, enable_warning))


class _Legalizer(PyExprMutator):
    def __init__(self, mod: IRModule, rules: Mapping[str, Rule], skipped: frozenset[str], warning: bool) -> None:
        super().__init__(mod)
        self._rules = rules
        self._kernels: dict[tuple[str, Hashable], tuple[Any, Any, Any]] = {}
        self._skipped = skipped
        self._warning = warning

    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        if not isinstance(call.op, Op) or call.op.name in self._skipped:
            return call
        call = self.builder_.normalize(call)
        if not isinstance(call, Call) or not isinstance(call.op, Op):
            return call
        rule = self._rules.get(call.op.name)
        if rule is not None:
            return rule(self.builder_, call)
        operator = OPERATORS.get(call.op.name)
        if operator is None:
            return call
        if not isinstance(operator.te, RefusedPart):
            if not operator.is_proven(call, self.builder_.analyzer):
                return call
            if all(map(_is_known, call.args)):
                return self._kernel_call(operator, call)
            self._warn(operator, call, "shapes or element types of its arguments are not known")
        elif not isinstance(operator.legalize, RefusedPart):
            return self.visit_expr(operator.legalize(self.builder_, call))
        else:
            self._warn(operator, call, operator.te.reason)
        return call

    def _warn(self, operator: Operator, call: Call, why: str) -> None:
        if self._warning:
            warnings.warn(f"{operator.name} is left as it is{at(call.span)}: {why}", stacklevel=2)

    def _kernel_call(self, operator: Operator, call: Call) -> Call:
        """Call the operator's kernel. The kernel of an equal call is used again."""
        key = kernel_key(call.args, call.attrs)
        held = None if key is None else self._kernels.get((operator.name, key))
        if held is not None:
            gvar, infos, tir_vars = held
            return call_tir(gvar, tensors_of(call.args), _where(infos, call), tir_vars)
        kernel = make_kernel(operator.te, call.args, call.attrs, operator.short_name)  # type: ignore[arg-type]
        gvar = self.builder_.add_func(kernel.func, operator.short_name)
        infos = list(kernel.outputs) if kernel.several else kernel.outputs[0]
        tir_vars = kernel.tir_vars or None
        if key is not None and len(kernel.args) == len(tensors_of(call.args)):  # no attribute is a tensor
            self._kernels[operator.name, key] = gvar, infos, tir_vars
        return call_tir(gvar, kernel.args, _where(infos, call), tir_vars)


def _where(infos: Any, call: Call) -> Any:
    """Return what is known of a kernel's results, with the devices that the operator's results are on."""
    known = info_of(call)
    if isinstance(infos, list):
        fields = known.fields if isinstance(known, TupleStructInfo) else (known,) * len(infos)
        return [_there(info, field) for info, field in zip(infos, fields)]
    return _there(infos, known)


def _there(info: TensorStructInfo, known: StructInfo | None) -> TensorStructInfo:
    device = known.vdevice if isinstance(known, TensorStructInfo) else None
    return info if device is None else TensorStructInfo(info.shape, info.dtype, device)


def _is_known(arg: RelaxExpr) -> bool:
    """Whether a kernel can be made of an argument."""
    info = info_of(arg)
    return info is None or _is_known_info(info)


def _is_known_info(info: StructInfo) -> bool:
    match info:
        case TensorStructInfo():
            return info.dims is not None and bool(info.dtype)
        case ShapeStructInfo():
            return info.values is not None
        case TupleStructInfo():
            return all(map(_is_known_info, info.fields))
    return True
