"""The profile of a model's kernels: time, share, work, and distance to the machine's peak.

Native code times each kernel's call on the CPU, in the model's order and with its data, so that caches are as in use.
The interpreter's own work is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from compiler.errors import ArtifactError
from compiler.extents import parse_extent
from compiler.runtime.core.code.cpu_function import CPUFunction
from compiler.runtime.core.device import Device, cpu
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.measure.peaks import Peaks
from compiler.runtime.measure.profiling import argument_shapes
from compiler.runtime.measure.report import Count, Duration, Metric, Percent, Ratio, Report
from compiler.runtime.vm.interpreter import GraphFunction, InstrumentReturn

_RUNS = 3


class ProfileTimer:
    """An instrument that times each call of a kernel or packed function, but not the machine's own."""

    def __init__(self, device: Device, peaks: Peaks | None) -> None:
        self._device = device
        self._peaks = peaks
        self._running: list[int] = []
        self.rows: list[dict[str, Metric]] = []
        self.spent_ns = 0

    def __call__(self, called: Any, name: str, before_run: bool, result: Any, *given: Any) -> int:
        if isinstance(called, GraphFunction) or name.startswith("vm.builtin."):
            return InstrumentReturn.NO_OP  # whose own calls are seen, or which is no operator
        if isinstance(called, CPUFunction):
            if before_run:
                self._note(name, called.run_timed(called.pack(given), 1), given, called)
            return InstrumentReturn.SKIP_RUN
        if before_run:
            self._device.sync()
            self._running.append(time.perf_counter_ns())
        else:
            self._device.sync()
            self._note(name, time.perf_counter_ns() - self._running.pop(), given, called)
        return InstrumentReturn.NO_OP

    def _note(self, name: str, spent: int, given: Sequence[Any], called: Any) -> None:
        place = cpu() if isinstance(called, CPUFunction) else self._device
        row: dict[str, Metric] = {
            "Name": name,
            "Duration (us)": Duration(spent / 1e3),
            "Device": f"{place.device_type}{place.device_id}",
            "Count": Count(1),
            "Argument Shapes": argument_shapes(given),
        }
        seconds = max(spent, 1) / 1e9
        nbytes = sum(arg.nbytes for arg in given if isinstance(arg, NDArray))
        flops = flops_of(called, given)
        if flops:
            row["GFLOP/s"] = Ratio(flops / seconds / 1e9)
        row["GB/s"] = Ratio(nbytes / seconds / 1e9)
        if self._peaks is not None:
            row["Of roofline"] = Ratio(self._peaks.seconds(flops or 0, nbytes) / seconds)
        self.rows.append(row)
        self.spent_ns += spent


def flops_of(called: Any, given: Sequence[Any]) -> int | None:
    """The operations of a kernel's call with these arguments; None if the kernel does not tell."""
    if not isinstance(called, CPUFunction) or not called.entry.flops:
        return None
    known: dict[str, int] = {}
    for spec, arg in zip(called.entry.args, given):
        if spec.shape is None:
            if isinstance(arg, int):
                known[spec.name] = arg
            continue
        for extent, size in zip(spec.shape, getattr(arg, "shape", ())):
            if isinstance(extent, str) and parse_extent(extent).is_name:
                known.setdefault(extent, size)
    try:
        return parse_extent(called.entry.flops).value(known)
    except (ArtifactError, NameError, ZeroDivisionError):
        return None


def report(
    watched: Callable[[ProfileTimer], Any], plain: Callable[[], Any], devices: Sequence[Device], peaks: Peaks | None
) -> Report:
    """Return a report of runs of `watched`, with an instrument, beside runs of `plain`.

    The plain runs give the model's own time. Each call has the median of its times, since a core may be interrupted
    during one of them. Percents are shares of all calls' time. The device's row has the model's time, and the share of
    it that calls explain.
    """
    device = devices[0]
    plain()
    best = min(_spent(plain, device) for _ in range(_RUNS))
    timers = [ProfileTimer(device, peaks) for _ in range(_RUNS)]
    for timer in timers:
        watched(timer)
    rows = _median_rows(timers)
    spent = max(sum(map(_us, rows)), 1e-3)
    calls = [row | {"Percent": Percent(100 * _us(row) / spent)} for row in rows]
    name = f"{device.device_type}{device.device_id}"
    metrics: dict[str, dict[str, Metric]] = {
        name: {"Duration (us)": Duration(best / 1e3), "Percent": Percent(100 * spent * 1e3 / best)}
    }
    configuration: dict[str, Metric] = {"Executor": "VM", "Calls": Count(len(calls))}
    if peaks is not None:
        configuration |= {"Peak GFLOP/s": Ratio(peaks.flops / 1e9), "Peak GB/s": Ratio(peaks.bytes / 1e9)}
    return Report(calls, metrics, configuration)


def _median_rows(timers: Sequence[ProfileTimer]) -> list[dict[str, Metric]]:
    """The median of each call's rows; of the whole runs if they did not make the same calls."""
    names = {tuple(str(row["Name"]) for row in timer.rows) for timer in timers}
    if len(names) > 1:
        return sorted(timers, key=lambda timer: timer.spent_ns)[len(timers) // 2].rows
    return [sorted(same, key=_us)[len(same) // 2] for same in zip(*(timer.rows for timer in timers), strict=True)]


def _spent(run: Callable[[], Any], device: Device) -> int:
    began = time.perf_counter_ns()
    run()
    device.sync()
    return max(time.perf_counter_ns() - began, 1)


def _us(row: dict[str, Metric]) -> float:
    duration = row["Duration (us)"]
    return duration.microseconds if isinstance(duration, Duration) else 0.0
