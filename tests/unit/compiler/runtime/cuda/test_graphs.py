"""Kernel starts that are recorded and replayed: when they are, that they compute the same, and the calls in libcuda."""

from __future__ import annotations

import ctypes
import gc
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from compiler.artifact import Artifact
from compiler.driver.build import build
from compiler.errors import DeviceError
from compiler.runtime.core import device as devices
from compiler.runtime.core.device import cuda
from compiler.runtime.core.ndarray import NDArray, array, empty
from compiler.runtime.cuda import calls as cuda_calls
from compiler.runtime.cuda import pycuda_driver as cuda_runtime
from compiler.runtime.cuda.calls import CallTimer
from compiler.runtime.cuda.device import CudaAPI
from compiler.runtime.cuda.graphs import Graphs, find_graphs
from compiler.runtime.cuda.module import CUDAFunction, CUDAHostModule
from compiler.te.operation import compute, placeholder, reduce_axis, thread_axis
from compiler.te.reduction import sum as te_sum
from compiler.te.schedule.schedule import create_schedule
from compiler.tir import nodes as n
from compiler.topi.schedules import cuda as schedules
from tests.kit.gpu.cuda_stand_in import HostDriver
from tests.kit.places import STAND_IN, loaded

ROWS, COLUMNS = 8, 40


def _sums(x: np.ndarray, out: np.ndarray) -> None:
    out[:ROWS] = x[: ROWS * COLUMNS].reshape(ROWS, COLUMNS).sum(1)


def _halves(out: np.ndarray, sums: np.ndarray) -> None:
    np.copyto(out[:ROWS], sums[:ROWS] / 2)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostDriver]:
    kernels = {"mean_kernel": _sums, "mean_kernel_1": _halves, "sums_kernel": _sums}
    driver = HostDriver(kernels)
    monkeypatch.setitem(devices._apis, "cuda", CudaAPI(driver))
    yield driver
    gc.collect()
    assert not driver.memory, "memory that nobody freed"


@pytest.fixture(scope="module")
def artifacts() -> dict[str, Artifact]:
    """ "mean": two kernels; "sums": one."""
    a = placeholder((ROWS, COLUMNS), name="A")
    k = reduce_axis((0, COLUMNS), name="k")
    total = compute((ROWS,), lambda i: te_sum(a[i, k], axis=k), name="total")
    half = compute((ROWS,), lambda i: total[i] * 0.5, name="half")
    made = {}
    for name, result in (("mean", half), ("sums", total)):
        module = build(schedules.schedule_reduce("cuda", [result]), [a, result], target="cuda", name=name)
        assert isinstance(module, CUDAHostModule)
        made[name] = module.artifact
    return made


def function(artifact: Artifact, name: str) -> CUDAFunction:
    found = CUDAHostModule(artifact)[name]
    assert isinstance(found, CUDAFunction)
    return found


