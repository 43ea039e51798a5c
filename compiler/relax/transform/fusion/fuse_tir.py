"""Functions of several kernels become one kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax import nodes as r
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.fusion.join_blocks import joined
from compiler.relax.fusion.merge import KernelCall, MergedKernel, as_immediate, merged
from compiler.relax.fusion.outline import PRIMITIVE
from compiler.relax.nodes.unify import Values, unify
from compiler.relax.op.execution.calls import call_tir
from compiler.relax.transform.fusion.annotate_tir_op_pattern import OP_PATTERN
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr


@relax_pass("FuseTIR", opt_level=1)
def fuse_tir(mod: IRModule, context: PassContext) -> IRModule:
    """Make one kernel of each function that `FuseOps` made.

        def fused_exp_multiply(x, y):                      def fused_exp_multiply(x, y, out):
            lv = call_tir(cls.exp, (x,))             →         out[i] = exp(x[i]) * y[i]
            return call_tir(cls.multiply, (lv, y))
        lv1 = cls.fused_exp_multiply(a, b)                 lv1 = call_tir(cls.fused_exp_multiply, (a, b), …)

    What is computed element by element becomes one block. All other blocks stay, so that schedules find them. Values in
    between need no arrays of the graph any more. A function that holds anything but calls of kernels stays.
    """
    kernels = {name: kernel for name, func in mod.items() if (kernel := _kernel_of(func, mod)) is not None}
    functions: dict[GlobalVar, Any] = {}
    for name, func in mod.items():
        if name in kernels:
            func = kernels[name].merged.func
        functions[name] = func.without_attr(OP_PATTERN) if OP_PATTERN in func.attrs else func
    made = mod.with_functions(functions)
    return rewritten(made, lambda own: _Caller(own, kernels)) if kernels else made


@dataclass(frozen=True, slots=True)
class _Kernel:
    """The kernel of a function. Its arguments are parameters of the function, and constants."""

    func: r.Function
    merged: MergedKernel


class _Refused(Exception):
    """A function cannot become one kernel."""


def _kernel_of(func: object, mod: IRModule) -> _Kernel | None:
    if not isinstance(func, r.Function) or func.body is None or not func.attrs.get(PRIMITIVE):
        return None
    try:
        return _Kernel(func, _Steps(mod).merged(func))
    except (_Refused, IRError):
        return None


class _Steps:
    """Reads the calls of a function. Arrays are named by the expressions that stand for them."""

    def __init__(self, mod: IRModule) -> None:
        self._module = mod
        self._arrays: dict[r.Var, tuple[object, ...]] = {}
        self._shapes: dict[object, tuple[PrimExpr, ...]] = {}
        self._numbers: dict[object, PrimExpr] = {}
        self._names: dict[object, str] = {}

    def merged(self, func: r.Function) -> MergedKernel:
        for param in func.params:
            info = param.struct_info
            if isinstance(info, r.TensorStructInfo):
                self._arrays[param] = (param,)
                self._note(param, info)
                self._names[param] = param.name_hint
            elif not isinstance(info, r.ShapeStructInfo):
                raise _Refused
        assert func.body is not None
        steps: list[KernelCall] = []
        for block in func.body.blocks:
            for binding in block.bindings:
                if not isinstance(binding, r.VarBinding):
                    raise _Refused
                step = self._step(binding.var, binding.value)
                if step is not None:
                    steps.append(step)
        results = self._of(func.body.body)
        made = {array for step in steps for array in step.outputs}
        if not steps or not made.issuperset(results) or len(set(results)) < len(results):
            raise _Refused
        kernel = merged(steps, results, self._shapes, self._numbers, self._names)
        return replace(kernel, func=joined(kernel.func))

    def _step(self, var: r.Var, value: RelaxExpr) -> KernelCall | None:
        if isinstance(value, r.Var | r.Tuple | r.TupleGetItem):
            self._arrays[var] = self._of(value)
            return None
        if not isinstance(value, r.Call) or not isinstance(value.op, Op) or value.op.name != "relax.call_tir":
            raise _Refused
        gvar, args = value.args[:2]
        kernel = self._module.get(gvar) if isinstance(gvar, GlobalVar) else None
        if not isinstance(kernel, n.PrimFunc):
            raise _Refused
        (info,) = value.sinfo_args
        infos = info.fields if isinstance(info, r.TupleStructInfo) else (info,)
        outputs: tuple[object, ...] = tuple([(var, place) for place in range(len(infos))])
        for output, known in zip(outputs, infos):
            self._note(output, known)
        self._arrays[var] = outputs
        scalars = r.info_of(value.args[2]) if len(value.args) > 2 else None
        if scalars is not None and (not isinstance(scalars, r.ShapeStructInfo) or scalars.values is None):
            raise _Refused
        return KernelCall(kernel, self._of(args), outputs, () if scalars is None else scalars.values or ())

    def _of(self, expr: RelaxExpr) -> tuple[object, ...]:
        """The arrays that an expression stands for."""
        match expr:
            case r.Var() if expr in self._arrays:
                return self._arrays[expr]
            case r.Tuple():
                return tuple([array for item in expr.fields for array in self._of(item)])
            case r.TupleGetItem():
                return (self._of(expr.tuple_value)[expr.index],)
            case r.Constant():
                number = as_immediate(expr)
                if number is not None:
                    self._numbers[expr] = number
                self._note(expr, expr.struct_info)
                self._names[expr] = "param"
                return (expr,)
        raise _Refused

    def _note(self, array: object, info: r.StructInfo) -> None:
        if not isinstance(info, r.TensorStructInfo) or info.dims is None:
            raise _Refused
        self._shapes[array] = info.dims


class _Caller(PyExprMutator):
    """Calls kernels in the place of the functions that they were made of."""

    def __init__(self, mod: IRModule, kernels: dict[GlobalVar, _Kernel]) -> None:
        super().__init__(mod)
        self._kernels = kernels

    def visit_call_(self, op: r.Call) -> Any:
        call: Any = super().visit_call_(op)
        kernel = self._kernels.get(call.op) if isinstance(call.op, GlobalVar) else None
        if kernel is None:
            return call
        given = dict(zip(kernel.func.params, call.args))
        args: list[Any] = [given[item] if isinstance(item, r.Var) else item for item in kernel.merged.inputs]
        values = Values()
        for param, arg in given.items():
            unify(param.struct_info, r.info_of(arg), values)
        info = r.info_of(op)
        assert info is not None
        infos: Any = list(info.fields) if isinstance(info, r.TupleStructInfo) else info
        scalars = [values.found.get(var, var) for var in kernel.merged.scalars]
        return call_tir(call.op, args, infos, r.ShapeExpr(tuple(scalars)) if scalars else None)
