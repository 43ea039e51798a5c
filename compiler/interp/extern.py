"""Functions of the C library, as the interpreter calls them.

By address, with the types their call states.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from compiler.dtype import parse_dtype
from compiler.errors import LoweringError

_FLOATS = {"float32": ctypes.c_float, "float64": ctypes.c_double}


@lru_cache(maxsize=1)
def _libraries() -> tuple[ctypes.CDLL, ...]:
    names = [ctypes.util.find_library(name) for name in ("c", "m")]
    return tuple(ctypes.CDLL(name) for name in names if name)


def known(name: str) -> bool:
    """Whether libc or libm has a function of this name."""
    return any(hasattr(library, name) for library in _libraries())


def _c_type(dtype: str) -> Any:
    parsed = parse_dtype(dtype)
    if parsed.code == "handle":
        return ctypes.c_void_p
    if parsed.code == "bool":
        return ctypes.c_bool
    if parsed.is_int:
        return getattr(ctypes, f"c_{parsed.code}{parsed.bits}")
    if dtype not in _FLOATS:
        raise LoweringError(f"a C function takes and gives no {dtype}", hint="convert it to float32")
    return _FLOATS[dtype]


def c_call(name: str, result: str, dtypes: Sequence[str], args: Sequence[Any]) -> Any:
    """The value of the C function `name` at `args`; a result of "handle" stands for none, and gives 0."""
    function = next(getattr(library, name) for library in _libraries() if hasattr(library, name))
    function.restype = None if result == "handle" else _c_type(result)
    function.argtypes = [_c_type(dtype) for dtype in dtypes]
    found = function(*args)
    return 0 if found is None else found


def c_address(memory: memoryview, start: int, length: int) -> int:
    """The address `start` bytes into `memory`.
    Raises LoweringError where not all of the `length` bytes are in it."""
    if start < 0 or start + length > memory.nbytes:
        raise LoweringError(f"an address of bytes [{start}, {start + length}) of memory that has {memory.nbytes}")
    return ctypes.addressof(ctypes.c_char.from_buffer(memory.cast("B"))) + start
