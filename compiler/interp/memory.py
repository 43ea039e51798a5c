"""Where buffers live while a function is interpreted: flat, typed memory views."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.dtype import element_of, parse_dtype
from compiler.errors import LoweringError
from compiler.tir import nodes as n

# 16-bit floats are kept as their bits
_STORAGE = {"bool": "?", "float16": "H", "bfloat16": "H", "float32": "f", "float64": "d"}
_INTS = {8: "b", 16: "h", 32: "i", 64: "q"}
# What fresh memory holds: NaN or an odd pattern, so that a read before a write shows.
_POISON: dict[str, Any] = {"?": True, "f": np.nan, "d": np.nan}
_POISON_BITS = {"float16": 0x7E00, "bfloat16": 0x7FC0}


def storage(dtype: str) -> str:
    """The struct format of one element of memory. Raises LoweringError for a dtype without one."""
    element = element_of(dtype)
    if element in _STORAGE:
        return _STORAGE[element]
    parsed = parse_dtype(element)
    if parsed.is_int and parsed.bits in _INTS:
        code = _INTS[parsed.bits]
        return code if parsed.is_signed else code.upper()
    raise LoweringError(f"the interpreter cannot store {dtype}")


def allocate(size: int, dtype: str) -> memoryview:
    """Fresh memory for `size` elements, poisoned."""
    code = storage(dtype)
    poison = _POISON_BITS.get(dtype, _POISON.get(code, 0x5B))
    return np.full(size, poison, np.dtype(code)).data


def reinterpreted(memory: memoryview, code: str) -> memoryview:
    """The same bytes as elements of another format."""
    return memory if memory.format == code else memory.cast("B").cast(code)  # type: ignore[call-overload]


class InterpreterMemory:
    """The Python names of the memory behind each buffer, and views of regions."""

    def __init__(self) -> None:
        self._names: dict[tuple[n.Var, str], str] = {}
        self._views: dict[n.Buffer, tuple[str, list[str], str]] = {}

    def define(self, data: n.Var, code: str, name: str) -> None:
        self._names[data, code] = name

    def names(self) -> list[str]:
        """The names of all memory in use."""
        return list(self._names.values())

    def all_of(self, data: n.Var) -> list[str]:
        """The names of the memory behind `data`, one a format."""
        return [name for (var, _), name in self._names.items() if var is data]

    def forget_since(self, known: list[str]) -> None:
        """Forget the memory that was named after `known`: its scope has ended."""
        self._names = {key: name for key, name in self._names.items() if name in known}

    def define_view(self, buffer: n.Buffer, memory: str, strides: list[str], offset: str) -> None:
        """`buffer` is a view of another one's memory."""
        self._views[buffer] = memory, strides, offset

    def of(self, buffer: n.Buffer) -> str:
        """The name of the memory of `buffer`. Raises LoweringError when nothing allocates it here."""
        if buffer in self._views:
            return self._views[buffer][0]
        name = self._names.get((buffer.data, storage(buffer.dtype)))
        if name is None:
            raise LoweringError(f"buffer {buffer.name} is used outside the scope that allocates it")
        return name

    def at_address(self, data: n.Var) -> str:
        """The name of the memory that the address `data` points to, in any of its formats."""
        for (var, _), name in self._names.items():
            if var is data:
                return name
        raise LoweringError(f"the address {data.name} is used outside the scope that allocates it")

    def strides(self, buffer: n.Buffer) -> list[str] | None:
        return self._views[buffer][1] if buffer in self._views else None

    def offset(self, buffer: n.Buffer) -> str | None:
        return self._views[buffer][2] if buffer in self._views else None

    def site(self, buffer: n.Buffer) -> str:
        """Return the name of a buffer for messages."""
        return buffer.name
