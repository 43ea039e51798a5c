"""Registered functions as kernels call them.

A kernel passes a function's name, a text that describes the arguments, and their slots: see
`compiler.codegen.llvm.packed_calls`. Only functions that the program registered itself can be called. Code that was
loaded from a file thus reaches nothing of tunefarm's own. An exception of such a function ends the kernel, and is
raised again where the kernel was called.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import count
from math import prod
from typing import Any

import numpy as np

from compiler.errors import DeviceError
from compiler.runtime.core import native
from compiler.runtime.core.device import cpu
from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.core.host import HostBuffer
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.core.registry import get_global_func

_FIRST, _MOST = -1000, 1000  # codes of what functions raised: as many can wait to be raised again
_OWN = {"compiler", "rpc_server", "tracker", "tuner", "tunefarm", "webui"}
_FOR_KERNELS = "tvm.contrib."  # how the names of our own functions begin that kernels may call
_errors: dict[int, BaseException] = {}
_numbers = count()
_lock = threading.Lock()


def raised(code: int) -> BaseException | None:
    """Return the exception of the function whose kernel returned `code`.
    None for a code that means something else."""
    with _lock:
        return _errors.pop(code, None)


def _keep(error: BaseException) -> int:
    with _lock:
        code = _FIRST - next(_numbers) % _MOST
        _errors[code] = error
    return code


def _called(name: bytes, signature: bytes, slots: int) -> int:
    """Call a registered function for a kernel. Returns 0, or the code of what it raised."""
    try:
        result, *kinds = signature.decode().split(";")
        function = _function(name.decode())
        arrays: list[NDArray] = []
        value = function(*_arguments(kinds, slots + 8, arrays))
        ctypes.memmove(slots, _packed(function, result, value), 8)
        _let_go(arrays)
    except BaseException as error:  # raised again where the kernel was called
        return _keep(error)
    return 0


def _function(name: str) -> Callable[..., Any]:
    """A function that the program registered."""
    found = get_global_func(name, allow_missing=True)
    if found is None:
        raise DeviceError(
            f"a kernel calls {name!r}, but no function of that name is registered in this process",
            hint=f'register it before: @register_func("{name}")',
        )
    is_own = (getattr(found, "__module__", None) or "").partition(".")[0] in _OWN
    if is_own and not name.startswith(_FOR_KERNELS):
        raise DeviceError(f"a kernel calls {name!r}, which is a function of tunefarm's own, not the program's")
    return found


def _arguments(kinds: list[str], place: int, arrays: list[NDArray]) -> Iterator[Any]:
    """The values of the slots from `place` on.
    Arrays are views of the kernel's memory; `arrays` gets them."""
    for kind in kinds:
        if kind in "iufs":
            yield _READ[kind](place)
            place += 8
            continue
        dtype, dims, strided = _array_kind(kind)
        address, *extents = _integers(place, 1 + dims)
        place += 8 * (1 + dims)
        steps: tuple[int, ...] = ()
        if strided:
            steps, place = _integers(place, dims), place + 8 * dims
        arrays.append(_view(tuple(extents), dtype, address, steps))
        yield arrays[-1]


@lru_cache(maxsize=256)
def _array_kind(kind: str) -> tuple[str, int, bool]:
    sign = "/" if "/" in kind else ":"
    dtype, _, dims = kind.rpartition(sign)
    return dtype, int(dims), sign == "/"


def _integers(place: int, number: int) -> tuple[int, ...]:
    return struct.unpack(f"={number}q", ctypes.string_at(place, 8 * number))


def _text(place: int) -> str:
    return ctypes.string_at(_integers(place, 1)[0]).decode()


_READ: dict[str, Callable[[int], Any]] = {
    "i": lambda place: _integers(place, 1)[0],
    "u": lambda place: struct.unpack("=Q", ctypes.string_at(place, 8))[0],
    "f": lambda place: struct.unpack("=d", ctypes.string_at(place, 8))[0],
    "s": _text,
}


def _view(shape: tuple[int, ...], dtype: str, address: int, steps: tuple[int, ...]) -> NDArray:
    """The kernel's memory as an array."""
    compact = [prod(shape[dim + 1 :]) for dim in range(len(shape))]
    if steps and 0 not in shape and any(step != own for step, own, size in zip(steps, compact, shape) if size != 1):
        raise DeviceError(
            f"a kernel passes a part of an array, of strides {steps}, to a function that takes whole arrays",
            hint="copy it into a buffer of its own first",
        )
    nbytes = prod(shape) * storage_dtype(dtype).itemsize
    memory = np.frombuffer(memoryview((ctypes.c_uint8 * nbytes).from_address(address)), np.uint8)
    return NDArray(shape, dtype, cpu(), HostBuffer(memory, address))


def _let_go(arrays: list[NDArray]) -> None:
    """Copy arrays that the function kept, because the kernel's memory is gone when it ends."""
    while arrays:
        array = arrays.pop()
        if sys.getrefcount(array) > 2:  # another than this name and the call's
            kept = array.copyto(cpu())
            array._handle, array._view, array._pointer = kept.handle, kept._view, kept._pointer
            array._signature = kept._signature


def _packed(function: PackedFunc | Callable[..., Any], kind: str, value: Any) -> bytes:
    """A result as a slot. Nothing is 0, and so is an array that the function filled and returned."""
    if value is None or isinstance(value, NDArray):
        value = 0
    if not isinstance(value, bool | int | float | np.integer | np.floating | np.bool_):
        name = getattr(function, "name", "it")
        raise DeviceError(f"a kernel calls {name!r}, which returned {type(value).__name__}, not a number")
    if kind == "f":
        return struct.pack("=d", float(value))
    return struct.pack("=q" if kind == "i" else "=Q", int(value))


_HOOK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)(_called)
_address = ctypes.cast(_HOOK, ctypes.c_void_p).value
assert _address is not None
native.set_callback(_address)