def rows(first: int = 0) -> tuple[np.ndarray, NDArray, NDArray]:
    x = np.arange(first, first + ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    return x, array(x, cuda(0)), empty((ROWS,), "float32", cuda(0))


def test_kernels_of_a_function_called_again_are_replayed(driver: HostDriver, artifacts: dict[str, Artifact]) -> None:
    mean = function(artifacts["mean"], "mean")
    x, there, out = rows()
    for replayed in (0, 1, 2):
        there.copyfrom(x + replayed)
        mean(there, out)
        np.testing.assert_array_equal(out.numpy(), (x + replayed).sum(1) / 2)
        assert driver.replayed == replayed
    assert driver.recorded == [2]
    other = empty((ROWS,), "float32", cuda(0))
    for _ in range(3):  # other arguments, other graphs
        mean(there, other)
        np.testing.assert_array_equal(other.numpy(), out.numpy())
    stream = cuda(0).create_raw_stream()
    cuda(0).set_raw_stream(stream)
    mean(there, other)
    assert (driver.recorded, driver.replayed) == ([2, 2], 4)
    assert driver.launches[-1][5] is stream
    cuda(0).set_raw_stream(None)
    assert len(driver.launches) == 2 * 7
    assert len(driver.memory) == 3 + 1  # the memory between the kernels is held for the next call
    del mean
    gc.collect()
    assert len(driver.memory) == 3


def test_zeros_of_both_signs_are_not_the_same_call(driver: HostDriver) -> None:
    x, by = placeholder((4,), name="x"), n.Var("by", "float32")
    half = compute((4,), lambda i: x[i] * 0.5, name="half")
    y = compute((4,), lambda i: half[3 - i] / by, name="y")
    s = create_schedule(y.op)
    for tensor in (half, y):
        s[tensor].bind(tensor.op.axis[0], thread_axis("threadIdx.x"))
    module = build(s, [x, y, by], target="cuda", name="divide")
    seen: list[float] = []

    def note(*passed: Any) -> None:
        seen.extend(value for value in passed if isinstance(value, float))

    driver.kernels |= {"divide_kernel": note, "divide_kernel_1": note}
    there = array(np.ones(4, np.float32), cuda(0))
    for value in (0.0, -0.0, -0.0):
        module["divide"](there, there, value)
    assert [math.copysign(1, value) for value in seen] == [1, -1, -1]
    del there


def test_one_kernel_is_started_as_it_is(driver: HostDriver, artifacts: dict[str, Artifact]) -> None:
    sums = function(artifacts["sums"], "sums")
    _, there, out = rows()
    for _ in range(3):
        sums(there, out)
    assert not driver.recorded


def test_much_memory_between_kernels_is_not_held(
    driver: HostDriver, artifacts: dict[str, Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_calls, "KEPT_BYTES", 16)
    mean = function(artifacts["mean"], "mean")
    _, there, out = rows()
    for _ in range(3):
        mean(there, out)
        assert len(driver.memory) == 2
    assert not driver.recorded


@pytest.mark.parametrize("name", ["mean", "sums"])
def test_timed_calls_are_a_few_graphs(driver: HostDriver, artifacts: dict[str, Artifact], name: str) -> None:
    _, there, out = rows()
    kernels = len(artifacts[name].entries[0].launches)
    module = CUDAHostModule(artifacts[name])
    result = module.time_evaluator(name, cuda(0), number=1000, repeat=3)(there, out)
    assert result.results == pytest.approx((kernels * 1e-6,) * 3)
    assert len(driver.launches) == kernels * (1 + 3 * 1000)
    most = 256 // kernels
    assert driver.recorded == [256, 1000 % most * kernels]
    assert driver.replayed == 3 * (1000 // most + 1)


def test_the_first_call_and_long_ones_are_started_one_by_one(
    driver: HostDriver, artifacts: dict[str, Artifact]
) -> None:
    _, there, out = rows()
    timer = CallTimer(function(artifacts["sums"], "sums").prepare((there, out)))
    driver.kernel_ns = cuda_calls.SHORT_NS
    assert timer(3) == 3 * driver.kernel_ns
    assert not driver.recorded  # kernels may be loaded when they are first started
    timer(3)
    assert driver.recorded == [3]  # how long one takes once it is loaded was not known
    timer(4)
    assert driver.recorded == [3]
    assert len(driver.launches) == 10
    _, there, out = rows()
    several = CallTimer(function(artifacts["mean"], "mean").prepare((there, out)))
    for count in (1, 1, 2, 3):
        several(count)
    assert driver.recorded == [3, 2, 4, 6]  # a call of two kernels has a gap, however long they are


def test_a_driver_without_graphs_starts_kernels(driver: HostDriver, artifacts: dict[str, Artifact]) -> None:
    driver.has_graphs = False
    mean = function(artifacts["mean"], "mean")
    x, there, out = rows(3)
    for _ in range(3):
        mean(there, out)
    timer = CallTimer(mean.prepare((there, out)))
    assert [timer(count) for count in (1, 5, 5)] == [2000, 10000, 10000]
    np.testing.assert_array_equal(out.numpy(), x.sum(1) / 2)
    assert driver.replayed == 0
    del mean, timer


class Libcuda:
    """libcuda's functions: what they are called with, and an error where one is to be had."""

    def __init__(self, failing: str = "") -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.failing = failing

    def __getattr__(self, name: str) -> Any:
        def function(*arguments: Any) -> int:
            handles = [a._obj for a in arguments if hasattr(a, "_obj")]
            if name == "cuGetErrorString":
                handles[0].value = b"operation not permitted"
                return 0
            plain = tuple(getattr(a, "value", a) for a in arguments if not hasattr(a, "_obj"))
            self.calls.append((name, plain))
            if name == self.failing:
                return 800
            for handle in handles:
                handle.value = {"cuStreamEndCapture": 70, "cuGraphInstantiateWithFlags": 90}[name]
            return 0

        setattr(self, name, function)
        return function


def test_what_is_called_in_libcuda() -> None:
    library = Libcuda()
    graphs = Graphs(library)
    executable = graphs.record(5, lambda: library.calls.append(("launch", ())))
    graphs.launch(executable, 0)
    graphs.destroy(executable)
    assert library.calls == [
        ("cuStreamBeginCapture_v2", (5, 2)), ("launch", ()), ("cuStreamEndCapture", (5,)),
        ("cuGraphInstantiateWithFlags", (70, 0)), ("cuGraphDestroy", (70,)), ("cuGraphUpload", (90, 5)),
        ("cuGraphLaunch", (90, 0)), ("cuGraphExecDestroy", (90,)),
    ]  # fmt: skip
    assert library.cuGraphInstantiateWithFlags.argtypes[2] is ctypes.c_uint64


@pytest.mark.parametrize(
    ("failing", "last"),
    [
        ("cuStreamBeginCapture_v2", "cuStreamBeginCapture_v2"),
        ("cuStreamEndCapture", "cuStreamEndCapture"),
        ("cuGraphInstantiateWithFlags", "cuGraphDestroy"),
        ("cuGraphUpload", "cuGraphExecDestroy"),
    ],
)
def test_what_was_made_is_given_back_when_recording_fails(failing: str, last: str) -> None:
    library = Libcuda(failing)
    with pytest.raises(DeviceError, match=f"{failing} failed: operation not permitted"):
        Graphs(library).record(5, lambda: None)
    assert library.calls[-1][0] == last


def test_a_launch_that_fails_ends_the_recording() -> None:
    library = Libcuda()

    def submit() -> None:
        raise DeviceError("too many resources requested for launch")

    with pytest.raises(DeviceError, match="too many resources"):
        Graphs(library).record(5, submit)
    assert [name for name, _ in library.calls] == ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphDestroy"]


def test_without_libcuda_there_are_no_graphs() -> None:
    def absent(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    assert find_graphs(absent) is None
    assert find_graphs(lambda _name: object()) is None  # a driver older than these calls
    assert find_graphs(lambda _name: Libcuda()) is not None


@pytest.fixture
def pycuda() -> Any:
    """The stand-in of PyCUDA's driver module."""
    return loaded(STAND_IN / "pycuda" / "driver.py", "pycuda_driver_stand_in")


def test_pycuda_s_streams_are_recorded(pycuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Libcuda()
    monkeypatch.setattr(cuda_runtime, "find_graphs", lambda: Graphs(library))
    driver = cuda_runtime.PyCudaDriver(pycuda)
    seen: list[Any] = []
    graph = driver.graph(0, seen.append)
    [stream] = seen
    assert stream.flags == 1  # the default stream's work, of other threads too, does not meet it
    driver.replay(0, graph, None)
    del graph
    assert [name for name, _ in library.calls[-2:]] == ["cuGraphLaunch", "cuGraphExecDestroy"]
    library.failing = "cuStreamEndCapture"
    assert driver.graph(0, seen.append) is None
    monkeypatch.setattr(cuda_runtime, "find_graphs", lambda: None)
    assert cuda_runtime.PyCudaDriver(pycuda).graph(0, seen.append) is None
