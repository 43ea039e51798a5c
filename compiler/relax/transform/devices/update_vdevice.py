"""A device of a module is replaced by another."""

from __future__ import annotations

from typing import Any

from compiler.errors import ArgumentError
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.vdevice import VDevice, as_vdevice
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, MatchCast, StructInfo, TensorStructInfo, TupleStructInfo, Var
from compiler.relax.transform.passes import relax_pass, rewritten


@relax_pass("UpdateVDevice")
def update_vdevice(mod: IRModule, context: PassContext, *, new_vdevice: VDevice | str, index: int) -> IRModule:
    """Replace number `index` of the module's devices by another device, for all values on it.

    I.module_global_infos({"vdevice": [llvm, cuda]})    →    I.module_global_infos({"vdevice": [llvm, opencl]})
    x: R.Tensor((4,), "float32", "cuda:0")                   x: R.Tensor((4,), "float32", "opencl:0")
    """
    devices = list(mod.global_infos.get("vdevice", ()))
    if not 0 <= index < len(devices):
        raise ArgumentError(f"index is {index}, and the module has {len(devices)} devices")
    old, new = devices[index], as_vdevice(new_vdevice)
    devices[index] = new
    made = rewritten(mod, lambda own: _Replacer(own, old, new))
    return IRModule(made.functions, made.attrs, {**made.global_infos, "vdevice": devices})


class _Replacer(PyExprMutator):
    def __init__(self, mod: IRModule, old: VDevice, new: VDevice | None) -> None:
        super().__init__(mod)
        self._old = old
        self._new = new

    def visit_var_def(self, var: Var) -> Var:
        found: Var = super().visit_var_def(var)
        if found.struct_info_ is None:
            return found
        made = self.with_struct_info(found, self._info(found.struct_info_))
        if made is not found:
            self.set_var_remap(var.vid, made)
        return made

    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        attrs = {name: self._new if value == self._old else value for name, value in call.attrs.items()}
        infos = tuple(map(self._info, call.sinfo_args))
        if attrs == dict(call.attrs) and all(a is b for a, b in zip(infos, call.sinfo_args)):
            return call
        return Call(call.op, call.args, attrs, infos, call.span)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        super().visit_match_cast_(
            MatchCast(binding.var, binding.value, self._info(binding.struct_info), binding.span)
        )

    def _info(self, info: StructInfo) -> StructInfo:
        match info:
            case TensorStructInfo() if info.vdevice == self._old and self._old is not None:
                return TensorStructInfo(info.shape, info.dtype, self._new, info.ndim if info.shape is None else -1)
            case TupleStructInfo():
                fields = tuple(map(self._info, info.fields))
                return info if all(a is b for a, b in zip(fields, info.fields)) else TupleStructInfo(fields)
        return info
