"""Exporting, building and calling modules: `export_tvm` and `jit`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.driver.graph import build_graph
from compiler.errors import ArgumentError
from compiler.frontend.nn import spec as specs
from compiler.frontend.nn.exporter import INIT, Exportable, Exporter
from compiler.frontend.nn.values import Parameter, values_of
from compiler.ir.module import IRModule
from compiler.relax.transform.pipeline import get_pipeline
from compiler.runtime.core.device import Device, cpu, device
from compiler.runtime.core.ndarray import NDArray, array, from_dlpack
from compiler.runtime.core.values import ShapeTuple
from compiler.runtime.vm.machine import VirtualMachine
from compiler.target.options import kind_for

FORMATS = ("numpy", "tvm", "torch")


def export_tvm(module: Exportable, spec: Any, debug: bool, allow_extern: bool) -> tuple[Any, ...]:
    """Make a graph module of a module's methods.
    With it the parameters by name, in the order functions take them."""
    exporter = Exporter(module, debug)
    mod = exporter.build(specs.ModuleSpec.from_raw(spec, module))
    return (mod, exporter.parameters, []) if allow_extern else (mod, exporter.parameters)


def jit(
    module: Exportable, spec: Any, device: str | Device, pipeline: Any, out_format: str, debug: bool
) -> JitModule:
    """Build a module's methods for a device."""
    if out_format not in FORMATS:
        raise ArgumentError(f"out_format is {out_format!r}", hint=f"it may be {', '.join(FORMATS)}")
    if out_format == "torch" and importlib.util.find_spec("torch") is None:
        raise ArgumentError("out_format is 'torch', which is not installed", hint='out_format="numpy" gives arrays')
    found = specs.ModuleSpec.from_raw(spec, module)
    mod, parameters = export_tvm(module, found, debug, False)
    return JitModule(found, mod, parameters, _device(device), pipeline, out_format)


def _device(given: str | Device) -> Device:
    return given if isinstance(given, Device) else cpu() if given == "cpu" else device(given)


class JitModule:
    """The methods of a built module. It keeps parameters and the state of effects."""

    def __init__(
        self, spec: specs.ModuleSpec, mod: IRModule, parameters: list[tuple[str, Parameter]], dev: Device,
        pipeline: Any, out_format: str,
    ) -> None:  # fmt: skip
        target = kind_for(dev.device_type)
        chosen = get_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
        self.vm = VirtualMachine(build_graph(mod, target, relax_pipeline=chosen), dev)
        self._spec = spec
        self._values = values_of(parameters)
        self._format = out_format
        has_state = any(gvar.name_hint == INIT for gvar in mod.functions)
        self._effects: tuple[Any, ...] | None = self.vm[INIT]() if has_state else None

    def __getitem__(self, method_name: str) -> Callable[..., Any]:
        """A method. Raises ArgumentError for one that was not exported."""
        if method_name not in self._spec.methods:
            raise ArgumentError(
                f"{method_name!r} was not exported", hint=f"there are: {', '.join(self._spec.methods)}"
            )
        method = self._spec.methods[method_name]

        def call(*args: Any) -> Any:
            if len(args) != len(method.arg_names):
                raise ArgumentError(f"{method_name} takes ({', '.join(method.arg_names)}), {len(args)} given")
            given = [_given(arg, each) for arg, each in zip(args, method.arg_specs)]
            stateful = self._effects is not None and method.effect_mode != "none"
            if stateful:
                assert self._effects is not None
                given += [self._effects] if method.effect_mode == "packed" else list(self._effects)
            if method.param_mode != "none":
                given += [tuple(self._values)] if method.param_mode == "packed" else self._values
            result = self.vm[method_name](*given)
            if stateful:
                result, self._effects = result
            return self._shown(result)

        return call

    def _shown(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._shown, value))
        if not isinstance(value, NDArray) or self._format == "tvm":
            return value
        if self._format == "numpy":
            return np.asarray(value) if value.is_host else value.numpy()
        from compiler.frontend.torch.tensors import to_torch

        return to_torch(value)


def _given(value: Any, spec: specs.Spec) -> Any:
    """An argument as the machine takes it."""
    match spec:
        case specs.Int():
            return ShapeTuple((int(value),))
        case specs.Tensor():
            if isinstance(value, NDArray):
                return value
            if hasattr(value, "detach"):
                return from_dlpack(value.detach().contiguous())
            return array(np.asarray(value), dtype=spec.dtype)
        case specs.Tuple():
            return tuple([_given(item, each) for item, each in zip(value, spec.elements)])
        case specs.Object():
            return value
