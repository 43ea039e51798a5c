"""The backend seam: a target kind, a device and a search space, added here alone, go the way that all others go."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.artifact import Artifact
from compiler.driver.backend import BACKENDS, Backend, Lowered
from compiler.driver.build import compile_artifact
from compiler.errors import ArgumentError, ArtifactError, CodegenError, DeviceError, TargetError
from compiler.runtime.core import device as devices
from compiler.runtime.core.artifact_module import ArtifactModule
from compiler.runtime.core.backends import DEVICE_BACKENDS, DeviceBackend
from compiler.runtime.core.device import Device, DeviceAPI, cpu
from compiler.runtime.core.kernel_function import BoundCall, KernelFunction
from compiler.runtime.core.ndarray import NDArray, array, empty
from compiler.runtime.load import load_artifact, load_module
from compiler.schedule.core.schedule import Schedule
from compiler.target.options import KINDS, Kind, register_kind
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir import ops
from rpc_server.executor.trial import Trials
from rpc_server.wire.messages import Measured
from rpc_server.wire.trial_messages import EvaluatorOptions, MeasureRequest
from tuner.build.worker import BuildRequest, build
from tuner.engine.plan import sketch_search
from tuner.errors import TuningError
from tuner.model.machine import target_family
from tuner.search.base import Candidate
from tuner.space.backend import TUNING_BACKENDS, TuningBackend
from tuner.space.generate import generate
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, anything, level
from tuner.task import TuningTask

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


# --------------------------------------------------------------------------------- a row in each table


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    register_kind("toy", Kind((), "ext_dev", {"tiles": int}))
    BACKENDS.register("toy", ToyBackend())
    DEVICE_BACKENDS.register("toy", ToyDeviceBackend())
    TUNING_BACKENDS.register("toy", ToyTuningBackend())
    yield
    for table in (BACKENDS, DEVICE_BACKENDS, TUNING_BACKENDS):
        table.remove("toy")  # type: ignore[attr-defined]
    devices._apis.pop("ext_dev", None)
    del KINDS["toy"]


def twice_and_one() -> n.PrimFunc:
    a = placeholder((24,), name="a")
    return create_prim_func([a, compute((24,), lambda i: a[i] * 2.0 + 1.0, name="b")])


VALUES = np.arange(24, dtype=np.float32)


def test_it_is_built_run_timed_and_saved(tmp_path: Path) -> None:
    place = tvm.device("toy", 0)
    assert place == Device("ext_dev")
    assert place.device_name == "toy"
    assert tvm.target.Target.from_device(place) == Target("toy")
    module = tvm.build(twice_and_one(), target="toy -tiles=4", name="main")
    assert module.type_key == "toy"
    a, b = array(VALUES, place), empty((24,), device=place)
    module(a, b)
    np.testing.assert_array_equal(b.numpy(), VALUES * 2 + 1)
    result = module.time_evaluator("main", place, number=2, repeat=3)(a, b)
    assert len(result.results) == 3
    assert result.min > 0
    module.save(str(tmp_path / "m.tunefarm"))
    c = empty((24,), device=place)
    load_module(str(tmp_path / "m.tunefarm"))["main"](a, c)
    np.testing.assert_array_equal(c.numpy(), VALUES * 2 + 1)


def test_what_does_not_fit_is_refused() -> None:
    module = tvm.build(twice_and_one(), target="toy")
    with pytest.raises(ArgumentError, match="a is no float32"):
        module(array(VALUES), array(VALUES))
    with pytest.raises(DeviceError, match=r"runs on toys; it cannot be timed on cpu\(0\)\n.*ext_dev\(0\)"):
        module.time_evaluator("default_function", cpu())
    with pytest.raises(TargetError, match="has no option 'speed'"):
        Target("toy -speed=2")
    a = placeholder((4,), name="a")
    casts = create_prim_func([a, compute((4,), lambda i: a[i].astype("int32"), name="b")])
    with pytest.raises(CodegenError, match="the toy has no Cast"):
        compile_artifact(casts, "toy")
    with pytest.raises(ArtifactError, match="no toy code"):
        load_artifact(Artifact("toy", (), (), {}))


def test_a_dict_of_targets_has_a_module_of_each() -> None:
    main, other = tvm.IRModule({"f": twice_and_one()}), tvm.IRModule({"g": twice_and_one()})
    module = tvm.build({"llvm": main, "toy": other})
    assert [m.type_key for m in (module, *module.imported_modules)] == ["llvm", "toy"]


def test_it_is_tuned(tmp_path: Path) -> None:
    task = TuningTask("toy", twice_and_one(), Target("toy"))
    assert [s.name for s in generate(task.func, task.target)] == ["toy"]
    assert target_family(task.target) == "toy-any"
    with pytest.raises(TuningError, match="no block"):
        generate(n.PrimFunc((), n.Evaluate(ops.const(0)), {}), task.target)
    search = sketch_search(task)
    reference = built(search.source(None))
    blobs = {"reference": memoryview(reference.to_bytes())}
    trials = Trials(str(tmp_path), blobs.get, lambda *_: None)
    for candidate in search.strategy.ask(2):
        assert isinstance(candidate, Candidate)
        artifact = built(search.source(candidate))
        assert artifact.target == "toy"
        blobs[artifact.digest] = memoryview(artifact.to_bytes())
        options = EvaluatorOptions(number=1, repeat=2)
        request = MeasureRequest(artifact.digest, "main", 1, options, reference="reference", device_type="ext_dev")
        answer = trials.run(request)
        assert isinstance(answer, Measured)
        assert answer.result.ok, answer.result.text
        assert len(answer.result.costs) == 2
        assert answer.result.environment["toy_temperature"] == 20.0
        search.strategy.tell(candidate, answer.result.mean)
    assert len({c.digest for c in search.strategy.ask(3)}) == 1  # of three tiles, one is left


def built(source: Any) -> Artifact:
    made = build(BuildRequest(source, "toy"))
    assert made.artifact is not None, made.text
    return Artifact.from_bytes(made.artifact)


def test_a_row_is_for_a_kind_and_is_not_replaced_unasked() -> None:
    with pytest.raises(TargetError, match="there is a target kind 'toy'"):
        register_kind("toy", KINDS["toy"])
    with pytest.raises(TargetError, match="target kind 'toy' has a backend"):
        BACKENDS.register("toy", ToyBackend())
    with pytest.raises(TargetError, match="no target kind 'unheard'"):
        BACKENDS.register("unheard", ToyBackend())
    BACKENDS.register("toy", ToyBackend(), override=True)


@pytest.mark.parametrize("table", [BACKENDS, DEVICE_BACKENDS, TUNING_BACKENDS])
def test_every_row_is_there(table: Any) -> None:
    for kind in table.kinds:
        assert isinstance(table.find(kind), Backend | DeviceBackend | TuningBackend)
    assert table.find("vulkan") is None
