"""Modules for NVIDIA GPUs.

The host's part, which checks arguments and starts kernels, and the kernels as PTX.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from compiler.artifact import ArgSpec, Artifact, EntryPoint
from compiler.dtype import parse_dtype
from compiler.errors import ArgumentError, ArtifactError, DeviceError, TargetError
from compiler.extents import parse_extent
from compiler.launches import MAX_GRID, Launch
from compiler.runtime.core.absent import AbsentAPI
from compiler.runtime.core.arguments import ShapedPacker
from compiler.runtime.core.backends import DeviceBackend
from compiler.runtime.core.code.artifact_module import ArtifactModule
from compiler.runtime.core.code.kernel_function import BoundCall, KernelFunction
from compiler.runtime.core.device import Device, DeviceAPI, find_api
from compiler.runtime.core.device_memory import DeviceMemory
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.core.registry import register_func
from compiler.runtime.cuda.calls import CallTimer, PreparedCall, RepeatedCall, Start, Workspaces
from compiler.runtime.cuda.device import CudaAPI, find_cuda
from compiler.runtime.measure.nvml import gpu_state, gpu_warnings
from compiler.runtime.measure.timing import BenchmarkResult, TimingOptions
from compiler.target.gpu_arch import arch_of_version
from compiler.target.target import Target

# How a scalar is passed to a kernel, by dtype; other integers by their size.
_CODES = {"float32": "f", "float64": "d", "bool": "?", "int64": "q", "uint64": "Q", "int32": "i", "uint32": "I"}
_LARGE_L2 = 64 << 20  # taken for a device's cache where it does not tell
_SMALL = {("int", 8): "b", ("uint", 8): "B", ("int", 16): "h", ("uint", 16): "H"}


class CUDAPacker(ShapedPacker):
    """Checks arguments that are arrays of one GPU."""

    device: Device | None = None  # of the call at hand

    def _address(self, spec: ArgSpec, shape: tuple[int | str, ...], arg: Any, written: bool) -> int:
        if not isinstance(arg, NDArray):
            raise ArgumentError(f"must be an NDArray on a CUDA device, not {type(arg).__qualname__}")
        if not isinstance(arg.handle, DeviceMemory):
            raise ArgumentError(
                f"is on {arg.device}; this function runs on a CUDA device", hint="`x.copyto(cuda(0))` brings it over"
            )
        if self.device is None:
            self.device = arg.device
        elif self.device != arg.device:
            raise ArgumentError(f"is on {arg.device}, arguments before it on {self.device}")
        if arg.dtype != spec.dtype:
            raise ArgumentError(f"has dtype {arg.dtype}; the function was built for {spec.dtype}")
        if len(arg.shape) != len(shape) or any(type(w) is int and w != g for w, g in zip(shape, arg.shape)):
            raise ArgumentError(f"has shape {arg.shape}; the function was built for {list(shape)}")
        return arg.handle.address


class Kernels:
    """The PTX of one artifact, loaded into each device when it is first used there."""

    def __init__(self, artifact: Artifact) -> None:
        ptx = artifact.blobs.get("ptx")
        if ptx is None:
            raise ArtifactError("the artifact holds no PTX")
        self._ptx = ptx
        self._modules: dict[int, Any] = {}
        self._functions: dict[tuple[int, str], Any] = {}

    def function(self, api: CudaAPI, device: int, launch: Launch, codes: str) -> Any:
        found = self._functions.get((device, launch.symbol))
        if found is None:
            if device not in self._modules:
                self._modules[device] = api.driver.load(device, self._ptx)
            module = self._modules[device]
            found = api.driver.function(device, module, launch.symbol, launch.shared_bytes, codes)
            self._functions[device, launch.symbol] = found
        return found


class CUDAFunction(KernelFunction):
    """A function whose kernels run on the device of its array arguments."""

    device_type: ClassVar[str] = "cuda"

    def __init__(self, entry: EntryPoint, kernels: Kernels) -> None:
        self.name = entry.name
        self.entry = entry
        self._kernels = kernels
        self._packer = CUDAPacker(entry)
        self._unpack = struct.Struct(self._packer.layout).unpack
        self._codes = [*map(_code, entry.args), *(_CODES[arg.dtype] for arg in entry.implicit)]
        self._codes += ["P"] * len(entry.workspaces)
        self._named = [arg.name if arg.shape is None else "" for arg in entry.args]
        self._named += [arg.name for arg in entry.implicit]
        self._last: RepeatedCall | None = None
        self._lock = threading.Lock()

    def __call__(self, *args: Any) -> None:
        """Check the arguments and start the kernels; arrays read afterwards wait for them."""
        device, packed = self._checked(args)
        if len(self.entry.launches) < 2:
            self._prepared(device, packed)()
            return
        stream = cuda_api(device).stream(device)
        key = (device, stream, packed)
        with self._lock:
            if self._last is not None and self._last.key == key:
                self._last.again(stream)
                return
            self._last = None  # its memory first
            made = RepeatedCall(key, self._prepared(device, packed))
            made.call.submit(stream)
            self._last = made if made.is_worth_keeping else None

    def prepare(self, args: tuple[Any, ...]) -> PreparedCall:
        """A call on checked arguments, which may be made any number of times.
        The arrays must outlive it."""
        return self._prepared(*self._checked(args))

    def bind(self, args: tuple[Any, ...], place: Device) -> CUDACall:
        """See `KernelFunction.bind`. Raises ArgumentError for arrays of another device."""
        prepared = self.prepare(args)
        if prepared.device != place:
            raise ArgumentError(f"{self.name}: the arrays are on {prepared.device}, to be timed is {place}")
        return CUDACall(prepared, args)

    def _checked(self, args: tuple[Any, ...]) -> tuple[Device, bytes]:
        """The device to run on, and the packed arguments.
        Their bytes are equal for the same arguments only: those of 0.0 and -0.0 differ."""
        with self._lock:
            self._packer.device = None
            packed = self._packer.pack(args)
            device = self._packer.device
        return device or next((a.device for a in args if isinstance(a, NDArray)), Device("cuda", 0)), packed

    def _prepared(self, device: Device, packed: bytes) -> PreparedCall:
        api, given = cuda_api(device), self._unpack(packed)
        known = {name: int(value) for name, value in zip(self._named, given) if name}
        spaces = [self._workspace(api, device, space.dtype, space.elements, known) for space in self.entry.workspaces]
        slots = [*given, *(space.address for space in spaces)]
        starts = (self._start(api, device, launch, slots, known) for launch in self.entry.launches)
        return PreparedCall(api, device, tuple(filter(None, starts)), Workspaces(api, device, spaces))

    def _workspace(
        self, api: CudaAPI, device: Device, dtype: str, elements: str, known: dict[str, int]
    ) -> DeviceMemory:
        size = (parse_dtype(dtype).bits + 7) // 8
        return api.allocate(device, parse_extent(elements).value(known) * size)

    def _start(
        self, api: CudaAPI, device: Device, launch: Launch, slots: list[int | float], known: dict[str, int]
    ) -> Start | None:
        x, y, z = (parse_extent(text).value(known) for text in launch.grid)
        if min(x, y, z) < 1:
            return None
        if any(size > most for size, most in zip((x, y, z), MAX_GRID)):
            raise ArgumentError(
                f"{self.name}: {launch.symbol} would run in {x} x {y} x {z} blocks; a GPU starts {MAX_GRID[0]} along x "
                f"and {MAX_GRID[1]} along y and z at most",
                hint="bind what grows with the sizes to blockIdx.x",
            )
        codes = [self._codes[slot] for slot in launch.slots]
        values: list[int | float | bytes] = [slots[slot] for slot in launch.slots]
        for described in launch.tensor_maps:
            address = slots[launch.slots[described.parameter]]
            values[described.parameter] = api.driver.tensor_map(device.device_id, described, int(address))
            codes[described.parameter] = "T"
        function = self._kernels.function(api, device.device_id, launch, "".join(codes))
        start = partial(api.driver.launch, device.device_id, function, (x, y, z), launch.block, launch.shared_bytes)
        return partial(start, values=values)


class CUDACall(BoundCall):
    """A call that is timed by the device's own events around all calls of a sample (see `calls`)."""

    def __init__(self, prepared: PreparedCall, arguments: tuple[Any, ...]) -> None:
        self._prepared = prepared
        self._arguments = arguments
        self._timer = CallTimer(prepared)

    def call(self) -> None:
        self._prepared()
        self._prepared.api.sync(self._prepared.device)

    def timed(self, number: int) -> int:
        return self._timer(number)

    def flush(self) -> None:
        flush_l2(*self._arguments)

    def environment(self) -> dict[str, float]:
        state = gpu_state(self._prepared.device.device_id)
        if state is None:
            return {}
        return {
            "gpu_clock_mhz": float(state.clock),
            "gpu_memory_clock_mhz": float(state.memory_clock),
            "gpu_temperature": float(state.temperature),
            "gpu_power_w": state.power,
            "gpu_slowed": float(bool(state.slowed_by)),
        }

    def warnings(self) -> tuple[str, ...]:
        return tuple(gpu_warnings(gpu_state(self._prepared.device.device_id)))


