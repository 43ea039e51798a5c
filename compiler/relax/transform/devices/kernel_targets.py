"""Which target each kernel of a module is for, as the devices of its results say."""

from __future__ import annotations

from typing import Any

from compiler.ir.base import GlobalVar, Op
from compiler.ir.module import IRModule
from compiler.ir.vdevice import VDevice
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call
from compiler.relax.transform.devices.known_devices import device_in
from compiler.relax.transform.passes import rewritten
from compiler.target.target import Target
from compiler.tir import nodes as n

TARGET = "target"
_KERNEL_CALLS = ("relax.call_tir", "relax.call_tir_inplace", "relax.call_tir_with_grad")


def with_kernel_targets(mod: IRModule) -> IRModule:
    """Return `mod` with the attribute "target" on kernels whose results live on devices of the module.

    A kernel that is called for devices of several targets becomes one for each. Results that no device is said of live
    on the first of the module's devices. A module that names no device, or one target only, is returned as it is.
    """
    devices: list[VDevice] = list(mod.global_infos.get("vdevice", ()))
    if len({device.target for device in devices}) < 2:
        return mod
    return rewritten(mod, lambda own: _Binder(own, devices[0].target))


class _Binder(PyExprMutator):
    def __init__(self, mod: IRModule, first: Target) -> None:
        super().__init__(mod)
        self._module = mod
        self._first = first
        self._made: dict[tuple[GlobalVar, Target], GlobalVar] = {}
        self._taken: set[GlobalVar] = set()

    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        if not isinstance(call.op, Op) or call.op.name not in _KERNEL_CALLS:
            return call
        name = call.args[0]
        kernel = self._module.get(name) if isinstance(name, GlobalVar) else None
        if not isinstance(kernel, n.PrimFunc) or TARGET in kernel.attrs:
            return call
        device = next((found for info in call.sinfo_args if (found := device_in(info)) is not None), None)
        bound = self._bound(name, kernel, self._first if device is None else device.target)
        if bound is name:
            return call
        return Call(call.op, (bound, *call.args[1:]), call.attrs, call.sinfo_args, call.span)

    def _bound(self, name: GlobalVar, kernel: n.PrimFunc, target: Target) -> GlobalVar:
        """The name of the kernel for a target: its own for the first one, a new one for others."""
        if (name, target) not in self._made:
            func = kernel.with_attr(TARGET, target)
            if name in self._taken:
                self._made[name, target] = self.builder_.add_func(func, f"{name.name_hint}_{target.kind}")
            else:
                self._taken.add(name)
                self.builder_.update_func(name, func)
                self._made[name, target] = name
        return self._made[name, target]
