"""What a trial measures: a function with its arguments, ready to run on the CPU or on a GPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from compiler.errors import DeviceError
from compiler.runtime.core.cpu_function import CPUFunction
from compiler.runtime.core.device import Device, used_api
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.cuda.calls import CallTimer
from compiler.runtime.cuda.device import CudaAPI
from compiler.runtime.cuda.module import CUDAFunction, cuda_api, flush_l2
from compiler.runtime.measure import conditions
from compiler.runtime.measure.nvml import gpu_state
from compiler.runtime.measure.preprocess import flush_caches
from rpc_server.box.crash import GPU_LOST

_FIRST = Device("cuda", 0)  # the one GPU that an executor sees


class Subject(Protocol):
    """Methods raise KernelError or DeviceError when the function fails."""

    def call(self) -> None:
        """Run it once, to its end."""

    def timed(self, number: int) -> int:
        """Run it `number` times. Returns nanoseconds."""

    def flush(self) -> None:
        """Empty the caches that the arguments may be in."""

    def environment(self) -> dict[str, float]:
        """What may explain an odd time, as numbers, beside what the host tells."""


class OnCPU:
    def __init__(self, function: CPUFunction, arguments: list[Any]) -> None:
        self._function = function
        self._arguments = arguments
        self._slots = b""

    def call(self) -> None:
        self._function(*self._arguments)

    def timed(self, number: int) -> int:
        self._slots = self._slots or self._function.pack(tuple(self._arguments))
        return self._function.run_timed(self._slots, number)

    def flush(self) -> None:
        flush_caches([argument for argument in self._arguments if isinstance(argument, NDArray)])

    def environment(self) -> dict[str, float]:
        degrees = conditions.temperature()
        return {} if degrees is None else {"temperature": degrees}


class OnGPU:
    """Timed by the device's own events around all the calls of a sample (see `cuda_calls`)."""

    def __init__(self, function: CUDAFunction, arguments: list[Any], place: Device) -> None:
        self._place = place
        self._api = cuda_api(place)
        self._arguments = arguments
        with ending_if_lost(place):
            self._run = function.prepare(tuple(arguments))
            self._timer = CallTimer(self._run)

    def call(self) -> None:
        with ending_if_lost(self._place):
            self._run()
            self._api.sync(self._place)

    def timed(self, number: int) -> int:
        with ending_if_lost(self._place):
            return self._timer(number)

    def flush(self) -> None:
        with ending_if_lost(self._place):
            flush_l2(*self._arguments)

    def environment(self) -> dict[str, float]:
        state = gpu_state(self._place.device_id)
        if state is None:
            return {}
        return {
            "gpu_clock_mhz": float(state.clock),
            "gpu_memory_clock_mhz": float(state.memory_clock),
            "gpu_temperature": float(state.temperature),
            "gpu_power_w": state.power,
            "gpu_slowed": float(bool(state.slowed_by)),
        }


def subject(function: CPUFunction | CUDAFunction, arguments: list[Any], place: Device) -> Subject:
    """Raises DeviceError when the GPU does not take the kernels."""
    if isinstance(function, CUDAFunction):
        return OnGPU(function, arguments, place)
    return OnCPU(function, arguments)


@contextmanager
def ending_if_lost(place: Device) -> Iterator[None]:
    """`end_if_lost` for a DeviceError raised inside."""
    try:
        yield
    except DeviceError as error:
        end_if_lost(error, place)
        raise


def end_if_lost(error: DeviceError, place: Device = _FIRST) -> None:
    """End this process when `error` turns out to have spoiled its context on the GPU `place`.

    After an access to memory that is not the kernel's, every call of the process on that device fails, for good: only a
    fresh process can go on. The error's words, on stderr, are what the client gets to read.
    """
    if place.device_type == "cuda" and is_lost(place):
        sys.stderr.write(f"the GPU context is spoiled: {error.message}\n")
        sys.stderr.flush()
        os._exit(GPU_LOST)  # not sys.exit: destructors would call the driver, which may hang


def is_lost(place: Device) -> bool:
    """Whether no call works any more. An error that is no more than its own, such as too little memory, passes."""
    api = used_api(place.device_type)
    if not isinstance(api, CudaAPI):
        return False
    try:
        api.sync(place)
    except DeviceError:
        return True
    return False