@register_func("l2_cache_flush_cuda")
def flush_l2(*args: Any) -> None:
    """Write through twice the second-level cache of the device of the arguments. The field's name."""
    devices = {arg.device for arg in args if isinstance(arg, NDArray) and isinstance(arg.handle, DeviceMemory)}
    for device in devices:
        api, size = cuda_api(device), 2 * (device.l2_cache_size_bytes or _LARGE_L2)
        memory = api.allocate(device, size)
        api.driver.fill(device.device_id, memory.address, 0, size, api.stream(device))
        api.sync(device, api.stream(device))
        api.free(device, memory)


def _code(spec: ArgSpec) -> str:
    if spec.shape is not None:
        return "P"
    parsed = parse_dtype(spec.dtype)
    code = _CODES.get(spec.dtype) or _SMALL.get((parsed.code, parsed.bits))
    if code is None:
        raise ArtifactError(f"argument {spec.name!r}: a {spec.dtype} number cannot be passed to a kernel")
    return code


def cuda_api(device: Device) -> CudaAPI:
    """The API of CUDA devices here. Raises DeviceError that says why there is none."""
    api = find_api("cuda")
    if isinstance(api, CudaAPI):
        return api
    reason = api.reason if isinstance(api, AbsentAPI) else "another runtime serves CUDA devices"
    raise DeviceError(f"{device} cannot be used: {reason}")


