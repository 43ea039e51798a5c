"""Prepared calls on a GPU. They use graphs if starting kernels takes longer than running them.

Starting a kernel takes the host some microseconds. If kernels are shorter, the device would wait for the next one. A
graph holds recorded starts, and the host makes one start for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.runtime.core.device import Device
from compiler.runtime.core.device_memory import DeviceMemory
from compiler.runtime.cuda.device import CudaAPI

SHORT_NS = 20_000  # calls from this length on hide the host's part
MOST_STARTS = 256  # of kernels that one graph holds
KEPT_BYTES = 64 << 20  # memory between kernels that is held from call to call; where it is more, kernels are long

Start = Callable[[Any], None]  # starts one kernel on the stream that it is given


class Workspaces:
    """Memory that is freed when this object is collected.
    The driver frees it after the work submitted before."""

    __slots__ = ("_api", "_device", "_spaces")

    def __init__(self, api: CudaAPI, device: Device, spaces: Sequence[DeviceMemory]) -> None:
        self._api, self._device, self._spaces = api, device, spaces

    @property
    def nbytes(self) -> int:
        return sum(space.nbytes for space in self._spaces)

    def __del__(self) -> None:
        for space in self._spaces:
            self._api.free(self._device, space)


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """The kernel starts of one call, and the memory that they need."""

    api: CudaAPI
    device: Device
    starts: tuple[Start, ...]
    workspaces: Workspaces

    def __call__(self) -> None:
        """Make it, on this thread's stream."""
        self.submit(self.api.stream(self.device))

    def submit(self, stream: Any, count: int = 1) -> None:
        """Make it `count` times."""
        for _ in range(count):
            for start in self.starts:
                start(stream)

    def recorded(self, count: int = 1) -> Any | None:
        """A graph of `count` such calls; None where the driver cannot."""
        return self.api.driver.graph(self.device.device_id, lambda stream: self.submit(stream, count))

    def replay(self, graph: Any, stream: Any) -> None:
        self.api.driver.replay(self.device.device_id, graph, stream)


@dataclass(slots=True)
class RepeatedCall:
    """A call that may be made again with the same arguments.
    It is recorded the second time, because the first one loads code."""

    key: object
    call: PreparedCall
    _graph: Any = None
    _is_plain: bool = False

    @property
    def is_worth_keeping(self) -> bool:
        return len(self.call.starts) > 1 and self.call.workspaces.nbytes <= KEPT_BYTES

    def again(self, stream: Any) -> None:
        if self._graph is None and not self._is_plain:
            self._graph = self.call.recorded()
            self._is_plain = self._graph is None
        if self._graph is None:
            self.call.submit(stream)
        else:
            self.call.replay(self._graph, stream)


@dataclass(slots=True)
class CallTimer:
    """Times calls by the device's own events around all of them.

    The first time, kernels are started one by one. From then on a graph holds as many calls as make `MOST_STARTS`
    starts. No graph is used for a single start, or for calls so long that the device never waits.
    """

    call: PreparedCall
    _events: tuple[Any, Any] = field(init=False)
    _graphs: dict[int, Any] = field(default_factory=dict)  # by their number of calls
    _fastest_ns: float = 0.0  # of a call, but for the first time
    _is_warm: bool = False
    _is_plain: bool = False

    def __post_init__(self) -> None:
        event, number = self.call.api.driver.event, self.call.device.device_id
        self._events = event(number), event(number)

    def __call__(self, count: int) -> int:
        """The nanoseconds that `count` calls take. Raises DeviceError."""
        call, driver, number = self.call, self.call.api.driver, self.call.device.device_id
        rounds = self._rounds(count) if self._pays(count) else None
        stream = call.api.stream(call.device)
        start, end = self._events
        driver.record(number, start, stream)
        if rounds is None:
            call.submit(stream, count)
        else:
            for graph in rounds:
                driver.replay(number, graph, stream)
        driver.record(number, end, stream)
        driver.wait(number, end)
        took = driver.elapsed_ns(number, start, end)
        if self._is_warm:
            self._fastest_ns = min(self._fastest_ns or took / count, took / count)
        self._is_warm = True
        return took

    def _pays(self, count: int) -> bool:
        kernels = len(self.call.starts)
        is_short = kernels > 1 or self._fastest_ns < SHORT_NS  # also while that is not known
        return self._is_warm and not self._is_plain and count * kernels > 1 and is_short

    def _rounds(self, count: int) -> list[Any] | None:
        """Graphs that make `count` calls, one after the other; None where the driver cannot."""
        most = max(1, MOST_STARTS // len(self.call.starts))
        times = {most: count // most, count % most: 1}
        self._graphs = {size: graph for size, graph in self._graphs.items() if size in times}
        rounds: list[Any] = []
        for size in (size for size, often in times.items() if size and often):
            if size not in self._graphs:
                graph = self.call.recorded(size)
                if graph is None:
                    self._is_plain = True
                    return None
                self._graphs[size] = graph
            rounds += [self._graphs[size]] * times[size]
        return rounds
