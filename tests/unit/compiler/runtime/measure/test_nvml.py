"""The state of a GPU, from what NVML says."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from compiler.runtime.measure.nvml import GpuState, gpu_state, gpu_warnings


class NVMLError(Exception):
    pass


def nvml(reasons: int, devices: int = 1) -> SimpleNamespace:
    def handle(index: int) -> int:
        if index >= devices:
            raise NVMLError
        return index

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlClocksThrottleReasonSwThermalSlowdown=32,
        nvmlClocksThrottleReasonHwThermalSlowdown=64,
        nvmlClocksThrottleReasonSwPowerCap=4,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetClockInfo=lambda _device, kind: {1: 1200, 2: 3000}[kind],
        nvmlDeviceGetTemperature=lambda *_: 88,
        nvmlDeviceGetPowerUsage=lambda _: 650_400,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _: reasons,
    )


def test_what_slowed_it_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml(reasons=32 | 64 | 4))
    state = gpu_state(0)
    assert state == GpuState(1200, 3000, 88, 650.4, ("heat", "the power limit"))
    assert gpu_warnings(state) == (
        "the GPU's clock was lowered by heat and the power limit: 1200 MHz at 88 °C and 650 W",
    )


def test_the_gpu_that_the_process_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    found = nvml(reasons=0, devices=8)
    found.nvmlDeviceGetHandleByUUID = asked.append
    monkeypatch.setitem(sys.modules, "pynvml", found)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-7,3")
    assert gpu_state(0) is not None
    assert asked == ["GPU-7"]
    assert gpu_state(1) is not None
    assert asked == ["GPU-7"]


def test_nothing_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml(reasons=1))
    assert gpu_warnings(gpu_state(0)) == ()
    assert gpu_state(3) is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu_state(0) is None
    assert gpu_warnings(None) == ()
