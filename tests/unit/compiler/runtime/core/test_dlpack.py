"""DLPack both ways: no copies, the right lifetimes, and refusals that say why."""

from __future__ import annotations

import ctypes
import gc
import importlib
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from compiler.driver import build as driver
from compiler.errors import ArgumentError
from compiler.runtime.core import dlpack
from compiler.runtime.core.device import cpu
from compiler.runtime.core.ndarray import NDArray, array, empty, from_dlpack
from compiler.te.operation import compute, placeholder
from compiler.te.schedule.schedule import create_schedule

DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "int64", "uint8", "uint32", "bool"]


class Lender:
    """A tensor made by hand, in a capsule without a destructor; counts the calls of its deleter."""

    def __init__(self, values: Any, versioned: bool = True, **fields: Any) -> None:
        self.values = np.asarray(values, "float32")
        self.deleted: list[int] = []
        self._deleter = dlpack.DELETER(self.deleted.append)
        ndim = self.values.ndim
        self._shape = (ctypes.c_int64 * ndim)(*self.values.shape)
        self._strides = (ctypes.c_int64 * ndim)(*(step // 4 for step in self.values.strides))
        self.managed = (dlpack.VersionedTensor if versioned else dlpack.ManagedTensor)()
        self.name = ctypes.create_string_buffer(b"dltensor_versioned" if versioned else b"dltensor")
        if isinstance(self.managed, dlpack.VersionedTensor):
            self.managed.major = 1
        self.managed.deleter = ctypes.cast(self._deleter, ctypes.c_void_p).value
        tensor = self.managed.tensor
        tensor.data, tensor.ndim = self.values.ctypes.data, ndim
        tensor.device.type = 1
        tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = 2, 32, 1
        tensor.shape = ctypes.cast(self._shape, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(self._strides, ctypes.POINTER(ctypes.c_int64))
        for path, value in fields.items():
            *parents, last = path.split("__")
            owner: Any = self.managed
            for parent in parents:
                owner = getattr(owner, parent)
            setattr(owner, last, value)

    def capsule(self) -> Any:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.managed), ctypes.addressof(self.name), None)


def capsule_name(capsule: Any) -> bytes:
    name: bytes = dlpack._name_of(capsule)
    return name


# -- handing out -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (2, 0, 4)], ids=str)
def test_every_dtype_goes_there_and_back(dtype: str, shape: tuple[int, ...]) -> None:
    made = empty(shape, dtype)
    made.as_bytes()[:] = bytes(i % 2 for i in range(made.nbytes))
    for capsule in (made.to_dlpack(), made.__dlpack__(max_version=(1, 0))):
        back = from_dlpack(capsule)
        assert (back.shape, back.dtype) == (shape, dtype)
        assert back.numpy().tobytes() == made.numpy().tobytes()
        if made.nbytes:
            assert back.data_ptr == made.data_ptr


def test_numpy_both_ways_shares() -> None:
    made = array(np.zeros((2, 3), "float32"))
    seen = np.from_dlpack(made)
    seen[1, 2] = 4
    assert made[1, 2] == 4
    source = np.zeros((2, 3), "float16")
    taken = from_dlpack(source)
    source[0, 1] = 2
    assert taken[0, 1] == 2
    assert taken.dtype == "float16"


def test_bfloat16_is_said_to_be_one() -> None:
    made = array(np.array([1.5, -2], ml_dtypes.bfloat16))
    managed = dlpack._managed(capsule := made.__dlpack__())
    assert (managed.tensor.dtype.code, managed.tensor.dtype.bits) == (4, 16)
    back = from_dlpack(capsule)
    assert back.dtype == "bfloat16"
    assert back.numpy().tolist() == [1.5, -2]


def test_versions() -> None:
    made = empty((2,))
    assert capsule_name(made.__dlpack__()) == b"dltensor"
    assert capsule_name(made.__dlpack__(max_version=(0, 8))) == b"dltensor"
    assert capsule_name(made.__dlpack__(max_version=(1, 0))) == b"dltensor_versioned"
    assert capsule_name(made.__dlpack__(max_version=(2, 5))) == b"dltensor_versioned"


def test_the_device_is_told() -> None:
    made = empty((2,), device=cpu(3))
    assert made.__dlpack_device__() == (1, 3)
    tensor = dlpack._managed(capsule := made.__dlpack__(dl_device=(1, 3))).tensor
    assert (tensor.device.type, tensor.device.index) == (1, 3)
    del capsule
    with pytest.raises(BufferError, match=r"device \(2, 0\) needs a copy"):
        made.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="no streams"):
        made.__dlpack__(stream=1)


def test_a_copy_is_one_and_says_so() -> None:
    made = array(np.zeros(4, "float32"))
    managed = dlpack._managed(capsule := made.__dlpack__(max_version=(1, 0), copy=True))
    assert isinstance(managed, dlpack.VersionedTensor)
    assert managed.flags & dlpack.IS_COPIED
    from_dlpack(capsule)[:] = np.ones(4)
    assert made.numpy().sum() == 0
    shared = dlpack._managed(capsule := made.__dlpack__(max_version=(1, 0), copy=False))
    assert isinstance(shared, dlpack.VersionedTensor)
    assert shared.flags == 0
    assert shared.tensor.data == made.data_ptr


@pytest.mark.parametrize("use", [np.from_dlpack, from_dlpack, NDArray.to_dlpack], ids=["numpy", "ours", "unused"])
def test_a_consumer_outlives_the_producer(use: Callable[[Any], Any]) -> None:
    made = array(np.arange(1000, dtype="float32"))
    gone = weakref.ref(made.handle.data.base)
    held = use(made)
    del made
    gc.collect()
    assert gone() is not None
    if not isinstance(held, NDArray) and hasattr(held, "sum"):
        assert held.sum() == 499500
    del held
    gc.collect()
    assert gone() is None


