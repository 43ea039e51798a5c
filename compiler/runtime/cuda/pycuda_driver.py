"""CUDA through PyCUDA: the calls that need a GPU, and nothing else.

The only file that imports pycuda; what PyCUDA lacks is in `cuda_graphs` and `cuda_tensor_maps`.

Each method is one or two driver calls; what is above them (`cuda_device`, `cuda_module`) is tested without a GPU, over
another driver.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from compiler.errors import DeviceError
from compiler.launches import TensorMap
from compiler.runtime.cuda import tensor_maps as cuda_tensor_maps
from compiler.runtime.cuda.graphs import NON_BLOCKING, Graphs, find_graphs

_INTEGERS = {
    "max_threads_per_block": "MAX_THREADS_PER_BLOCK",
    "warp_size": "WARP_SIZE",
    "max_shared_memory_per_block": "MAX_SHARED_MEMORY_PER_BLOCK",
    "max_clock_rate": "CLOCK_RATE",
    "multi_processor_count": "MULTIPROCESSOR_COUNT",
    "l2_cache_size_bytes": "L2_CACHE_SIZE",
}
_LIMITS = ("MAX_BLOCK_DIM_X", "MAX_BLOCK_DIM_Y", "MAX_BLOCK_DIM_Z")
_TEXTURE = ("MAXIMUM_TEXTURE2D_WIDTH", "MAXIMUM_TEXTURE2D_HEIGHT")


def open_driver() -> PyCudaDriver:
    """The driver, initialised. Raises DeviceError that says what is missing."""
    try:
        import pycuda.driver as driver
    except ImportError as error:
        raise DeviceError(
            f"PyCUDA cannot be imported ({error})", hint="pip install 'tunefarm[cuda]'; docs/gpu.md says what it needs"
        ) from None
    try:
        driver.init()
    except driver.Error as error:
        raise DeviceError(f"the CUDA driver does not start: {error}", hint="nvidia-smi shows its state") from None
    return PyCudaDriver(driver)


class PyCudaDriver:
    """See `cuda_driver.Driver`."""

    def __init__(self, driver: Any) -> None:
        self._cuda = driver
        self._contexts: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._graphs = find_graphs()
        self._encode = cuda_tensor_maps.find_encoder()

    @contextmanager
    def _on(self, device: int) -> Iterator[Any]:
        """The device's primary context made current, and driver errors as ours."""
        with self._our_errors(f"cuda({device})"):
            context = self._context(device)
            context.push()
            try:
                yield self._cuda
            finally:
                context.pop()

    @contextmanager
    def _our_errors(self, where: str) -> Iterator[None]:
        try:
            yield
        except self._cuda.Error as error:
            raise DeviceError(f"{where}: {error}") from None

    def _context(self, device: int) -> Any:
        found = self._contexts.get(device)
        if found is None:  # who gives memory back does not come here: that may happen in a thread that holds the lock
            with self._lock:
                found = self._contexts.get(device)
                if found is None:
                    found = self._contexts[device] = self._cuda.Device(device).retain_primary_context()
        return found

    def count(self) -> int:
        with self._our_errors("cuda"):
            return int(self._cuda.Device.count())

    def attribute(self, device: int, name: str) -> Any:
        with self._our_errors(f"cuda({device})"):
            return self._attribute(self._cuda.Device(device), name)

    def _attribute(self, gpu: Any, name: str) -> Any:
        cuda = self._cuda
        if name in _INTEGERS:
            return int(gpu.get_attribute(getattr(cuda.device_attribute, _INTEGERS[name])))
        match name:
            case "compute_version":
                return ".".join(map(str, gpu.compute_capability()))
            case "device_name":
                return str(gpu.name())
            case "total_global_memory":
                return int(gpu.total_memory())
            case "max_thread_dimensions":
                return [int(gpu.get_attribute(getattr(cuda.device_attribute, limit))) for limit in _LIMITS]
            case "texture_spatial_limit":
                return [int(gpu.get_attribute(getattr(cuda.device_attribute, limit))) for limit in _TEXTURE]
            case "api_version":
                return int(cuda.get_driver_version())
            case "driver_version":
                version = int(cuda.get_driver_version())
                return f"{version // 1000}.{version % 1000 // 10}"
        return None

    # -- memory ------------------------------------------------------------------------------------
    def allocate(self, device: int, nbytes: int) -> tuple[int, Any]:
        with self._on(device) as cuda:
            owner = cuda.mem_alloc(nbytes)
            return int(owner), owner

    def free(self, device: int, owner: Any) -> None:
        with self._on(device):
            owner.free()

    def pinned(self, device: int, nbytes: int) -> memoryview:
        with self._on(device) as cuda:
            return memoryview(cuda.pagelocked_empty(nbytes, np.uint8))

    def copy_in(self, device: int, address: int, data: memoryview, stream: Any) -> None:
        with self._on(device) as cuda:
            cuda.memcpy_htod_async(address, np.frombuffer(data, np.uint8), stream)

    def copy_out(self, device: int, out: memoryview, address: int, stream: Any) -> None:
        with self._on(device) as cuda:
            cuda.memcpy_dtoh_async(np.frombuffer(out, np.uint8), address, stream)

    def copy_within(self, device: int, target: int, source: int, nbytes: int, stream: Any) -> None:
        with self._on(device) as cuda:
            cuda.memcpy_dtod_async(target, source, nbytes, stream)

    def fill(self, device: int, address: int, value: int, nbytes: int, stream: Any) -> None:
        with self._on(device) as cuda:
            cuda.memset_d8_async(address, value, nbytes, stream)

    # -- order -------------------------------------------------------------------------------------
    def synchronize(self, device: int, stream: Any) -> None:
        with self._on(device) as cuda:
            if stream is None:
                cuda.Context.synchronize()
            else:
                stream.synchronize()

    def stream(self, device: int) -> Any:
        with self._on(device) as cuda:
            return cuda.Stream()

    def event(self, device: int) -> Any:
        with self._on(device) as cuda:
            return cuda.Event()

    def record(self, device: int, event: Any, stream: Any) -> None:
        with self._on(device):
            event.record(stream)

    def wait(self, device: int, event: Any) -> None:
        with self._on(device):
            event.synchronize()

    def elapsed_ns(self, device: int, start: Any, end: Any) -> int:
        with self._on(device):
            return int(end.time_since(start) * 1e6)  # from milliseconds

    # -- code --------------------------------------------------------------------------------------
    def load(self, device: int, ptx: bytes) -> Any:
        with self._on(device) as cuda:
            log: list[str] = []
            try:
                return cuda.module_from_buffer(ptx, message_handler=lambda _ok, _info, text: log.append(text))
            except cuda.Error as error:
                said = "\n".join(text.strip() for text in log if text.strip())
                raise DeviceError(f"cuda({device}) does not take the PTX: {error}", detail={"log": said}) from None

    def function(self, device: int, module: Any, symbol: str, shared_bytes: int, codes: str) -> Any:
        with self._on(device) as cuda:
            found = module.get_function(symbol)
            if shared_bytes:
                found.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
            return found.prepare(codes.replace("T", f"{cuda_tensor_maps.SIZE}s"))

    def launch(
        self, device: int, function: Any, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int,
        stream: Any, values: Sequence[int | float | bytes],
    ) -> None:  # fmt: skip
        with self._on(device):
            function.prepared_async_call(grid, block, stream, *values, shared_size=shared_bytes)

    def tensor_map(self, device: int, described: TensorMap, address: int) -> bytes:
        if self._encode is None:
            raise DeviceError(
                "the driver has no cuTensorMapEncodeTiled, which a kernel of warpgroups needs",
                hint="a driver of CUDA 12.0 or later; or build for -arch=sm_90",
            )
        with self._on(device):
            return self._encode(described, address)

    # -- graphs ------------------------------------------------------------------------------------
    def graph(self, device: int, submit: Callable[[Any], None]) -> _Graph | None:
        if self._graphs is None:
            return None
        try:
            with self._on(device) as cuda:
                return _Graph(self, self._graphs, device, _recorded(self._graphs, cuda.Stream(NON_BLOCKING), submit))
        except DeviceError:
            return None  # if more is wrong than that it cannot be recorded, the launches themselves will say so

    def replay(self, device: int, graph: _Graph, stream: Any) -> None:
        with self._on(device):
            graph.calls.launch(graph.recorded, 0 if stream is None else stream.handle)

    def forget(self, graph: _Graph) -> None:
        """Free a graph. A device that has failed has lost it already."""
        with suppress(DeviceError), self._on(graph.device):
            graph.calls.destroy(graph.recorded)


def _recorded(graphs: Graphs, stream: Any, submit: Callable[[Any], None]) -> int:
    """Note a stream that is given up here.
    PyCUDA keeps streams that end where their context is not current, if another thread made them."""
    recorded = graphs.record(stream.handle, lambda: submit(stream))
    stream.synchronize()
    return recorded


class _Graph:
    """A recorded graph, given back with its last reference."""

    __slots__ = ("_driver", "calls", "device", "recorded")

    def __init__(self, driver: PyCudaDriver, calls: Graphs, device: int, recorded: int) -> None:
        self._driver, self.calls, self.device, self.recorded = driver, calls, device, recorded

    def __del__(self) -> None:
        self._driver.forget(self)
