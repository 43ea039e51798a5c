"""PyCUDA's driver calls over host memory, for processes that are started with this folder on their path. Kernels are
run from their PTX (`ptx_machine`); an access to memory that was not allocated spoils the context, as it does on a GPU.

Sees one device, which CUDA_VISIBLE_DEVICES must name: "0" or a name that begins with "GPU-".
"""

from __future__ import annotations

import os
import re
import time
from typing import Any

import numpy as np

from tests.kit.gpu import ptx_machine


class Error(Exception):
    pass


_spoiled = ""
_memory: dict[int, np.ndarray[Any, Any]] = {}


class _Names:
    def __getattr__(self, name: str) -> str:
        return name


device_attribute = function_attribute = _Names()
_ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": 1024, "WARP_SIZE": 32, "MAX_SHARED_MEMORY_PER_BLOCK": 49152, "CLOCK_RATE": 1_000_000,
    "MULTIPROCESSOR_COUNT": 1, "L2_CACHE_SIZE": 4096,
}  # fmt: skip


def _check() -> None:
    if _spoiled:
        raise Error(f"failed: {_spoiled}")


def init() -> None:
    if not os.environ.get("CUDA_VISIBLE_DEVICES", "0").startswith(("GPU-", "0")):
        raise Error("cuInit failed: no CUDA-capable device is detected")


def get_driver_version() -> int:
    return 13000


class Context:
    def push(self) -> None:
        pass

    @staticmethod
    def pop() -> None:
        pass

    @staticmethod
    def synchronize() -> None:
        _check()


class Device:
    def __init__(self, number: int) -> None:
        self.number = number

    @staticmethod
    def count() -> int:
        return 1

    def retain_primary_context(self) -> Context:
        return Context()

    def get_attribute(self, name: str) -> int:
        return _ATTRIBUTES.get(name, 1024)

    def compute_capability(self) -> tuple[int, int]:
        return 8, 0

    def name(self) -> str:
        return "Stand-in GPU"

    def total_memory(self) -> int:
        return 1 << 20


class Allocation:
    def __init__(self, nbytes: int) -> None:
        self.data = np.empty(nbytes, np.uint8)
        self.address = self.data.ctypes.data
        _memory[self.address] = self.data

    def __int__(self) -> int:
        return self.address

    def free(self) -> None:
        _check()
        del _memory[self.address]


def mem_alloc(nbytes: int) -> Allocation:
    _check()
    return Allocation(nbytes)


def pagelocked_empty(nbytes: int, dtype: Any) -> np.ndarray[Any, Any]:
    _check()
    return np.empty(nbytes, dtype)


def _at(address: int, nbytes: int) -> memoryview:
    for start, data in _memory.items():
        if start <= address and address + nbytes <= start + data.nbytes:
            return memoryview(data)[address - start : address - start + nbytes]
    raise ptx_machine.IllegalAccess(hex(address))


def memcpy_htod_async(address: int, source: np.ndarray[Any, Any], stream: Any) -> None:
    _check()
    _at(address, source.nbytes)[:] = source.tobytes()


def memcpy_dtoh_async(target: np.ndarray[Any, Any], address: int, stream: Any) -> None:
    _check()
    target[:] = np.frombuffer(_at(address, target.nbytes), np.uint8)


def memcpy_dtod_async(target: int, source: int, nbytes: int, stream: Any) -> None:
    _check()
    _at(target, nbytes)[:] = _at(source, nbytes).tobytes()


def memset_d8_async(address: int, value: int, nbytes: int, stream: Any) -> None:
    _check()
    _at(address, nbytes)[:] = bytes([value]) * nbytes


class Stream:
    handle = 0

    def __init__(self, flags: int = 0) -> None:
        self.flags = flags

    def synchronize(self) -> None:
        _check()


class Event:
    at = 0.0

    def record(self, stream: Any = None) -> None:
        _check()
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        _check()

    def time_since(self, start: Event) -> float:
        return 1e3 * (self.at - start.at)


def module_from_buffer(ptx: bytes, message_handler: Any = None) -> Module:
    _check()
    return Module(ptx_machine.kernels(ptx.decode()))


class Module:
    def __init__(self, kernels: dict[str, ptx_machine.Kernel]) -> None:
        self.kernels = kernels

    def get_function(self, symbol: str) -> Function:
        return Function(self.kernels[symbol])


class Function:
    def __init__(self, kernel: ptx_machine.Kernel) -> None:
        self.kernel = kernel
        self.codes = ""

    def set_attribute(self, name: str, value: int) -> None:
        assert name == "MAX_DYNAMIC_SHARED_SIZE_BYTES"

    def prepare(self, codes: str) -> Function:
        self.codes = codes
        return self

    def prepared_async_call(
        self, grid: tuple[int, ...], block: tuple[int, ...], stream: Any, *values: Any, shared_size: int = 0
    ) -> None:
        global _spoiled
        _check()
        codes = re.findall(r"\d*.", self.codes)
        bits = [ptx_machine.argument(code, value) for code, value in zip(codes, values, strict=True)]
        try:
            self.kernel.launch(_at, grid, block, bits, shared_size)
        except ptx_machine.IllegalAccess:
            _spoiled = "an illegal memory access was encountered"  # what comes after is told, not this call
