"""A backend of a few lines, whole: its device interprets lists. Tests install this file as a distribution's, too."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compiler.artifact import Artifact
from compiler.driver.backend import Backend, Lowered
from compiler.errors import ArgumentError, ArtifactError, CodegenError
from compiler.runtime.core.backends import DeviceBackend
from compiler.runtime.core.code.artifact_module import ArtifactModule
from compiler.runtime.core.code.kernel_function import BoundCall, KernelFunction
from compiler.runtime.core.device import Device, DeviceAPI
from compiler.runtime.core.ndarray import NDArray
from compiler.schedule.core.schedule import Schedule
from compiler.target.options import Kind
from compiler.target.target import Target
from compiler.tir import nodes as n
from tuner.space.backend import TuningBackend
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, anything, level

# --------------------------------------------------------------------------------- the compiler's part


def code_of(node: Any, places: dict[n.Var, int]) -> Any:
    """A lowered function as lists: what the device part walks through. `places` numbers the arguments."""
    match node:
        case n.For(loop_var=var, min=start, extent=extent, body=body):
            return ["for", var.name, code_of(start, places), code_of(extent, places), code_of(body, places)]
        case n.SeqStmt(seq=parts):
            return ["seq", *(code_of(part, places) for part in parts)]
        case n.BufferStore(buffer=buffer, value=value, indices=(index,)):
            return ["store", places[buffer.data], code_of(index, places), code_of(value, places)]
        case n.BufferLoad(buffer=buffer, indices=(index,)):
            return ["load", places[buffer.data], code_of(index, places)]
        case n.Add(a=a, b=b):
            return ["+", code_of(a, places), code_of(b, places)]
        case n.Mul(a=a, b=b):
            return ["*", code_of(a, places), code_of(b, places)]
        case n.Var():
            return node.name
        case n.IntImm() | n.FloatImm():
            return node.value
    raise CodegenError(f"the toy has no {type(node).__name__}")


class ToyBackend(Backend):
    def generate(self, lowered: Lowered, keep: Sequence[str]) -> Artifact:
        code = {}
        for g, func in n.prim_funcs(lowered.module).items():
            places = {func.buffer_map[param].data: at for at, param in enumerate(func.params)}
            code[lowered.symbols[g]] = code_of(func.body, places)
        return Artifact(str(lowered.target), (), lowered.entries, {"toy": json.dumps(code).encode()}, lowered.meta)


# --------------------------------------------------------------------------------- the runtime's part


class ToyMemory:
    """Memory that only the toy's device can read."""

    def __init__(self, nbytes: int) -> None:
        self.data = np.zeros(nbytes, np.uint8)


class ToyAPI:
    def exist(self, device: Device) -> bool:
        return device.device_id == 0

    def allocate(self, device: Device, nbytes: int) -> ToyMemory:
        return ToyMemory(nbytes)

    def free(self, device: Device, handle: ToyMemory) -> None:
        handle.data = np.zeros(0, np.uint8)

    def copy_from_host(self, device: Device, handle: ToyMemory, data: memoryview) -> None:
        handle.data[: data.nbytes] = np.frombuffer(data, np.uint8)

    def copy_to_host(self, device: Device, handle: ToyMemory, out: memoryview) -> None:
        np.frombuffer(out, np.uint8)[:] = handle.data[: out.nbytes]

    def copy_within(self, device: Device, source: ToyMemory, target: ToyMemory, nbytes: int) -> None:
        target.data[:nbytes] = source.data[:nbytes]

    def sync(self, device: Device, stream: Any = None) -> None:
        return None

    def attribute(self, device: Device, name: str) -> Any:
        return "toy" if name == "device_name" else None

    def create_stream(self, device: Device) -> Any:
        return None

    def free_stream(self, device: Device, stream: Any) -> None:
        return None

    def set_stream(self, device: Device, stream: Any) -> None:
        return None


