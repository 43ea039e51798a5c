"""Put values on devices: hints become known devices, and copies stand where devices meet."""

from __future__ import annotations

from typing import Any

from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.vdevice import VDevice
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.op.execution.devices import to_vdevice
from compiler.relax.transform.devices.known_devices import HINT, KnownDevices, device_in, holds_tensors, transfer
from compiler.relax.transform.passes import relax_pass, rewritten


@relax_pass("RealizeVDevice")
def realize_vdevice(mod: IRModule, context: PassContext) -> IRModule:
    """Note the device of each value as hints say, and copy values that are needed on another device.

        def main(x, y):                                     def main(x: …"cpu:0", y: …"cpu:1"):
            lv = R.exp(x)                                       lv = R.exp(x)
            lv1 = R.hint_on_device(lv, cpu(0))         →        lv1 = lv
            lv2 = R.hint_on_device(lv1, cpu(1))                 lv2 = R.to_vdevice(lv1, "llvm:1")
            gv = R.add(lv2, y)                                  gv = R.add(lv2, y)

    An operator's arguments and results live on one device. So a hint reaches whatever leads to its value and follows
    from it, up to other hints and copies. Values that no hint reaches stay as they are. Builds begin with it.
    """
    return rewritten(mod, _Realizer) if _names_devices(mod) else mod


def _names_devices(mod: IRModule) -> bool:
    """Whether values of a module may name their devices, or are wanted on one."""
    if mod.global_infos.get("vdevice"):
        return True
    graphs = [func for func in mod.values() if isinstance(func, r.Function) and func.body is not None]
    return any(isinstance(node, r.Call) and transfer(node) for func in graphs for node in walk(func.body))


class _Realizer(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._devices: KnownDevices | None = None

    def visit_function_(self, op: r.Function) -> Any:
        if self._devices is not None or op.body is None:  # an inner function: its own calls decide
            return super().visit_function_(op)
        self._devices = KnownDevices(op)
        try:
            return super().visit_function_(op)
        finally:
            self._devices = None

    def visit_var_def(self, var: r.Var) -> r.Var:
        found: r.Var = super().visit_var_def(var)
        device = None if self._devices is None else self._devices.of(var)
        info = r.info_of(found)
        if device is None or info is None or device_in(info) is not None or not holds_tensors(info):
            return found
        made = self.with_struct_info(found, on_device(info, device))
        if made is not found:
            self.set_var_remap(var.vid, made)
        return made

    def visit_call_(self, op: r.Call) -> Any:
        call: Any = super().visit_call_(op)
        if transfer(call) != HINT:
            return call
        device = call.attrs["dst_vdevice"]
        return call.args[0] if device_in(r.info_of(call.args[0])) == device else to_vdevice(call.args[0], device)

    def visit_var_binding_(self, binding: r.VarBinding) -> None:
        """Copy a value without arguments, such as zeros, to where it is wanted."""
        device = None if self._devices is None else self._devices.of(binding.var)
        value = binding.value
        if device is None or not isinstance(value, r.Call) or transfer(value):
            super().visit_var_binding_(binding)
            return
        if value.sinfo_args:  # a kernel: its results are made where they are said to be
            infos = [on_device(info, device) for info in value.sinfo_args]
            there = r.Call(value.op, value.args, value.attrs, infos, value.span)
            super().visit_var_binding_(r.VarBinding(binding.var, there, binding.span))
            return
        made = self.builder_.normalize_value(self.visit_expr(value))
        info = r.info_of(made)
        if not isinstance(info, r.TensorStructInfo | r.TupleStructInfo) or device_in(info) is not None:
            super().visit_var_binding_(binding)
            return
        var = self.builder_.emit(made, binding.var.name_hint)
        if isinstance(info, r.TensorStructInfo):
            super().visit_var_binding_(r.VarBinding(binding.var, to_vdevice(var, device), binding.span))
            return
        fields = [
            self.builder_.emit(to_vdevice(self.builder_.emit(r.TupleGetItem(var, place)), device))
            for place in range(len(info.fields))
        ]
        super().visit_var_binding_(r.VarBinding(binding.var, r.Tuple(tuple(fields)), binding.span))


def on_device(info: r.StructInfo, device: VDevice) -> r.StructInfo:
    """Add the device to what is known of a value; a device that is known already stays."""
    match info:
        case r.TensorStructInfo(vdevice=None):
            return r.TensorStructInfo(info.shape, info.dtype, device, info.ndim if info.shape is None else -1)
        case r.TupleStructInfo():
            return r.TupleStructInfo(tuple([on_device(item, device) for item in info.fields]))
    return info
