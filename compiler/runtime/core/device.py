"""Devices, and the interface behind which a kind of device keeps its memory.

A `Device` is a name: making one never fails. Using one that is absent raises a DeviceError that says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Protocol, TypeVar, overload

from compiler.errors import DeviceError
from compiler.runtime.core.absent import AbsentAPI
from compiler.runtime.core.backends import DEVICE_BACKENDS
from compiler.runtime.core.host import HostAPI
from compiler.target.options import find_kind, kind_names

TYPE_CODES: dict[str, int] = {
    "cpu": 1,
    "cuda": 2,
    "cuda_host": 3,
    "opencl": 4,
    "vulkan": 7,
    "metal": 8,
    "vpi": 9,
    "rocm": 10,
    "rocm_host": 11,
    "ext_dev": 12,
    "cuda_managed": 13,
    "webgpu": 15,
    "hexagon": 16,
}
"""The numbers of the types that devices here may have."""
# Names that are neither a device type's nor a target kind's, which stands for the devices that run its code.
_ALIASES: dict[str, str] = {"hybrid": "cpu", "composite": "cpu", "gpu": "cuda", "cl": "opencl", "mtl": "metal"}
_BY_CODE = {code: name for name, code in TYPE_CODES.items()}


class DeviceNameError(DeviceError, ValueError, kind="device_name"):
    """An unknown device type."""


class DeviceAPI(Protocol):
    """The operations of a kind of device. `handle` is whatever `allocate` returned, opaque to the caller.

    One object serves every device of its kind, so each method takes the device's index. Host memory is passed as a
    C-contiguous buffer of exactly the bytes to move. Methods raise DeviceError when the device is absent or fails.
    `free` must not raise, because the garbage collector calls it.
    """

    def exist(self, device: Device) -> bool:
        """Whether the device is present and usable."""

    def allocate(self, device: Device, nbytes: int) -> Any:
        """Reserve `nbytes` (may be 0) of memory aligned to 64 bytes; contents undefined."""

    def free(self, device: Device, handle: Any) -> None:
        """Give memory back. Never raises."""

    def copy_from_host(self, device: Device, handle: Any, data: memoryview) -> None:
        """Write `data` to the start of the memory."""

    def copy_to_host(self, device: Device, handle: Any, out: memoryview) -> None:
        """Fill `out` from the start of the memory, once earlier work has finished."""

    def copy_within(self, device: Device, source: Any, target: Any, nbytes: int) -> None:
        """Copy between two allocations of this device."""

    def sync(self, device: Device, stream: Any = None) -> None:
        """Wait until the device (or one stream of it) has finished."""

    def attribute(self, device: Device, name: str) -> Any:
        """A property such as "warp_size" or "device_name"; None where it does not apply."""

    def create_stream(self, device: Device) -> Any:
        """A new stream's handle, None where there are no streams."""

    def free_stream(self, device: Device, stream: Any) -> None:
        """Free what `create_stream` returned."""

    def set_stream(self, device: Device, stream: Any) -> None:
        """Submit this thread's following work to `stream`."""


T = TypeVar("T")


class _Attribute(Generic[T]):
    """A device property, asked of the device's API; None where it does not apply or the device is absent."""

    def __init__(self, doc: str = "", fixed: Mapping[str, T] = MappingProxyType({})) -> None:
        self.__doc__ = doc
        self._fixed = fixed  # by device type, whatever the device at hand is

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, device: None, owner: type) -> _Attribute[T]: ...
    @overload
    def __get__(self, device: Device, owner: type) -> T | None: ...
    def __get__(self, device: Device | None, owner: type) -> _Attribute[T] | T | None:
        if device is None:
            return self
        if device.device_type in self._fixed:
            return self._fixed[device.device_type]
        value: T | None = device.api.attribute(device, self.name) if device.exist else None
        return value


class DeviceCodes:
    """The numbers under the names that TVM gives them, for `Device` to show."""

    kDLCPU: ClassVar[int] = 1
    kDLCUDA: ClassVar[int] = 2
    kDLCUDAHost: ClassVar[int] = 3
    kDLOpenCL: ClassVar[int] = 4
    kDLVulkan: ClassVar[int] = 7
    kDLMetal: ClassVar[int] = 8
    kDLVPI: ClassVar[int] = 9
    kDLROCM: ClassVar[int] = 10
    kDLROCMHost: ClassVar[int] = 11
    kDLExtDev: ClassVar[int] = 12
    kDLCUDAManaged: ClassVar[int] = 13
    kDLOneAPI: ClassVar[int] = 14
    kDLWebGPU: ClassVar[int] = 15
    kDLHexagon: ClassVar[int] = 16
    kDLAOCL: ClassVar[int] = 32
    kDLSDAccel: ClassVar[int] = 33
    kOpenGL: ClassVar[int] = 34
    kDLMicroDev: ClassVar[int] = 35
    MASK2STR: ClassVar[MappingProxyType[int, str]] = MappingProxyType(
        {code: name for name, code in TYPE_CODES.items()}
        | {14: "oneapi", 32: "aocl", 33: "sdaccel", 34: "opengl", 35: "microdev"}
    )


