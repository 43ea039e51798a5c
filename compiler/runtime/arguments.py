"""Kernel arguments: check them against the entry point, and pack them into the slots the kernel reads."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from compiler.artifact import ArgSpec, EntryPoint
from compiler.dtype import parse_dtype
from compiler.errors import ArgumentError
from compiler.runtime.host import ALIGNMENT
from compiler.runtime.ndarray import NDArray

_CLOSER_LOOK = object()  # equal to no array's signature


class ArgumentPacker:
    """Checks and packs the arguments of one entry point. Made once; packing costs under a microsecond."""

    def __init__(self, entry: EntryPoint) -> None:
        self._entry = entry
        self._count = len(entry.args)
        self._expected = tuple(_signature(spec) for spec in entry.args)
        self._pack = struct.Struct("=" + "".join(_slot_code(spec) for spec in entry.args)).pack

    def pack(self, args: tuple[Any, ...]) -> bytes:
        """8-byte slots in argument order: a pointer, or a scalar as int64, uint64 or float64.

        The arrays must outlive the slots. Raises ArgumentError naming the argument that does not fit.
        """
        if len(args) != self._count:
            raise self._wrong_count(len(args))
        slots: list[int | float] = []
        for arg, expected in zip(args, self._expected):
            if arg.__class__ is NDArray and arg._signature == expected:
                slots.append(arg._pointer)
            else:
                slots.append(self._look_closer(len(slots), arg))
        return self._pack(*slots)

    def _look_closer(self, index: int, arg: Any) -> int | float:
        spec = self._entry.args[index]
        try:
            return _scalar(spec, arg) if spec.shape is None else _pointer(spec, spec.shape, arg)
        except ArgumentError as error:
            where = f"{self._entry.name}: argument {index} ({spec.name})"
            detail = {"function": self._entry.name, "index": index, "name": spec.name}
            raise ArgumentError(f"{where} {error.message}", hint=error.hint, detail=detail) from None

    def _wrong_count(self, given: int) -> ArgumentError:
        wanted = ", ".join(f"{a.name}: {_describe(a)}" for a in self._entry.args)
        return ArgumentError(
            f"{self._entry.name} takes {self._count} argument{'s' * (self._count != 1)}, {given} given",
            hint=f"its arguments: {wanted or 'none'}",
        )


def _signature(spec: ArgSpec) -> object:
    """What `NDArray._signature` must equal for the array to fit without a closer look."""
    if spec.shape is None or -1 in spec.shape:
        return _CLOSER_LOOK
    return (spec.shape, spec.dtype, "cpu")


def _slot_code(spec: ArgSpec) -> str:
    if spec.shape is not None:
        return "Q"
    dtype = parse_dtype(spec.dtype)
    return "d" if dtype.is_float else "q" if dtype.is_signed else "Q"


def _describe(spec: ArgSpec) -> str:
    if spec.shape is None:
        return f"{spec.dtype} number"
    return f"{spec.dtype}[{', '.join('any' if extent < 0 else str(extent) for extent in spec.shape)}]"


def _pointer(spec: ArgSpec, shape: tuple[int, ...], arg: Any) -> int:
    """The address of an array argument that fits."""
    if not isinstance(arg, NDArray):
        is_array = isinstance(arg, np.ndarray) or hasattr(arg, "__dlpack__")
        raise ArgumentError(
            f"must be an NDArray ({_describe(spec)}), not {type(arg).__module__}.{type(arg).__qualname__}",
            hint="`nd.array(x)` makes one" if is_array else None,
        )
    if not arg.is_host:
        raise ArgumentError(
            f"is on {arg.device}; this function runs on the CPU", hint="`x.copyto(cpu())` brings it over"
        )
    if arg.dtype != spec.dtype:
        raise ArgumentError(
            f"has dtype {arg.dtype}; the function was built for {_describe(spec)}",
            hint=f'convert it: `nd.array(x.numpy().astype("{spec.dtype}"))`',
        )
    if len(arg.shape) != len(shape) or any(w not in (-1, g) for w, g in zip(shape, arg.shape)):
        raise ArgumentError(f"has shape {arg.shape}; the function was built for {_describe(spec)}")
    if not arg.is_aligned:
        raise ArgumentError(
            f"starts at {arg.data_ptr:#x}, which is not a multiple of {ALIGNMENT} bytes",
            hint="`nd.array(x)` makes an aligned copy",
        )
    return arg.data_ptr


def _scalar(spec: ArgSpec, arg: Any) -> int | float:
    """A scalar argument as what its slot holds."""
    dtype = parse_dtype(spec.dtype)
    if dtype.is_float:
        if isinstance(arg, (int, float, np.integer, np.floating)):
            return float(arg)
        raise ArgumentError(f"must be a number ({spec.dtype}), not {type(arg).__qualname__}")
    if not isinstance(arg, (int, np.integer, np.bool_)):
        raise ArgumentError(f"must be an integer ({spec.dtype}), not {type(arg).__qualname__}")
    value = int(arg)
    bits = 1 if dtype.code == "bool" else dtype.bits
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed else (0, (1 << bits) - 1)
    if not low <= value <= high:
        raise ArgumentError(f"is {value}, which {spec.dtype} cannot hold")
    return value
