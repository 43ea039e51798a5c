"""Calls of PyCUDA, and when they come: contexts, finalizers, preparing kernels, streams that are given up."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from compiler.errors import DeviceError
from compiler.runtime.cuda import pycuda_driver as cuda_runtime
from compiler.runtime.cuda.pycuda_driver import PyCudaDriver


class Error(Exception):
    pass


class PyCuda:
    """PyCUDA's driver module, as far as contexts and kernels go. `current` are the contexts pushed and not popped."""

    Error = Error

    def __init__(self) -> None:
        self.current: list[int] = []
        self.on_retain: Any = lambda number: None
        self.ended: list[bool] = []  # whether a context was current when a stream ended

    def Device(self, number: int) -> Any:
        if number > 1:
            raise Error("cuDeviceGet failed: invalid device ordinal")
        return SimpleNamespace(retain_primary_context=lambda: self._retain(number))

    def _retain(self, number: int) -> Any:
        self.on_retain(number)
        return SimpleNamespace(push=lambda: self.current.append(number), pop=self.current.pop)

    def Stream(self, flags: int = 0) -> Any:
        return Stream(self)


class Stream:
    handle = 7

    def __init__(self, cuda: PyCuda) -> None:
        self.cuda = cuda

    def synchronize(self) -> None:
        assert self.cuda.current

    def __del__(self) -> None:
        self.cuda.ended.append(bool(self.cuda.current))


class Function:
    """A kernel as PyCUDA has it: what it is passed is a state of it."""

    def __init__(self) -> None:
        self.prepared: list[str] = []
        self.calls: list[Any] = []

    def prepare(self, codes: str) -> Function:
        self.prepared.append(codes)
        return self

    def prepared_async_call(self, grid: Any, block: Any, stream: Any, *values: Any, shared_size: int = 0) -> None:
        self.calls.append((self.prepared[-1], values))


@pytest.fixture
def pycuda() -> PyCuda:
    return PyCuda()


def test_memory_is_given_back_while_another_context_is_opened(pycuda: PyCuda) -> None:
    """The collector may run then, in the same thread, and come upon memory of another device."""
    driver, freed = PyCudaDriver(pycuda), []
    owner = SimpleNamespace(free=lambda: freed.append(pycuda.current[-1]))
    driver.free(0, owner)
    pycuda.on_retain = lambda number: driver.free(0, owner)
    opening = threading.Thread(target=driver.free, args=(1, owner), daemon=True)
    opening.start()
    opening.join(60)
    assert freed == [0, 0, 1]
    assert not pycuda.current


def test_a_kernel_is_prepared_before_threads_start_it(pycuda: PyCuda) -> None:
    driver, kernel = PyCudaDriver(pycuda), Function()
    found = driver.function(0, SimpleNamespace(get_function=lambda _name: kernel), "k", 0, "TPi")
    for value in (1, 2):
        driver.launch(0, found, (1, 1, 1), (32, 1, 1), 0, None, (b"map", 64, value))
    assert kernel.prepared == ["128sPi"]
    assert kernel.calls == [("128sPi", (b"map", 64, 1)), ("128sPi", (b"map", 64, 2))]


def test_a_stream_for_recording_ends_in_its_context(pycuda: PyCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere PyCUDA would keep it for good, where the context was opened in another thread."""
    graphs = SimpleNamespace(record=lambda stream, submit: submit() or 90, destroy=lambda recorded: None)
    monkeypatch.setattr(cuda_runtime, "find_graphs", lambda: graphs)
    assert PyCudaDriver(pycuda).graph(0, lambda stream: None) is not None
    assert pycuda.ended == [True]


def test_errors_of_devices_are_ours(pycuda: PyCuda) -> None:
    with pytest.raises(DeviceError, match=r"cuda\(5\): cuDeviceGet failed: invalid device ordinal"):
        PyCudaDriver(pycuda).attribute(5, "warp_size")