def execute(code: Any, arrays: Sequence[Any], names: dict[str, int]) -> Any:
    match code:
        case ["for", str(name), start, extent, body]:
            first = execute(start, arrays, names)
            for i in range(first, first + execute(extent, arrays, names)):
                execute(body, arrays, {**names, name: i})
        case ["seq", *parts]:
            for part in parts:
                execute(part, arrays, names)
        case ["store", int(at), index, value]:
            arrays[at][execute(index, arrays, names)] = execute(value, arrays, names)
        case ["load", int(at), index]:
            return arrays[at][execute(index, arrays, names)]
        case ["+", a, b]:
            return execute(a, arrays, names) + execute(b, arrays, names)
        case ["*", a, b]:
            return execute(a, arrays, names) * execute(b, arrays, names)
        case str():
            return names[code]
        case _:
            return code
    return None


class ToyCall(BoundCall):
    def __init__(self, code: Any, args: Sequence[NDArray]) -> None:
        self._code = code
        self._args = args  # which own the memory
        self._arrays = [arg.handle.data.view(arg.dtype) for arg in args]

    def call(self) -> None:
        execute(self._code, self._arrays, {})

    def timed(self, number: int) -> int:
        start = time.perf_counter_ns()
        for _ in range(number):
            self.call()
        return time.perf_counter_ns() - start

    def flush(self) -> None:
        return None

    def environment(self) -> dict[str, float]:
        return {"toy_temperature": 20.0}


class ToyFunction(KernelFunction):
    device_type = "ext_dev"

    def __init__(self, artifact: Artifact, name: str) -> None:
        self.name = name
        self.entry = artifact.entry(name)
        self._code = json.loads(artifact.blobs["toy"])[self.entry.symbol]

    def bind(self, args: tuple[Any, ...], place: Device) -> ToyCall:
        for spec, arg in zip(self.entry.args, args, strict=True):
            if not isinstance(arg.handle, ToyMemory) or (arg.dtype, arg.shape) != (spec.dtype, spec.shape):
                raise ArgumentError(f"{spec.name} is no {spec.dtype}{spec.shape} on {place}")
        return ToyCall(self._code, args)

    def __call__(self, *args: Any) -> None:
        self.bind(args, Device("ext_dev")).call()


class ToyModule(ArtifactModule[ToyFunction]):
    type_key = "toy"
    device_type = "ext_dev"
    runs_on = "toys"

    def _make(self, name: str) -> ToyFunction:
        return ToyFunction(self.artifact, name)

    def get_source(self, fmt: str = "") -> str:
        return self.artifact.blobs["toy"].decode()

    def save(self, file_name: str, fmt: str = "") -> None:
        Path(file_name).write_bytes(self.artifact.to_bytes())


class ToyDeviceBackend(DeviceBackend):
    def open_api(self) -> DeviceAPI:
        return ToyAPI()

    def load(self, artifact: Artifact) -> ToyModule:
        if "toy" not in artifact.blobs:
            raise ArtifactError("the artifact holds no toy code")
        return ToyModule(artifact)

    def target_of(self, device: Device) -> Target:
        return Target("toy")


# --------------------------------------------------------------------------------- the tuner's part


class ToyTuningBackend(TuningBackend):
    def sketches(self, func: n.PrimFunc, target: Target) -> tuple[Sketch, ...]:
        sch = Schedule(func)
        recorder = Recorder(sch)
        (loop,) = sch.get_loops(sch.get_block("b"))
        sch.split(loop, [None, recorder.choose("tile", (1, 2, 4)).rv])
        return (Sketch("toy", sch.trace, tuple(recorder.decisions), anything, level),)


# --------------------------------------------------------------------------------- what goes into the tables

KIND = Kind((), "ext_dev", {"tiles": int})
CODE = ToyBackend()
DEVICE = ToyDeviceBackend()
TUNING = ToyTuningBackend()