def test_an_unused_capsule_lets_go_while_an_error_passes() -> None:
    def fail() -> None:
        capsule = empty((8,)).__dlpack__()
        raise KeyError(capsule)

    for _ in range(100):
        with pytest.raises(KeyError):
            fail()


# -- taking in -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("versioned", [True, False])
def test_the_deleter_is_called_once_when_the_last_user_is_gone(versioned: bool) -> None:
    lender = Lender([[1, 2], [3, 4]], versioned)
    capsule = lender.capsule()
    taken = from_dlpack(capsule)
    assert capsule_name(capsule).startswith(b"used_dltensor")
    np.testing.assert_array_equal(taken.numpy(), lender.values)
    view, part = np.asarray(taken)[1:], taken._create_view((4,))
    del taken
    gc.collect()
    assert lender.deleted == []
    assert view.tolist() == [[3, 4]]
    del view
    gc.collect()
    assert lender.deleted == []
    del part, capsule
    gc.collect()
    assert lender.deleted == [ctypes.addressof(lender.managed)]


def test_a_capsule_is_used_once() -> None:
    lender = Lender([1, 2])
    capsule = lender.capsule()
    first = from_dlpack(capsule)
    with pytest.raises(ArgumentError, match="used before"):
        from_dlpack(capsule)
    ours = empty((2,)).to_dlpack()
    np.from_dlpack(Once(ours))
    with pytest.raises(ArgumentError, match="used before"):
        from_dlpack(ours)
    del first
    gc.collect()
    assert len(lender.deleted) == 1


class Once:
    """An object around a capsule, as numpy expects it."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_an_old_maker_without_options() -> None:
    lender = Lender([5, 6], versioned=False)

    class Old:
        def __dlpack__(self, stream: Any = None) -> Any:
            return lender.capsule()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    assert from_dlpack(Old()).numpy().tolist() == [5, 6]


def test_offsets_missing_strides_and_no_deleter() -> None:
    lender = Lender([1, 2, 3, 4])
    lender.managed.tensor.byte_offset = 8
    lender.managed.tensor.shape[0] = 2
    lender.managed.tensor.strides = None
    lender.managed.deleter = None
    assert from_dlpack(lender.capsule()).numpy().tolist() == [3, 4]


def test_a_stride_where_the_extent_is_one_means_nothing() -> None:
    lender = Lender([[1, 2, 3]])
    lender.managed.tensor.strides[0] = 77
    assert from_dlpack(lender.capsule()).shape == (1, 3)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"major": 2}, r"speaks DLPack 2\.0"),
        ({"tensor__device__type": 2}, "device of type 2, not in host memory"),
        ({"tensor__dtype__code": 5, "tensor__dtype__bits": 64}, "its dtype"),
        ({"tensor__dtype__lanes": 4}, "4 lanes"),
        ({"tensor__dtype__bits": 4}, "4 bits"),
    ],
)
def test_refusals_leave_the_capsule_alone(fields: dict[str, Any], match: str) -> None:
    lender = Lender([1, 2], **fields)
    capsule = lender.capsule()
    with pytest.raises(ArgumentError, match=match):
        from_dlpack(capsule)
    assert capsule_name(capsule) == b"dltensor_versioned"
    assert lender.deleted == []


def test_layouts_and_things_that_cannot_be_shared() -> None:
    for strange in (np.zeros((4, 4)).T, np.zeros(8)[::2], np.broadcast_to(np.zeros(1), (3,)).copy()[::-1]):
        with pytest.raises(ArgumentError, match="not C-contiguous"):
            from_dlpack(strange)
    with pytest.raises(ArgumentError, match="int does not speak DLPack"):
        from_dlpack(3)
    with pytest.raises(ArgumentError, match=r"capsule of 'datetime\.datetime_CAPI'"):
        from_dlpack(importlib.import_module("datetime").datetime_CAPI)


def test_memory_on_another_device_is_refused_before_a_capsule_is_made() -> None:
    class Far:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

        def __dlpack__(self, **options: Any) -> Any:
            raise AssertionError("asked for a capsule")

    with pytest.raises(ArgumentError, match="device of type 2"):
        from_dlpack(Far())


# -- torch, where it is installed ------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int64", "bool"])
def test_torch_both_ways(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    taken = from_dlpack(tensor)
    assert (taken.shape, taken.dtype, taken.data_ptr) == ((2, 3), dtype, tensor.data_ptr())
    tensor[1, 2] = 0
    assert taken[1, 2] == 0
    back = torch.from_dlpack(taken)
    assert back.dtype == tensor.dtype
    assert back.data_ptr() == tensor.data_ptr()
    del tensor, taken
    gc.collect()
    assert back.to(torch.float32)[0, 1] == 1
    with pytest.raises(ArgumentError, match="not C-contiguous"):
        from_dlpack(back.T)
    with pytest.raises(ArgumentError, match="cannot share"):
        from_dlpack(torch.zeros(2, requires_grad=True))


def test_a_kernel_on_torchs_memory() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    a = placeholder((64,), name="A")
    b = compute((64,), lambda i: a[i] * 2, name="B")
    module = driver.build(create_schedule(b.op), [a, b], target="llvm", name="twice")
    source, result = torch.arange(64, dtype=torch.float32), torch.zeros(64)
    module(from_dlpack(source), from_dlpack(result))
    assert torch.equal(result, 2 * source)
