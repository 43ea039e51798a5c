"""Profiling a run call by call: how long each took, on which device, with arguments of which shapes.

`Profiler` gathers a `Report`; collectors add columns of their own, such as the CPU's event counters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from compiler.errors import ArgumentError
from compiler.runtime.core.device import Device
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.measure.counters import Counters, available
from compiler.runtime.measure.report import Count, Duration, Metric, Percent, Ratio, Report

__all__ = [
    "Count", "Duration", "HardwareCounters", "MetricCollector", "Percent", "Profiler", "Ratio", "Report",
    "profile_function",
]  # fmt: skip


class MetricCollector(Protocol):
    """Measures something around each call."""

    def start(self, device: Device) -> Any:
        """Begin; the result is handed to `stop`."""

    def stop(self, started: Any) -> Mapping[str, Metric]:
        """End, with what was measured since `start`."""


class HardwareCounters:
    """The CPU's event counters as a collector. By default all events that can be counted here.

    Raises DeviceError, saying why, for an event that cannot be counted.
    """

    def __init__(self, events: Sequence[str] | None = None) -> None:
        self._events = available() if events is None else tuple(events)
        Counters(self._events).close()

    def start(self, device: Device) -> Counters:
        counters = Counters(self._events)
        counters.start()
        return counters

    def stop(self, started: Counters) -> dict[str, Metric]:
        with started:
            readings = started.stop()
        return {event: Count(reading.count) for event, reading in readings.items()}


class Profiler:
    """Gathers a report: `with Profiler([cpu()]) as p: p.call(f, a, b)`, or `p.measure("step", cpu())`.

    Each call is waited for (`device.sync`), so asynchronous work counts where it was started. The report covers the
    calls between entering and leaving.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        collectors: Sequence[MetricCollector] = (),
        configuration: Mapping[str, Metric] | None = None,
    ) -> None:
        if not devices:
            raise ArgumentError("a profiler needs at least one device", hint="Profiler([cpu()])")
        self._devices = tuple(devices)
        self._collectors = tuple(collectors)
        self._configuration = dict(configuration or {})
        self._calls: list[tuple[dict[str, Metric], int]] = []
        self._started = 0
        self._total_ns = 0

    def __enter__(self) -> Profiler:
        self._calls.clear()
        self._started = time.perf_counter_ns()
        return self

    def __exit__(self, *_: object) -> None:
        self._total_ns = time.perf_counter_ns() - self._started

    def call(self, function: Callable[..., Any], *args: Any, name: str | None = None) -> Any:
        """Call a function and note it.
        Returns its result. The device is the first argument's, else the first one."""
        device = next((arg.device for arg in args if isinstance(arg, NDArray)), self._devices[0])
        title = name or getattr(function, "name", None) or getattr(function, "__name__", None) or repr(function)
        with self.measure(str(title), device, argument_shapes(args)):
            return function(*args)

    @contextmanager
    def measure(self, name: str, device: Device, shapes: str = "") -> Iterator[None]:
        """Note what happens inside as one call of `name`. A call that raises is not noted."""
        device.sync()
        started = [(c, c.start(device)) for c in self._collectors]
        begin = time.perf_counter_ns()
        finished = False
        try:
            yield
            device.sync()
            finished = True
        finally:
            spent = time.perf_counter_ns() - begin
            extra: dict[str, Metric] = {}
            for collector, state in reversed(started):
                extra |= collector.stop(state)
        if finished:
            row: dict[str, Metric] = {
                "Name": name,
                "Duration (us)": Duration(spent / 1e3),
                "Device": _device_name(device),
                "Count": Count(1),
                "Argument Shapes": shapes,
            }
            self._calls.append((row | extra, spent))

    def report(self) -> Report:
        """Return what was gathered. Percents are of the time between entering and leaving."""
        total = self._total_ns or max(time.perf_counter_ns() - self._started, 1)
        calls = [row | {"Percent": Percent(100 * spent / total)} for row, spent in self._calls]
        metrics = {_device_name(device): self._device_row(device, total) for device in self._devices}
        return Report(calls, metrics, self._configuration)

    def _device_row(self, device: Device, total: int) -> dict[str, Metric]:
        """Over the whole run: the wall time, and the share of it that calls on this device took."""
        spent = sum(ns for row, ns in self._calls if row["Device"] == _device_name(device))
        return {"Duration (us)": Duration(total / 1e3), "Percent": Percent(100 * spent / total)}


def profile_function(
    mod: Module,
    dev: Device,
    collectors: Sequence[MetricCollector] | None = None,
    func_name: str | None = None,
    warmup_iters: int = 10,
) -> Callable[..., dict[str, Metric]]:
    """Return a function that takes `func_name`'s arguments and returns metrics of one call.

    It calls `warmup_iters` times first, then once under `collectors` (by default the CPU's event counters). Their
    metrics stand beside "Duration (us)". `func_name` defaults to the module's entry. Raises MissingFunctionError (an
    AttributeError) and DeviceError.
    """
    function: PackedFunc = mod.get_function(func_name or mod.entry_name, query_imports=True)
    chosen = [HardwareCounters()] if collectors is None else list(collectors)

    def profiled(*args: Any) -> dict[str, Metric]:
        for _ in range(warmup_iters):
            function(*args)
        with Profiler([dev], chosen) as profiler:
            profiler.call(function, *args)
        [call] = profiler.report().calls
        return {k: v for k, v in call.items() if k not in ("Name", "Device", "Count", "Argument Shapes", "Percent")}

    return profiled


def argument_shapes(args: Sequence[Any]) -> str:
    """The arguments' types and shapes as text, such as `float32[512, 512], float32[512], int64`."""
    return ", ".join(_shape(arg) for arg in args)


def _shape(arg: Any) -> str:
    if isinstance(arg, NDArray):
        return f"{arg.dtype}[{', '.join(map(str, arg.shape))}]"
    return type(arg).__name__


def _device_name(device: Device) -> str:
    return f"{device.device_type}{device.device_id}"
