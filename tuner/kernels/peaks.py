"""A device class's peaks, as profiles of models measured them, and the least bytes that kernels move."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.errors import TunefarmError
from compiler.runtime.measure.peaks import Peaks
from compiler.runtime.measure.report import Ratio, Report
from compiler.script.entry import from_source
from compiler.tir.nodes import PrimFunc
from tuner.records.store import RecordStore
from tuner.task import argument_bytes

GFLOPS, GBYTES = "peak_gflops", "peak_gbytes"
"""Names of the peaks among the conditions of a model's measurement, in GFLOP/s and GB/s."""


def told_peaks(report: Report) -> dict[str, float]:
    """The device's peaks in a profile, as conditions of a measurement; empty where the profile has none."""
    told = {GFLOPS: report.configuration.get("Peak GFLOP/s"), GBYTES: report.configuration.get("Peak GB/s")}
    found = {name: value.ratio for name, value in told.items() if isinstance(value, Ratio)}
    return found if len(found) == len(told) else {}


def class_peaks(store: RecordStore, device_class: str) -> Peaks | None:
    """The highest peaks that newer profiles measured on a device class; None where none did.

    It takes the highest, because other work on a machine only lowers a measurement.
    """
    flops = nbytes = 0.0
    for environment in store.models.environments(device_class):
        flops = max(flops, 1e9 * environment.get(GFLOPS, 0.0))
        nbytes = max(nbytes, 1e9 * environment.get(GBYTES, 0.0))
    return Peaks(flops, nbytes) if flops > 0 and nbytes > 0 else None


def bytes_of(store: RecordStore, keys: Iterable[str]) -> dict[str, int]:
    """Return the bytes of all arguments of workloads, by key.
    They are those whose functions are known and have fixed shapes."""
    wanted = set(keys)
    for key, function in store.workloads.functions(wanted - _BYTES.keys()).items():
        if len(_BYTES) >= _MOST_KNOWN:
            _BYTES.clear()
        _BYTES[key] = least_bytes(function)
    return {key: nbytes for key in wanted if (nbytes := _BYTES.get(key)) is not None}


_MOST_KNOWN = 20_000
_BYTES: dict[str, int | None] = {}
"""What was read of functions, by workload: a key names one function for good."""


def least_bytes(function: str) -> int | None:
    """Return `argument_bytes` of a function given as script.
    None when the text is of another version or several functions."""
    try:
        func = from_source(function)
    except TunefarmError:
        return None
    return argument_bytes(func) if isinstance(func, PrimFunc) else None
