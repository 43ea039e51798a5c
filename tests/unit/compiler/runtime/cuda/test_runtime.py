"""The CUDA runtime over a driver of host memory: what it does before and after each driver call."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from compiler.artifact import Artifact
from compiler.driver.build import build, lower
from compiler.errors import ArgumentError, ArtifactError, CodegenError, DeviceError
from compiler.launches import Launch, Workspace
from compiler.runtime.core import device as devices
from compiler.runtime.core.absent import AbsentAPI
from compiler.runtime.core.device import Device, cpu, cuda
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.cuda.device import STAGING_BYTES, CudaAPI
from compiler.runtime.cuda.module import CUDAHostModule, CUDAModule
from compiler.runtime.load import load_module
from compiler.runtime.vm.memory import MachineMemory
from compiler.te.operation import compute, placeholder, reduce_axis, thread_axis
from compiler.te.reduction import sum as te_sum
from compiler.te.schedule.schedule import Schedule, create_schedule
from compiler.te.tensor import Tensor
from compiler.tir import nodes as n
from compiler.topi.schedules import cuda as schedules
from tests.kit.gpu.cuda_stand_in import HostDriver


def _add(a: np.ndarray, b: np.ndarray, c: np.ndarray, size: int) -> None:
    c[:size] = a[:size] + b[:size]


def bound(tensor: Tensor, threads: int = 64) -> Schedule:
    s = create_schedule(tensor.op)
    block, thread = s[tensor].split(tensor.op.axis[0], factor=threads)
    s[tensor].bind(block, thread_axis("blockIdx.x"))
    s[tensor].bind(thread, thread_axis("threadIdx.x"))
    return s


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostDriver]:
    driver = HostDriver({"add_kernel": _add})
    monkeypatch.setitem(devices._apis, "cuda", CudaAPI(driver))
    yield driver
    gc.collect()
    assert not driver.memory, "memory that nobody freed"


@pytest.fixture(scope="module")
def adding() -> Artifact:
    size = n.Var("size", "int32")
    a, b = placeholder((size,), name="A"), placeholder((size,), name="B")
    c = compute((size,), lambda i: a[i] + b[i], name="C")
    module = build(bound(c), [a, b, c], target="cuda -arch=sm_80", name="add")
    assert isinstance(module, CUDAHostModule)
    return module.artifact


def test_a_call_starts_the_grid_that_its_sizes_need(driver: HostDriver, adding: Artifact) -> None:
    function = CUDAHostModule(adding)["add"]
    for size in (1, 64, 65, 1000):
        a, b = np.arange(size, dtype=np.float32), np.ones(size, np.float32)
        out = empty((size,), "float32", cuda(1))
        function(array(a, cuda(1)), array(b, cuda(1)), out)
        np.testing.assert_array_equal(out.numpy(), a + b)
        where, name, grid, block, shared, _, codes = driver.launches[-1]
        assert (where, name, grid, block) == (1, "add_kernel", (-(-size // 64), 1, 1), (64, 1, 1))
        assert (shared, codes) == (0, "PPPi")
    assert driver.loaded == 1
    del out


def test_arguments_are_checked_before_the_launch(driver: HostDriver, adding: Artifact) -> None:
    function = CUDAHostModule(adding)["add"]
    here, there, host = (empty((4,), "float32", place) for place in (cuda(0), cuda(1), cpu()))
    for args, says in [
        ((here, here, host), r"argument 2 \(C\) is on cpu\(0\); this function runs on a CUDA device"),
        ((here, there, here), r"argument 1 \(B\) is on cuda\(1\), arguments before it on cuda\(0\)"),
        ((here, empty((5,), "float32", cuda(0)), here), "its dimension 0 is 5, but size is 4"),
        ((here, empty((4,), "int32", cuda(0)), here), "has dtype int32; the function was built for float32"),
        ((here, here), "takes 3 arguments, 2 given"),
    ]:
        with pytest.raises(ArgumentError, match=says):
            function(*args)
    assert not driver.launches
    del here, there, args


@pytest.mark.parametrize(
    ("extents", "says"),
    [
        ((70_000, 4), r"blockIdx\.y has an extent of 70000, more than 65535"),
        ((2, 128), r"threadIdx\.z .* more than 64"),
    ],
)
def test_more_than_a_gpu_starts_is_not_built(extents: tuple[int, int], says: str) -> None:
    x = placeholder(extents, name="x")
    y = compute(extents, lambda i, j: x[i, j] * 2.0, name="y")
    s = create_schedule(y.op)
    s[y].bind(y.op.axis[0], thread_axis("blockIdx.y"))
    s[y].bind(y.op.axis[1], thread_axis("threadIdx.z"))
    with pytest.raises(CodegenError, match=says):
        build(s, [x, y], target="cuda")


def test_sizes_that_need_more_blocks_than_a_gpu_starts(driver: HostDriver) -> None:
    size = n.Var("size", "int32")
    x = placeholder((size,), "int8", name="x")
    y = compute((size,), lambda i: x[i], name="y")
    s = create_schedule(y.op)
    s[y].bind(y.op.axis[0], thread_axis("blockIdx.y"))
    module = build(s, [x, y], target="cuda", name="rows")
    place = empty((65_536,), "int8", cuda(0))
    with pytest.raises(ArgumentError, match="rows_kernel would run in 1 x 65536 x 1 blocks"):
        module(place, place)
    del place


def test_copies_go_through_pinned_memory_in_pieces(driver: HostDriver) -> None:
    size = 2 * STAGING_BYTES + 12
    data = np.random.default_rng(0).integers(0, 255, size).astype(np.uint8)
    there = array(data, cuda(0))
    assert driver.copies == [STAGING_BYTES, STAGING_BYTES, 12]
    np.testing.assert_array_equal(there.copyto(empty((size,), "uint8", cuda(0))).numpy(), data)


def test_streams_belong_to_a_thread_and_a_device(driver: HostDriver, adding: Artifact) -> None:
    place = cuda(0)
    stream = place.create_raw_stream()
    place.set_raw_stream(stream)
    x = empty((4,), "float32", place)
    CUDAHostModule(adding)["add"](x, x, x)
    assert driver.launches[-1][5] is stream
    assert driver.launches[-1][0] == 0
    place.free_raw_stream(stream)
    CUDAHostModule(adding)["add"](x, x, x)
    assert driver.launches[-1][5] is None
    place.sync()
    del x


def test_time_is_that_between_events(driver: HostDriver, adding: Artifact) -> None:
    x = array(np.zeros(4, np.float32), cuda(0))
    result = CUDAHostModule(adding).time_evaluator("add", cuda(0), number=5, repeat=3)(x, x, x)
    assert result.results == pytest.approx((1e-6,) * 3)
    assert len(driver.launches) == 16
    CUDAHostModule(adding).time_evaluator("add", cuda(0), repeat=2, f_preproc="l2_cache_flush_cuda")(x, x, x)
    assert driver.filled == [2 * 4096] * 2
    with pytest.raises(DeviceError, match="cannot be timed on cpu"):
        CUDAHostModule(adding).time_evaluator("add", cpu())
    with pytest.raises(ArgumentError, match=r"the arrays are on cuda\(0\), to be timed is cuda\(1\)"):
        CUDAHostModule(adding).time_evaluator("add", cuda(1))(x, x, x)
    del x


def test_kernels_pass_results_on_through_workspaces(driver: HostDriver) -> None:
    a = placeholder((8, 40), name="A")
    k = reduce_axis((0, 40), name="k")
    total = compute((8,), lambda i: te_sum(a[i, k], axis=k), name="total")
    half = compute((8,), lambda i: total[i] * 0.5, name="half")
    module = build(schedules.schedule_reduce("cuda", [half]), [a, half], target="cuda", name="mean")
    assert isinstance(module, CUDAHostModule)
    [entry] = module.artifact.entries
    assert [(w.dtype, w.elements) for w in entry.workspaces] == [("float32", "8")]
    assert [launch.slots for launch in entry.launches] == [(0, 2), (1, 2)]

    def reduce_rows(x: np.ndarray, out: np.ndarray) -> None:
        out[:8] = x[:320].reshape(8, 40).sum(1)

    driver.kernels |= {"mean_kernel": reduce_rows, "mean_kernel_1": lambda out, sums: np.copyto(out[:8], sums[:8] / 2)}
    x = np.arange(320, dtype=np.float32).reshape(8, 40)
    result = empty((8,), "float32", cuda(0))
    module(array(x, cuda(0)), result)
    np.testing.assert_array_equal(result.numpy(), x.sum(1) / 2)
    del result


def test_sources_and_imports(adding: Artifact, tmp_path: Path) -> None:
    module = CUDAHostModule(adding)
    [device] = module.imported_modules
    assert isinstance(device, CUDAModule)
    assert device.type_key == "cuda"
    assert device.kernels == ["add_kernel"]
    assert device.get_function_list() == []
    assert ".visible .entry add_kernel(" in device.get_source() == module.get_source("ptx")
    assert 'thread="threadIdx.x"' in module.get_source()
    assert "ptx_kernel" in module.get_ir()
    with pytest.raises(ArtifactError, match="no source in format 'cu'"):
        device.get_source("cu")
    module.save(str(tmp_path / "add.tunefarm"))
    module.export_library(str(tmp_path / "again.tunefarm"))
    for name in ("add.tunefarm", "again.tunefarm"):
        again: Module = load_module(str(tmp_path / name))
        assert isinstance(again, CUDAHostModule)
        assert again.artifact.digest == adding.digest
        assert len(again.imported_modules) == 1


def test_artifacts_refuse_launches_that_cannot_be(adding: Artifact) -> None:
    text = adding.to_bytes()
    assert Artifact.from_bytes(text).entries == adding.entries
    for bad, says in [
        (lambda: Launch("k", ("1", "1", "1"), (2048, 1, 1), ()), "2048, 1, 1"),
        (lambda: Launch("k", ("1", "1", "1"), (1, 1, 128), ()), "1, 1, 128"),
        (lambda: Launch("k", ("import os", "1", "1"), (1, 1, 1), ()), "is no extent"),
        (lambda: Launch("a b", ("1", "1", "1"), (1, 1, 1), ()), "no kernel's name"),
        (lambda: Launch("k", ("1", "1", "1"), (1, 1, 1), (), 1 << 30), "shared memory"),
        (lambda: Workspace("float31", "4"), "workspace"),
    ]:
        with pytest.raises(ArtifactError, match=says):
            bad()


def test_a_host_and_a_device_part_in_one_build(adding: Artifact) -> None:
    x = placeholder((8,), name="x")
    y = compute((8,), lambda i: x[i] + 1.0, name="y")
    host, device = lower(create_schedule(y.op), [x, y], name="f"), lower(bound(y, 8), [x, y], name="g")
    module = build({"llvm": host, "cuda": device}, target_host="llvm")
    out = empty((8,))
    module["f"](array(np.zeros(8, np.float32)), out)
    assert out.numpy().tolist() == [1.0] * 8
    assert isinstance(module.imported_modules[0], CUDAHostModule)


def test_without_a_driver_the_device_says_why(monkeypatch: pytest.MonkeyPatch, adding: Artifact) -> None:
    monkeypatch.setitem(devices._apis, "cuda", AbsentAPI("PyCUDA cannot be imported"))
    place = Device("cuda", 0)
    assert not place.exist
    assert place.warp_size is None
    assert not CUDAHostModule(adding).is_runnable
    with pytest.raises(DeviceError, match=r"cuda\(0\) cannot be used: PyCUDA cannot be imported"):
        empty((4,), "float32", place)


@pytest.mark.gpu
def test_on_a_device(adding: Artifact) -> None:
    if not cuda(0).exist:
        pytest.skip("no CUDA device that PyCUDA can use")
    a = np.arange(1000, dtype=np.float32)
    out = empty((1000,), "float32", cuda(0))
    CUDAHostModule(adding)["add"](array(a, cuda(0)), array(a, cuda(0)), out)
    np.testing.assert_array_equal(out.numpy(), a + a)


def test_as_a_device_server_lists_it(driver: HostDriver, adding: Artifact) -> None:
    """A device server lists such a module's functions, and calls one by name."""
    module = CUDAHostModule(adding)
    holders = (*module._closure(), module)
    assert [name for found in holders for name in found.get_function_list()] == ["add"]
    x = array(np.ones(3, np.float32), cuda(0))
    module.get_function("add", query_imports=True)(x, x, x)
    assert x.numpy().tolist() == [2.0] * 3
    del x


def test_arrays_of_one_storage_lie_behind_each_other(driver: HostDriver) -> None:
    memory = MachineMemory({cuda(0): False})
    storage = memory.allocate(cuda(0), 4096)
    first, second = storage.tensor(0, (4,), "float32"), storage.tensor(64, (2, 2), "float32")
    first.copyfrom(np.arange(4, dtype="float32"))
    second.copyfrom(np.arange(4, 8, dtype="float32").reshape(2, 2))
    whole = storage.tensor(0, (32,), "float32").numpy()
    assert whole[:4].tolist() == [0, 1, 2, 3]
    assert whole[16:20].tolist() == [4, 5, 6, 7]
    second.copyto(storage.tensor(128, (2, 2), "float32"))
    assert storage.tensor(128, (4,), "float32").numpy().tolist() == [4, 5, 6, 7]
    del storage, first
    assert second.numpy().tolist() == [[4, 5], [6, 7]]  # it keeps the storage
