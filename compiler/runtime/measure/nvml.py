"""The state of NVIDIA GPUs while they are measured.

Clocks, temperature, power, and what slowed them down.

Read through NVML (`nvidia-ml-py`); without it, nothing is told.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

# Why clocks are below what was asked for, by NVML's names, in our words. Idle clocks and settings are no disturbance.
_REASONS = {
    "nvmlClocksThrottleReasonSwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonSwPowerCap": "the power limit",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "the power supply",
    "nvmlClocksThrottleReasonHwSlowdown": "a hardware limit",
}


@dataclass(frozen=True, slots=True)
class GpuState:
    """A GPU's state: clocks in MHz, temperature in °C, power in W, and what slows it down.
    `slowed_by`: heat, the power limit, ..."""

    clock: int
    memory_clock: int
    temperature: int
    power: float
    slowed_by: tuple[str, ...]


def gpu_state(index: int) -> GpuState | None:
    """The state of this process's GPU number `index` now; None if NVML does not tell it."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        return _read(pynvml, _handle(pynvml, index))
    except pynvml.NVMLError:
        return None


def _handle(nvml: Any, index: int) -> Any:
    """Find the process's GPU in NVML's list.
    NVML counts all GPUs; a process may see some of them, in another order."""
    seen = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    name = seen[index] if index < len(seen) else str(index)
    if name.isdecimal():
        return nvml.nvmlDeviceGetHandleByIndex(int(name))
    return nvml.nvmlDeviceGetHandleByUUID(name)


def _read(nvml: Any, device: Any) -> GpuState:
    reasons = int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device))
    return GpuState(
        clock=int(nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM)),
        memory_clock=int(nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_MEM)),
        temperature=int(nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)),
        power=int(nvml.nvmlDeviceGetPowerUsage(device)) / 1000,
        slowed_by=tuple(dict.fromkeys(text for name, text in _REASONS.items() if reasons & getattr(nvml, name, 0))),
    )


def gpu_warnings(state: GpuState | None) -> tuple[str, ...]:
    """Return what disturbed a measurement that has just ended, a sentence each."""
    if state is None or not state.slowed_by:
        return ()
    why, now = " and ".join(state.slowed_by), f"{state.clock} MHz at {state.temperature} °C and {state.power:.0f} W"
    return (f"the GPU's clock was lowered by {why}: {now}",)