@dataclass(frozen=True)
class Device(DeviceCodes):
    """A device: its type ("cpu", "cuda", …; an alias or a TVM type code is accepted) and index.

    Subclasses override `api` to put a device somewhere else, for instance behind a connection. Devices
    compare equal when class, type, index and the subclass's own fields do.
    """

    device_type: str
    device_id: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "device_type", canonical_type(self.device_type))
        index = self.device_id
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise DeviceNameError(f"a device index is a non-negative integer, not {index!r}")

    def __str__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    __repr__ = __str__

    @property
    def api(self) -> DeviceAPI:
        """Where this device's memory and properties are found."""
        return find_api(self.device_type)

    @property
    def type_code(self) -> int:
        """TVM's and DLPack's number for the device type."""
        return TYPE_CODES[self.device_type]

    @property
    def exist(self) -> bool:
        """Whether the device is present and usable."""
        return self.api.exist(self)

    max_threads_per_block = _Attribute[int]()
    warp_size = _Attribute[int]("1 for metal and opencl, which do not say.", fixed={"metal": 1, "opencl": 1})
    max_shared_memory_per_block = _Attribute[int]("Bytes.")
    compute_version = _Attribute[str]('Such as "9.0" for an NVIDIA GPU.')
    device_name = _Attribute[str]()
    max_clock_rate = _Attribute[int]("kHz.")
    multi_processor_count = _Attribute[int]()
    max_thread_dimensions = _Attribute[list[int]]("The largest x, y and z of a thread block.")
    api_version = _Attribute[int]()
    driver_version = _Attribute[str]()
    l2_cache_size_bytes = _Attribute[int]()
    total_global_memory = _Attribute[int]("Bytes.")

    def texture_spatial_limit(self) -> list[int] | None:
        """The largest texture in each dimension."""
        limit: list[int] | None = self.api.attribute(self, "texture_spatial_limit") if self.exist else None
        return limit

    def host_memory(self, nbytes: int) -> memoryview | None:
        """Return host memory into which an array can be copied; None if any will do.
        Subclasses may choose better memory."""
        return None

    def sync(self, stream: Any = None) -> None:
        """Wait until work submitted to the device (or to one stream) has finished."""
        self.api.sync(self, stream)

    def create_raw_stream(self) -> Any:
        return self.api.create_stream(self)

    def free_raw_stream(self, stream: Any) -> None:
        self.api.free_stream(self, stream)

    def set_raw_stream(self, stream: Any) -> None:
        self.api.set_stream(self, stream)


def canonical_type(name: str | int) -> str:
    """The device type a name, alias or TVM type code stands for. Raises DeviceNameError (a ValueError)."""
    found = _BY_CODE.get(name) if isinstance(name, int) else _type_of(name)
    if found is None:
        known = dict.fromkeys([*TYPE_CODES, *_ALIASES, *kind_names()])
        raise DeviceNameError(f"unknown device type {name!r}", hint=f"known types: {', '.join(known)}")
    return found


def _type_of(name: str) -> str | None:
    if name in TYPE_CODES:
        return name
    if name in _ALIASES:
        return _ALIASES[name]
    kind = find_kind(name)
    return None if kind is None else kind.device


_apis: dict[str, DeviceAPI] = {"cpu": HostAPI()}


def register_api(device_type: str, api: DeviceAPI) -> None:
    """Make `api` serve local devices of a type. The last registration counts."""
    _apis[canonical_type(device_type)] = api


def find_api(device_type: str) -> DeviceAPI:
    """Return what serves local devices of a type; an AbsentAPI where nothing does."""
    api = _apis.get(device_type)
    if api is not None:
        return api
    backend = DEVICE_BACKENDS.find_for_device(device_type)
    if backend is not None:
        return _apis.setdefault(device_type, backend.open_api())  # looks for a driver: only when one is wanted
    return AbsentAPI(f"this tunefarm has no runtime for {device_type} devices on this machine")


def used_device_types() -> tuple[str, ...]:
    """Return the types of the local devices that this process has asked for; no driver is looked for."""
    return tuple(_apis)


def enabled(target: str) -> bool:
    """Whether code for a target kind or device type can run on this machine: `enabled("llvm")`.

    "rpc" stands for other machines' devices, which are always available. No code is made for "c".
    """
    if target in ("rpc", "c"):
        return target == "rpc"
    try:
        return device(target).exist
    except DeviceNameError:
        return False


def device(dev_type: str | int, dev_id: int = 0) -> Device:
    """A device from its type's name (or a target string, or a type code) and index.

    Raises DeviceNameError, a ValueError, for an unknown type. The device need not be present.
    """
    if isinstance(dev_type, str) and " " in dev_type.strip():
        dev_type = dev_type.split()[0]
    return Device(canonical_type(dev_type), dev_id)


def cpu(dev_id: int = 0) -> Device:
    return Device("cpu", dev_id)


def cuda(dev_id: int = 0) -> Device:
    return Device("cuda", dev_id)


def gpu(dev_id: int = 0) -> Device:
    return Device("cuda", dev_id)


def rocm(dev_id: int = 0) -> Device:
    return Device("rocm", dev_id)


def opencl(dev_id: int = 0) -> Device:
    return Device("opencl", dev_id)


def cl(dev_id: int = 0) -> Device:
    return Device("opencl", dev_id)


def vulkan(dev_id: int = 0) -> Device:
    return Device("vulkan", dev_id)


def metal(dev_id: int = 0) -> Device:
    return Device("metal", dev_id)


def mtl(dev_id: int = 0) -> Device:
    return Device("metal", dev_id)


def vpi(dev_id: int = 0) -> Device:
    return Device("vpi", dev_id)


def ext_dev(dev_id: int = 0) -> Device:
    return Device("ext_dev", dev_id)


def hexagon(dev_id: int = 0) -> Device:
    return Device("hexagon", dev_id)


def webgpu(dev_id: int = 0) -> Device:
    return Device("webgpu", dev_id)
