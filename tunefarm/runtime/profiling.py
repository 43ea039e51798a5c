"""Collectors of a profiler, and its report."""

from compiler.runtime.measure.profiling import (
    Count,
    Duration,
    HardwareCounters,
    MetricCollector,
    Percent,
    Profiler,
    Ratio,
    Report,
    profile_function,
)

__all__ = [
    "Count", "Duration", "HardwareCounters", "MetricCollector", "Percent", "Profiler", "Ratio", "Report",
    "profile_function",
]  # fmt: skip
