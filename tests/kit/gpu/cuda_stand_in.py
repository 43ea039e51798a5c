"""A driver over host memory, for what the CUDA runtime does around its driver calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from compiler.errors import DeviceError
from compiler.launches import TensorMap
from tests.kit.gpu.ptx_warpgroup_machine import tensor_map

Kernel = Callable[..., None]


class Recording(list[Callable[[Any], None]]):
    """A stream that records: what it holds is launched on the one it is replayed on."""


class HostDriver:
    """Devices whose memory is numpy's. `kernels` are Python functions over what they are passed: arrays of bytes for
    pointers, numbers. The clock of events stands still but for kernels, which take `kernel_ns` each."""

    def __init__(self, kernels: dict[str, Kernel], devices: int = 2) -> None:
        self.kernels, self.devices = kernels, devices
        self.memory: dict[int, np.ndarray[Any, Any]] = {}
        self.launches: list[tuple[Any, ...]] = []
        self.copies: list[int] = []
        self.filled: list[int] = []
        self.clock = 0
        self.kernel_ns = 1000
        self.loaded = 0
        self.has_graphs = True
        self.recorded: list[int] = []  # the launches in each graph
        self.replayed = 0

    def count(self) -> int:
        return self.devices

    def attribute(self, device: int, name: str) -> Any:
        return {"warp_size": 32, "compute_version": "8.0", "l2_cache_size_bytes": 4096}.get(name)

    def allocate(self, device: int, nbytes: int) -> tuple[int, Any]:
        data = np.empty(nbytes, np.uint8)
        self.memory[data.ctypes.data] = data
        return data.ctypes.data, data.ctypes.data

    def free(self, device: int, owner: Any) -> None:
        if owner not in self.memory:
            raise DeviceError("freed twice")
        del self.memory[owner]

    def pinned(self, device: int, nbytes: int) -> memoryview:
        return memoryview(np.empty(nbytes, np.uint8))

    def _at(self, address: int, nbytes: int) -> np.ndarray[Any, Any]:
        for start, data in self.memory.items():
            if start <= address < start + data.nbytes:
                return data[address - start :][:nbytes]
        raise DeviceError(f"an illegal access at {address:#x}")

    def copy_in(self, device: int, address: int, data: memoryview, stream: Any) -> None:
        self.copies.append(data.nbytes)
        self._at(address, data.nbytes)[:] = np.frombuffer(data, np.uint8)

    def copy_out(self, device: int, out: memoryview, address: int, stream: Any) -> None:
        self.copies.append(out.nbytes)
        np.frombuffer(out, np.uint8)[:] = self._at(address, out.nbytes)

    def copy_within(self, device: int, target: int, source: int, nbytes: int, stream: Any) -> None:
        self._at(target, nbytes)[:] = self._at(source, nbytes)

    def fill(self, device: int, address: int, value: int, nbytes: int, stream: Any) -> None:
        self.filled.append(nbytes)
        self._at(address, nbytes)[:] = value

    def synchronize(self, device: int, stream: Any) -> None:
        return None

    def stream(self, device: int) -> Any:
        return object()

    def event(self, device: int) -> Any:
        return [0]

    def record(self, device: int, event: Any, stream: Any) -> None:
        event[0] = self.clock

    def wait(self, device: int, event: Any) -> None:
        return None

    def elapsed_ns(self, device: int, start: Any, end: Any) -> int:
        return int(end[0] - start[0])

    def load(self, device: int, ptx: bytes) -> Any:
        self.loaded += 1
        return ptx.decode()

    def function(self, device: int, module: Any, symbol: str, shared_bytes: int, codes: str) -> Any:
        assert f".entry {symbol}(" in module
        return symbol, codes

    def launch(
        self, device: int, function: Any, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int,
        stream: Any, values: Sequence[int | float | bytes],
    ) -> None:  # fmt: skip
        if isinstance(stream, Recording):
            stream.append(lambda on: self.launch(device, function, grid, block, shared_bytes, on, values))
            return
        symbol, codes = function
        self.clock += self.kernel_ns
        self.launches.append((device, symbol, grid, block, shared_bytes, stream, codes))
        passed = [
            self._at(int(value), 1 << 40).view(np.float32) if code == "P" else value
            for code, value in zip(codes, values)
        ]
        self.kernels[symbol](*passed)

    def tensor_map(self, device: int, described: TensorMap, address: int) -> bytes:
        rows, columns = described.shape
        return tensor_map(address, rows, columns, 2 * columns, described.box, 0)

    def graph(self, device: int, submit: Callable[[Any], None]) -> Any | None:
        if not self.has_graphs:
            return None
        recording = Recording()
        submit(recording)
        self.recorded.append(len(recording))
        return recording

    def replay(self, device: int, graph: Any, stream: Any) -> None:
        self.replayed += 1
        for launch in graph:
            launch(stream)