class CUDAModule(Module):
    """The kernels of a module as text for people. The importing module starts them."""

    type_key = "cuda"
    format = "ptx"
    is_part_of_importer: ClassVar[bool] = True

    def __init__(self, artifact: Artifact) -> None:
        super().__init__()
        self.artifact = artifact

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels in the PTX."""
        return [launch.symbol for entry in self.artifact.entries for launch in entry.launches]

    def get_function_list(self) -> list[str]:
        """None: kernels are started through the functions of the host's module."""
        return []

    def _find(self, name: str) -> PackedFunc | None:
        return None

    def _evaluator(self, func_name: str, dev: Device, options: TimingOptions) -> Callable[..., BenchmarkResult]:
        raise DeviceError("kernels are timed through the module that starts them", hint="use the host's module")

    def get_source(self, fmt: str = "") -> str:
        """ "ptx" (the default) or "ll" (LLVM IR before optimisation, where kept). Raises ArtifactError."""
        return _source(self.artifact, fmt or "ptx", ("ptx", "ll"))

    def save(self, file_name: str, fmt: str = "") -> None:
        """Write the PTX."""
        Path(file_name).write_text(self.get_source(fmt or Path(file_name).suffix.removeprefix(".")), encoding="utf-8")


class CUDAHostModule(ArtifactModule[CUDAFunction]):
    """Functions for a GPU, as the host calls them. `imported_modules[0]` holds the kernels."""

    type_key = "cuda_host"
    format = "tunefarm"
    device_type = "cuda"
    runs_on = "CUDA devices"

    def __init__(self, artifact: Artifact) -> None:
        super().__init__(artifact)
        self._kernels = Kernels(artifact)
        self.import_module(CUDAModule(artifact))

    def _make(self, name: str) -> CUDAFunction:
        return CUDAFunction(self.artifact.entry(name), self._kernels)

    @property
    def is_runnable(self) -> bool:
        return isinstance(find_api("cuda"), CudaAPI)

    @property
    def is_binary_serializable(self) -> bool:
        return True

    is_binary = is_binary_serializable

    def _check_device(self, dev: Device) -> None:
        super()._check_device(dev)
        cuda_api(dev)  # there is one, or why not

    def get_source(self, fmt: str = "") -> str:
        """ "tir" (lowered, with barriers: the default), "ptx" or "ll", where kept. Raises ArtifactError."""
        return _source(self.artifact, fmt or "tir", ("tir", "ptx", "ll"))

    def get_ir(self) -> str:
        """The LLVM IR of the kernels, before optimisation."""
        return self.get_source("ll")

    def save(self, file_name: str, fmt: str = "") -> None:
        """Write the module: "tunefarm" (also without a suffix) for `load_module`.
        "ptx", "tir", "ll" are its texts."""
        path = Path(file_name)
        wanted = (fmt or path.suffix.removeprefix(".") or "tunefarm").lower()
        if wanted == "tunefarm":
            path.write_bytes(self.artifact.to_bytes())
        else:
            path.write_text(self.get_source(wanted), encoding="utf-8")


def _source(artifact: Artifact, wanted: str, formats: tuple[str, ...]) -> str:
    blob = artifact.blobs.get(wanted) if wanted in formats else None
    if blob is None:
        kept = [name for name in formats if name in artifact.blobs]
        raise ArtifactError(f"the module has no source in format {wanted!r}", hint=f"it has: {', '.join(kept)}")
    return blob.decode("utf-8")


class CUDADeviceBackend(DeviceBackend):
    """NVIDIA GPUs: PTX, loaded into a device when its first kernel starts."""

    def open_api(self) -> DeviceAPI:
        return find_cuda()

    def load(self, artifact: Artifact) -> CUDAHostModule:
        return CUDAHostModule(artifact)

    def is_lost(self, device: Device) -> bool:
        """Tell whether every further call fails.
        A single failed call, such as one for too much memory, does not count."""
        api = find_api(device.device_type)
        if not isinstance(api, CudaAPI):
            return False
        try:
            api.sync(device)
        except DeviceError:
            return True
        return False

    def target_of(self, device: Device) -> Target:
        version = str(device.compute_version or "")
        if not version:
            raise TargetError(
                f"{device} does not tell its compute capability", hint='name it: Target("cuda -arch=sm_80")'
            )
        limits = {
            "max_threads_per_block": device.max_threads_per_block,
            "max_shared_memory_per_block": device.max_shared_memory_per_block,
            "thread_warp_size": device.warp_size,
        }
        known = {name: value for name, value in limits.items() if value}
        return Target({"kind": "cuda", "arch": arch_of_version(version), **known}, host=Target.host())


CUDA = CUDADeviceBackend()
