"""A kernel of this machine's CPU as a function, and the errors it reports."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar, Protocol

from compiler.artifact import NO_KERNEL, EntryPoint
from compiler.errors import DeviceError
from compiler.runtime.core import native
from compiler.runtime.core.arguments import packer_for
from compiler.runtime.core.code import callbacks
from compiler.runtime.core.code.kernel_function import BoundCall, KernelFunction
from compiler.runtime.core.device import Device
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.measure import conditions
from compiler.runtime.measure.preprocess import flush_caches

_OUT_OF_MEMORY, _NO_TILES, _NO_PYTHON = -1, -2, -3


class KernelError(DeviceError, kind="kernel"):
    """A kernel that started and reported a failure."""


class Code(Protocol):
    """Machine code in this process, mapped until this is collected."""

    def address(self, symbol: str) -> int:
        """The address of a function it defines."""


class CPUFunction(KernelFunction):
    """A kernel in this process's memory."""

    device_type: ClassVar[str] = "cpu"

    def __init__(self, entry: EntryPoint, code: Code) -> None:
        self.name = entry.name
        self.entry = entry
        self.address = code.address(f"{entry.symbol}_packed")
        self._code = code  # keeps the machine code mapped
        self._pack = packer_for(entry).pack
        self._call = _PACKED_CALL(self.address)

    def __call__(self, *args: Any) -> None:
        """Check the arguments and run the kernel. Other Python threads run meanwhile."""
        code = self._call(self._pack(args))
        if code != 0:
            raise kernel_failure(self.name, code)

    def run(self, slots: bytes) -> None:
        """Run the kernel on packed arguments."""
        code = self._call(slots)
        if code != 0:
            raise kernel_failure(self.name, code)

    def pack(self, args: tuple[Any, ...]) -> bytes:
        """The checked arguments as the slots the kernel reads; the arrays must outlive them."""
        return self._pack(args)

    def bind(self, args: tuple[Any, ...], place: Device) -> CPUCall:
        """See `KernelFunction.bind`. All CPU devices are this machine's."""
        return CPUCall(self, args)

    def run_timed(self, slots: bytes, number: int) -> int:
        """Call the kernel `number` times on packed arguments. Returns nanoseconds."""
        spent: int = native.load().time(self.address, slots, number)
        if spent < 0:
            code = -1 - spent
            raise kernel_failure(self.name, code - (1 << 31) if code >= 1 << 30 else code)
        return spent


class CPUCall(BoundCall):
    """A kernel with packed arguments, timed in a native loop."""

    def __init__(self, function: CPUFunction, arguments: tuple[Any, ...]) -> None:
        self.threads = native.threads()
        self._function = function
        self._arguments = arguments
        self._slots = function.pack(arguments)

    def call(self) -> None:
        self._function.run(self._slots)

    def timed(self, number: int) -> int:
        return self._function.run_timed(self._slots, number)

    def flush(self) -> None:
        flush_caches([argument for argument in self._arguments if isinstance(argument, NDArray)])

    def environment(self) -> dict[str, float]:
        degrees = conditions.temperature()
        return {} if degrees is None else {"temperature": degrees}


# A bytes object is handed over as the address of its bytes.
_PACKED_CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p)


def kernel_failure(name: str, code: int) -> BaseException:
    """Return the error for a kernel that returned a code other than 0.
    An exception of a function that it called is returned unchanged."""
    raised = callbacks.raised(code)
    if raised is not None:
        return raised
    if code == _OUT_OF_MEMORY:
        return KernelError(f"{name} could not allocate memory for a temporary", detail={"code": code})
    if code == _NO_TILES:
        return KernelError(
            f"{name} uses the matrix unit (AMX), which the system does not let this process use",
            hint="Linux 5.16 or newer lets it, unless a container or a virtual machine hides the unit; "
            'build for a target with "-mattr=-amx-tile" to do without',
            detail={"code": code},
        )
    if code == _NO_PYTHON:
        return KernelError(
            f"{name} calls a registered function, but the library it is in was linked without a way to do so",
            hint="load it with `load_module`, or export it again",
            detail={"code": code},
        )
    if code == NO_KERNEL:
        return KernelError(
            f"{name} has no kernel for these sizes", hint="add them to its family's sizes", detail={"code": code}
        )
    return KernelError(f"{name} failed with code {code}", detail={"code": code})
