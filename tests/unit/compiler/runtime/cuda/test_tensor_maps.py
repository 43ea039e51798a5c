"""Descriptions of matrices: in artifacts, as libcuda is asked for them, and as kernels of warpgroups are started."""

from __future__ import annotations

import ctypes
from typing import Any

import msgspec
import numpy as np
import pytest

from compiler.artifact import Artifact
from compiler.driver.build import compile_artifact
from compiler.errors import ArtifactError, DeviceError
from compiler.launches import Launch, TensorMap
from compiler.runtime.core import device as devices
from compiler.runtime.core.device import cuda
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.cuda import pycuda_driver as cuda_runtime
from compiler.runtime.cuda import tensor_maps as cuda_tensor_maps
from compiler.runtime.cuda.device import CudaAPI
from compiler.runtime.cuda.module import CUDAHostModule
from compiler.runtime.cuda.tensor_maps import find_encoder
from compiler.target.gpu_arch import arch_of_version
from compiler.tensorcore.warpgroup import WarpgroupTile, dense
from tests.kit.gpu.ptx_warpgroup_machine import tensor_map
from tests.kit.places import STAND_IN, loaded

MAP = TensorMap(0, "bfloat16", (100, 72), (64, 64))


class Libcuda:
    """The one call, made as ctypes would make it."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.asked: list[tuple[Any, ...]] = []
        self.cuTensorMapEncodeTiled = _Function(self)


class _Function:
    def __init__(self, library: Libcuda) -> None:
        self.library = library
        self.argtypes: tuple[Any, ...] = ()
        self.restype: Any = None

    def __call__(self, place: int, dtype: int, rank: int, address: int, *rest: Any) -> int:
        assert len(self.argtypes) == 4 + len(rest)
        assert place % 64 == 0
        sizes, strides, box, steps, *modes = rest
        self.library.asked.append((dtype, rank, address, *(list(x) for x in (sizes, strides, box, steps)), *modes))
        ctypes.memmove(place, tensor_map(address, sizes[1], sizes[0], strides[0], (box[1], box[0]), dtype), 128)
        return self.library.code


def test_libcuda_is_asked_with_the_inner_dimension_first() -> None:
    library = Libcuda()
    encode = find_encoder(lambda _name: library)
    assert encode is not None
    assert encode(MAP, 0x7000) == tensor_map(0x7000, 100, 72, 144, (64, 64), 9)
    assert library.asked == [(9, 2, 0x7000, [72, 100], [144], [64, 64], [1, 1], 0, 3, 3, 0)]
    refused = find_encoder(lambda _name: Libcuda(1))
    assert refused is not None
    with pytest.raises(DeviceError, match="failed with error 1 for 100 x 72 bfloat16 at 0x7001"):
        refused(MAP, 0x7001)


def test_libcuda_may_not_have_it() -> None:
    def absent(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    assert find_encoder(absent) is None
    assert find_encoder(lambda _name: object()) is None


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> cuda_runtime.PyCudaDriver:
    """PyCUDA's stand-in, whose kernels are run from their PTX, with a libcuda that describes matrices."""
    module = loaded(STAND_IN / "pycuda" / "driver.py", "pycuda_driver_of_warpgroups")
    library = Libcuda()
    monkeypatch.setattr(cuda_tensor_maps, "find_encoder", lambda: find_encoder(lambda _name: library))
    made = cuda_runtime.PyCudaDriver(module)
    monkeypatch.setitem(devices._apis, "cuda", CudaAPI(made))
    return made


@pytest.mark.parametrize("transposed", [True, False])
def test_a_kernel_of_warpgroups_is_started_and_run_from_its_ptx(
    driver: cuda_runtime.PyCudaDriver, transposed: bool
) -> None:
    tile = WarpgroupTile(64, 16 if transposed else 64, groups=1, stages=2, blocks=2)
    func = dense(72, 24, 136, "float16", tile, transposed=transposed, out_dtype="float16")
    artifact = Artifact.from_bytes(compile_artifact(func, "cuda -arch=sm_90a", name="product").to_bytes())
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((72, 136), (24, 136)))
    out = empty((72, 24), "float16", cuda(0))
    CUDAHostModule(artifact)["product"](array(x, cuda(0)), array(w if transposed else w.T.copy(), cuda(0)), out)
    np.testing.assert_array_equal(out.numpy(), (x.astype(np.float32) @ w.T.astype(np.float32)).astype(np.float16))


def test_a_driver_that_describes_no_matrices(
    driver: cuda_runtime.PyCudaDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_encode", None)
    with pytest.raises(DeviceError, match="no cuTensorMapEncodeTiled"):
        driver.tensor_map(0, MAP, 0)


def test_artifacts_of_before_read_as_they_did() -> None:
    old = {"symbol": "k", "grid": ["1", "1", "1"], "block": [1, 1, 1], "slots": [0], "shared_bytes": 0}
    assert msgspec.convert(old, Launch) == Launch("k", ("1", "1", "1"), (1, 1, 1), (0,))


@pytest.mark.parametrize(
    ("maps", "words"),
    [
        ([("float32", (64, 64), (64, 64))], "matrix of 'float32'"),
        ([("float16", (64, 60), (64, 64))], "cannot copy"),
        ([("float16", (64, 64), (512, 64))], "cannot copy"),
        ([("float16", (64, 64), (64, 64))] * 2, "more tensor maps than arguments"),
    ],
)
def test_impossible_descriptions(maps: list[tuple[Any, ...]], words: str) -> None:
    with pytest.raises(ArtifactError, match=words):
        Launch("k", ("1", "1", "1"), (1, 1, 1), (0,), 0, tuple(TensorMap(i, *m) for i, m in enumerate(maps)))
    with pytest.raises(ArtifactError, match="tensor maps come first"):
        Launch("k", ("1", "1", "1"), (1, 1, 1), (0, 1), 0, (TensorMap(1, "float16", (64, 64), (64, 64)),))


def test_architectures_by_compute_capability() -> None:
    assert [arch_of_version(v) for v in ("8.0", "9.0", "12.0")] == ["sm_80", "sm_90a", "sm_120"]
