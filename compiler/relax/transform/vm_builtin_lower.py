"""Operators that only the machine does become calls of its functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.ir.base import Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax import nodes as r
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes.dims import int64
from compiler.relax.op.execution.calls import call_builtin_with_ctx
from compiler.relax.op.execution.memory import vm_kill_object
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.runtime.core.device import Device

Lowered = Callable[[r.Call, tuple[r.StructInfo, ...]], RelaxExpr]


@relax_pass("VMBuiltinLower")
def vm_builtin_lower(mod: IRModule, context: PassContext) -> IRModule:
    """Call functions of the virtual machine for operators that no kernel computes.

    storage = R.memory.alloc_storage(…)    →    storage = R.call_builtin_with_ctx("vm.builtin.alloc_storage", …)
    lv = R.shape_of(x)                          lv = R.call_packed("vm.builtin.shape_of", x, …)
    """
    return rewritten(mod, _Lower)


@relax_pass("LowerRuntimeBuiltin")
def lower_runtime_builtin(mod: IRModule, context: PassContext) -> IRModule:
    """Do what `VMBuiltinLower` does, under its name in newer versions of TVM.

    lv = R.shape_of(x)    →    lv = R.call_packed("vm.builtin.shape_of", x, …)
    """
    return vm_builtin_lower(mod, context)


def number(value: int) -> r.PrimValue:
    """An integer as an argument."""
    return r.PrimValue(int64(value))


def call_builtin(name: str, args: Sequence[RelaxExpr], *infos: r.StructInfo) -> r.Call:
    """The call of one of the machine's functions."""
    return r.Call(r.ExternFunc(f"vm.builtin.{name}"), tuple(args), None, infos)


def with_machine(name: str, args: Sequence[RelaxExpr], *infos: r.StructInfo) -> r.Call:
    """The call of one of the machine's functions that takes the machine."""
    return call_builtin_with_ctx(r.ExternFunc(f"vm.builtin.{name}"), list(args), sinfo_args=infos)


def _plain(name: str) -> Lowered:
    return lambda call, infos: call_builtin(name, call.args, *infos)


def _formatted(name: str, first: int) -> Lowered:
    """The first arguments, the format, the rest."""
    return lambda call, infos: call_builtin(
        name, (*call.args[:first], r.StringImm(call.attrs["format"]), *call.args[first:]), *infos
    )


def _storage(call: r.Call, infos: tuple[r.StructInfo, ...]) -> RelaxExpr:
    size, device, scope, dtype = call.args
    return with_machine("alloc_storage", [size, device, dtype, scope], *infos)


def _closure(call: r.Call, infos: tuple[r.StructInfo, ...]) -> RelaxExpr:
    func, args = call.args
    return with_machine("make_closure", [func, *(args.fields if isinstance(args, r.Tuple) else ())], *infos)


def _invoke(call: r.Call, infos: tuple[r.StructInfo, ...]) -> RelaxExpr:
    closure, args = call.args
    return with_machine("invoke_closure", [closure, *(args.fields if isinstance(args, r.Tuple) else ())], *infos)


def _to_device(call: r.Call, infos: tuple[r.StructInfo, ...]) -> RelaxExpr:
    target, index = call.attrs["dst_vdevice"].target, call.attrs["dst_vdevice"].vdevice_id
    kind = Device(target.device_type, 0)
    return call_builtin("to_device", [*call.args, number(kind.type_code), number(index)], *infos)


def _view(call: r.Call, infos: tuple[r.StructInfo, ...]) -> RelaxExpr:
    """Fill in what is left out: the shape, the element type and the offset of the data."""
    data, shape, dtype, offset = call.args
    (info,) = infos
    assert isinstance(info, r.TensorStructInfo)
    shape = shape if not isinstance(shape, r.Tuple) or info.shape is None else info.shape
    element = dtype if isinstance(dtype, r.DataTypeImm) else r.DataTypeImm(info.dtype)
    start = number(0) if isinstance(offset, r.Tuple) else offset
    return call_builtin("view", [data, shape, element, start], *infos)


def _unique(call: r.Call, infos: tuple[r.StructInfo, ...]) -> RelaxExpr:
    attrs = call.attrs
    asked = [number(int(attrs[name])) for name in ("sorted", "return_index", "return_inverse", "return_counts")]
    axis = [] if attrs["axis"] is None else [number(attrs["axis"])]
    return call_builtin("unique", [*call.args, *asked, *axis], *infos)


_RULES: dict[str, Lowered] = {
    "relax.memory.alloc_storage": _storage,
    "relax.memory.alloc_tensor": _plain("alloc_tensor"),
    "relax.memory.kill_storage": lambda call, infos: vm_kill_object(call.args[0]),
    "relax.memory.kill_tensor": lambda call, infos: vm_kill_object(call.args[0]),
    "relax.make_closure": _closure,
    "relax.invoke_closure": _invoke,
    "relax.invoke_pure_closure": _invoke,
    "relax.to_vdevice": _to_device,
    "relax.memory.view": _view,
    "relax.memory.ensure_zero_offset": _plain("copy"),
    "relax.null_value": _plain("null_value"),
    "relax.shape_of": _plain("shape_of"),
    "relax.reshape": _plain("reshape"),
    "relax.shape_to_tensor": _plain("shape_to_tensor"),
    "relax.tensor_to_shape": _plain("tensor_to_shape"),
    "relax.size": _plain("size"),
    "relax.nonzero": _plain("nonzero"),
    "relax.unique": _unique,
    "relax.dynamic_strided_slice": _plain("dynamic_strided_slice"),
    "relax.print": _formatted("print", 0),
    "relax.assert_op": _formatted("assert_op", 1),
}


class _Lower(PyExprMutator):
    def visit_call_(self, op: r.Call) -> Any:
        call: Any = super().visit_call_(op)
        rule = _RULES.get(call.op.name) if isinstance(call.op, Op) else None
        if rule is None:
            return call
        info = r.info_of(op)
        assert info is not None
        return rule(call, (info,))
