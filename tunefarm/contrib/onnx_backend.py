"""An ONNX backend: models are compiled by `prepare` and run by what it returns.

    rep = onnx_backend.prepare(model)
    (y,) = rep.run([x])

Most models are compiled in `prepare`, once. A few cannot be: an input decides how many dimensions a tensor has, or is
a sequence. With `recompile` (the default) these are compiled when they first run, with the values of those inputs, and
again when the values change; without it `prepare` refuses them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep, namedtupledict

from compiler.driver.graph import build_graph
from compiler.errors import ArgumentError
from compiler.frontend.onnx.element_types import stored, unstored
from compiler.frontend.onnx.errors import NeedsValueError
from compiler.frontend.onnx.from_onnx import ImportedModel, ImportedOutput, import_model
from compiler.runtime.core.device import cpu
from compiler.runtime.vm.machine import VirtualMachine
from compiler.target.target import Target

KEPT = 16
"""How many artifacts of one model are kept, by the values that they were compiled for."""


class _Program:
    """A compiled model."""

    def __init__(self, imported: ImportedModel, target: Target | None) -> None:
        self._imported = imported
        self._machine = VirtualMachine(build_graph(imported.module, target, exec_mode="compiled"), cpu(0))
        self._main = self._machine["main"]

    def run(self, inputs: Mapping[str, Any], elems: Mapping[str, int]) -> tuple[Any, ...]:
        given = [_stored(inputs[name], elems[name]) for name in self._imported.inputs]
        made = self._main(*given)
        outputs = self._imported.outputs
        values = [made] if len(outputs) == 1 else list(made)
        return tuple([_unstored(value, output) for value, output in zip(values, outputs)])


def _stored(value: Any, elem: int) -> Any:
    array = stored(np.asarray(value), elem)
    return np.ascontiguousarray(array).reshape(array.shape)


def _unstored(value: Any, output: ImportedOutput) -> Any:
    if output.elem == -1:
        return None
    if output.items is not None:
        return [_unstored(item, part) for item, part in zip(value, output.items)]
    return unstored(value.numpy(), output.elem)


class TunefarmBackendRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, model: ModelProto, target: Target | None, recompile: bool) -> None:
        self._model, self._target = model, target
        graph = model.graph
        weights = {tensor.name for tensor in graph.initializer}
        self._inputs = [item for item in graph.input if item.name not in weights]
        self._elems = {item.name: item.type.tensor_type.elem_type for item in self._inputs}
        self._names = [item.name for item in graph.output]
        self._fixed: set[str] = set()
        self._programs: OrderedDict[Any, _Program] = OrderedDict()
        self.recompiles = False
        try:
            self._programs[()] = _Program(import_model(model), target)
        except NeedsValueError as error:
            if not recompile or not error.detail.get("inputs"):
                raise
            self.recompiles = True
            self._fixed.update(error.detail["inputs"])

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model: arrays in the order of its inputs, or by name. Returns its outputs in order, named."""
        given = self._by_name(inputs)
        program = self._program(given)
        values = program.run(given, self._elems)
        named: tuple[Any, ...] = namedtupledict("Outputs", self._names)(*values)
        return named

    def _by_name(self, inputs: Any) -> dict[str, Any]:
        names = [item.name for item in self._inputs]
        if isinstance(inputs, Mapping):
            given = dict(inputs)
        elif isinstance(inputs, np.ndarray):
            given = dict(zip(names, [inputs]))
        else:
            if len(inputs) > len(names):
                raise ArgumentError(f"the model takes {len(names)} inputs, {len(inputs)} given")
            given = dict(zip(names, inputs))
        missing = [name for name in names if name not in given]
        if missing:
            raise ArgumentError(f"inputs are missing: {', '.join(missing)}", hint=f"the model takes {', '.join(names)}")
        return given

    def _program(self, given: Mapping[str, Any]) -> _Program:
        while True:
            key = tuple((name, _key(given[name])) for name in sorted(self._fixed))
            found = self._programs.get(key)
            if found is not None:
                self._programs.move_to_end(key)
                return found
            try:
                values = {name: given[name] for name in self._fixed}
                made = _Program(import_model(self._model, values=values), self._target)
            except NeedsValueError as error:
                more = set(error.detail.get("inputs", ())) - self._fixed
                if not more:
                    raise
                self._fixed |= more
                continue
            self._programs[key] = made
            if len(self._programs) > KEPT:
                self._programs.popitem(last=False)
            return made


def _key(value: Any) -> Any:
    """Return what a value is told apart by."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    array = np.asarray(value)
    return str(array.dtype), array.shape, array.tobytes()


class TunefarmBackend(Backend):
    """Compiles ONNX models for a CPU."""

    @classmethod
    def prepare(
        cls, model: ModelProto, device: str = "CPU", *, target: Any = None, recompile: bool = True, **kwargs: Any
    ) -> TunefarmBackendRep:
        """Compile a model. Raises OnnxImportError for one that cannot be compiled."""
        if not cls.supports_device(device):
            raise ArgumentError(f"the backend runs on CPUs, not on {device!r}")
        return TunefarmBackendRep(model, None if target is None else Target(target), recompile)

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Compile a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models can run on a device."""
        return device.partition(":")[0] == "CPU"


prepare = TunefarmBackend.prepare
run_model = TunefarmBackend.run_model
supports_device = TunefarmBackend.supports_device

__all__ = ["TunefarmBackend", "TunefarmBackendRep", "prepare", "run_model", "supports_device"]
