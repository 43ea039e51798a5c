"""The conditions that a trial was measured under, in words."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.number_text import energy
from webui.format import duration, percent

NOISE = {
    "load": "the machine had more to do than it has cores",
    "spread": "the samples differ by much",
    "drift": "the untuned kernel took another time than when the run began",
    "stolen": "the hypervisor gave the core away meanwhile",
    "clock": "the core's clock changed meanwhile",
    "heat": "cores were slowed down for heat",
}
"""What the flags of a measurement mean."""

_NAMES = {
    "clock_change": "Clock changed by",
    "clock_mhz": "Mean clock",
    "expected_s": "Expected time",
    "gpu_clock_mhz": "Clock of the GPU",
    "gpu_memory_clock_mhz": "Memory clock of the GPU",
    "gpu_power_w": "Power of the GPU",
    "gpu_slowed": "GPU slowed down",
    "gpu_temperature": "Temperature of the GPU",
    "joules": "Energy a call",
    "load_1m": "Load average, 1 min",
    "number": "Calls a sample",
    "page_faults": "Page faults",
    "peak_gbytes": "Peak of memory",
    "peak_gflops": "Peak of arithmetic",
    "preempted": "Preempted",
    "rejected": "Given up as slower",
    "stolen_s": "Stolen by the hypervisor",
    "temperature": "Temperature",
    "throttled": "Slowed down for heat",
    "timing_s": "Timing",
    "watts": "Power of the processor",
}


def joules(value: float | None) -> str:
    """Energy: 1.5 J, 23 mJ; a dash where it is not known."""
    return energy(value) if value is not None else "–"


def conditions(environment: Mapping[str, float]) -> list[tuple[str, str]]:
    """Each condition's name and value, with its unit."""
    return [
        (_NAMES.get(name, name.replace("_", " ")), _text(name, value)) for name, value in sorted(environment.items())
    ]


def _text(name: str, value: float) -> str:
    match name:
        case "clock_change":
            return percent(value, 1)
        case "preempted" | "throttled":
            return f"{value:.0f} times"
        case "joules":
            return energy(value)
        case "watts" | "gpu_power_w":
            return f"{value:.1f} W"
        case "temperature" | "gpu_temperature":
            return f"{value:.0f} °C"
        case "peak_gbytes":
            return f"{value:,.0f} GB/s"
        case "peak_gflops":
            return f"{value:,.0f} GFLOP/s"
        case "rejected" | "gpu_slowed":
            return "yes" if value else "no"
        case _ if name.endswith("_s"):
            return duration(value)
        case _ if name.endswith("_mhz"):
            return f"{value:,.0f} MHz"
        case _:
            return f"{value:,.0f}" if value.is_integer() else f"{value:.2f}"
