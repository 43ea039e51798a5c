"""Arrays: construction, copies, sharing with numpy, and devices that keep memory elsewhere."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from compiler.errors import ArgumentError, DeviceError
from compiler.runtime.core.absent import AbsentAPI
from compiler.runtime.core.device import Device, DeviceAPI, cpu, vpi
from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.core.ndarray import NDArray, array, empty, from_dlpack, zeros

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32"]
DTYPES += ["float64", "bool"]


class Bank(AbsentAPI):
    """Memory that can only be reached by copying."""

    def __init__(self) -> None:
        super().__init__("it is only a test")
        self.memory: dict[int, bytearray] = {}
        self.next = 0

    def exist(self, device: Device) -> bool:
        return True

    def allocate(self, device: Device, nbytes: int) -> int:
        self.next += 1
        self.memory[self.next] = bytearray(nbytes)
        return self.next

    def free(self, device: Device, handle: int) -> None:
        del self.memory[handle]

    def copy_from_host(self, device: Device, handle: int, data: memoryview) -> None:
        assert len(data) == len(self.memory[handle])
        self.memory[handle][:] = data

    def copy_to_host(self, device: Device, handle: int, out: memoryview) -> None:
        out[:] = self.memory[handle]

    def copy_within(self, device: Device, source: int, target: int, nbytes: int) -> None:
        self.memory[target][:] = self.memory[source]


@dataclass(frozen=True, repr=False)
class BankDevice(Device):
    bank: Bank = field(default_factory=Bank, hash=False)

    @property
    def api(self) -> DeviceAPI:
        return self.bank


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 0, 4), (7, 1, 3)])
def test_round_trip(dtype: str, shape: tuple[int, ...]) -> None:
    source = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    made = array(source)
    assert (made.shape, made.dtype, made.device) == (shape, dtype, cpu())
    assert (made.ndim, made.size, made.nbytes) == (source.ndim, source.size, source.nbytes)
    assert made.data_ptr % 64 == 0
    np.testing.assert_array_equal(made.numpy(), source)
    assert made.numpy().dtype == source.dtype


def test_array_copies_and_numpy_copies() -> None:
    source = np.arange(4, dtype="float32")
    made = array(source)
    source[0] = 9
    out = made.numpy()
    assert out[0] == 0
    out[1] = 9
    assert made.numpy()[1] == 1


def test_numpy_can_share_the_memory() -> None:
    made = array(np.arange(4, dtype="float32"))
    np.asarray(made)[0] = 5
    np.from_dlpack(made)[1] = 6  # type: ignore[arg-type]
    assert made.numpy().tolist() == [5, 6, 2, 3]
    assert made.__dlpack_device__() == (1, 0)
    assert np.asarray(made, dtype="float64").dtype == np.float64
    assert not np.shares_memory(np.array(made), np.asarray(made))


def test_from_other_layouts() -> None:
    base = np.arange(12, dtype=">i4").reshape(3, 4)
    np.testing.assert_array_equal(array(base.T).numpy(), base.T)
    assert array(base).dtype == "int32"
    np.testing.assert_array_equal(array(base[::2, ::-1]).numpy(), base[::2, ::-1])
    assert array([1.0, 2.0]).dtype == "float64"
    assert array([1.0, 2.0], dtype="float32").dtype == "float32"
    assert array(array([1, 2])).numpy().tolist() == [1, 2]
    assert array(array([1.0, 2.0]), dtype="float32").dtype == "float32"


def test_empty_and_zeros() -> None:
    assert empty((2, 3)).dtype == "float32"
    assert empty(5, "int8").shape == (5,)
    assert empty(1, np.float16).dtype == "float16"
    assert empty([np.int64(2), 2], "int8").shape == (2, 2)
    assert zeros((2, 2), "int16").numpy().tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("shape", [(-1,), (2.5,), ("3",), (True,)])
def test_impossible_shapes(shape: Any) -> None:
    with pytest.raises(ArgumentError, match="non-negative integers"):
        empty(shape)


@pytest.mark.parametrize("dtype", ["float33", "handle", "float32x4", "int4", "complex64", "object"])
def test_impossible_dtypes(dtype: str) -> None:
    with pytest.raises(ArgumentError, match="cannot have dtype"):
        empty((1,), dtype)
    if dtype in ("complex64", "object"):
        with pytest.raises(ArgumentError, match="cannot have dtype"):
            array(np.zeros(2, dtype))


def test_other_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match="device is wanted"):
        empty((1,), "float32", "cpu")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="memory scope"):
        empty((1,), "float32", cpu(), "global.texture")
    with pytest.raises(DeviceError, match="cannot allocate"):
        empty((1 << 60,), "int8")
    with pytest.raises(DeviceError, match=r"vpi\(0\) cannot be used"):
        array(np.zeros(3), vpi())


def test_copyfrom_casts_only_within_a_kind() -> None:
    target = zeros((3,), "float32")
    target.copyfrom(np.array([1, 2, 3], "float64"))
    target.copyfrom([4, 5, 6])
    assert target.numpy().tolist() == [4, 5, 6]
    with pytest.raises(ArgumentError, match="float64 into int32"):
        zeros((1,), "int32").copyfrom(np.array([1.5]))
    with pytest.raises(ArgumentError, match="shape"):
        target.copyfrom(np.zeros(4, "float32"))
    with pytest.raises(ArgumentError, match="shape"):
        target.copyfrom(np.float32(1))


def test_copyto() -> None:
    source = array(np.arange(3, dtype="float32"))
    target = zeros((3,))
    assert source.copyto(target) is target
    assert source.copyto(cpu(1)).device == cpu(1)
    assert target.numpy().tolist() == [0, 1, 2]
    with pytest.raises(ArgumentError, match=r"float32\[3\] into float32\[4\]"):
        source.copyto(zeros((4,)))
    with pytest.raises(ArgumentError, match=r"float32\[3\] into int32\[3\]"):
        source.copyto(zeros((3,), "int32"))
    with pytest.raises(ArgumentError, match="not to ndarray"):
        source.copyto(np.zeros(3))  # type: ignore[arg-type]


def test_indexing() -> None:
    made = zeros((2, 2))
    made[:] = 3
    made[0, 1] = 4
    assert made[0].tolist() == [3, 4]
    assert len(made) == 2
    assert "float32" in repr(made)
    with pytest.raises(TypeError, match="no length"):
        len(zeros(()))


def test_bfloat16_rounds_to_nearest_even() -> None:
    values = np.array([1.0, -2.5, 3.14159, np.inf, np.nan, 1 + 2**-8, 1 + 3 * 2**-8, 0.0], "float32")
    made = zeros((8,), "bfloat16").copyfrom(values)
    assert made.nbytes == 16
    bits = made.numpy().view("uint16")
    assert bits[[0, 1, 2, 3, 5, 6, 7]].tolist() == [0x3F80, 0xC020, 0x4049, 0x7F80, 0x3F80, 0x3F82, 0]
    assert bits[4] & 0x7FFF > 0x7F80
    again = zeros((8,), "bfloat16").copyfrom(made.numpy())
    assert again.numpy().tobytes() == made.numpy().tobytes()
    assert storage_dtype("bfloat16").itemsize == 2


def test_from_dlpack_shares() -> None:
    source = np.zeros((4, 4), "float32")
    made = from_dlpack(source)
    source[1, 1] = 7
    assert made[1, 1] == 7
    del source
    gc.collect()
    assert made[1, 1] == 7
    with pytest.raises(ArgumentError, match="not C-contiguous"):
        from_dlpack(np.zeros((4, 4)).T)
    with pytest.raises(ArgumentError, match="does not speak DLPack"):
        from_dlpack([1, 2])


def test_alignment_is_known() -> None:
    raw = np.zeros(1024, "uint8")
    start = -raw.ctypes.data % 64
    assert from_dlpack(raw[start : start + 64]).is_aligned
    assert not from_dlpack(raw[start + 4 : start + 68]).is_aligned


def test_memory_elsewhere() -> None:
    place = BankDevice("ext_dev", 0)
    bank = place.bank
    source = np.arange(6, dtype="float32").reshape(2, 3)
    far = array(source, place)
    assert not far.is_host
    assert "ext_dev(0)" in repr(far)
    np.testing.assert_array_equal(far.numpy(), source)
    np.testing.assert_array_equal(np.asarray(far), source)
    np.testing.assert_array_equal(far[1], source[1])
    second = far.copyto(empty((2, 3), "float32", place))  # on the device
    np.testing.assert_array_equal(second.numpy(), source)
    back = second.copyto(cpu())
    np.testing.assert_array_equal(back.numpy(), source)
    elsewhere = far.copyto(BankDevice("ext_dev", 1))  # from device to device
    np.testing.assert_array_equal(elsewhere.numpy(), source)
    far[:] = 0
    assert far.numpy().sum() == 0
    empty((0,), "float32", place).copyfrom(np.zeros(0, "float32"))
    for use in (NDArray.as_bytes, NDArray.__dlpack__, lambda x: x.data_ptr, lambda x: x.__setitem__(0, 1)):
        with pytest.raises(DeviceError, match="not in host memory"):
            use(far)
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(far, copy=False)
    del far, second
    gc.collect()
    assert bank.memory == {}


def test_as_bytes_is_the_memory() -> None:
    made = zeros((2, 2), "int32")
    view = made.as_bytes()
    assert view.nbytes == 16
    view[0] = 5
    assert made[0, 0] == 5
    assert isinstance(made, NDArray)
