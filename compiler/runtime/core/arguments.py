"""Kernel arguments: check them against the entry point, and pack them into the slots the kernel reads."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from compiler.artifact import ArgSpec, EntryPoint, ImplicitArg
from compiler.dtype import parse_dtype
from compiler.errors import ArgumentError
from compiler.extents import parse_extent
from compiler.runtime.core.host import ALIGNMENT
from compiler.runtime.core.ndarray import NDArray

_MOST_SHAPES = 1024  # combinations of shapes that a function remembers
_CLOSER_LOOK = object()  # equal to no array's signature


class ArgumentPacker:
    """Checks and packs the arguments of one entry point. Made once; packing costs under a microsecond."""

    def __init__(self, entry: EntryPoint) -> None:
        self._entry = entry
        self._count = len(entry.args)
        self._expected = tuple(_signature(spec) for spec in entry.args)
        self.layout = "=" + "".join(_slot_code(spec) for spec in entry.args)
        self._pack = struct.Struct(self.layout).pack

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
            if spec.shape is None:
                return _scalar(spec, arg)
            return self._address(spec, spec.shape, arg, index in self._entry.outputs)
        except ArgumentError as error:
            raise self._misfit(index, error.message, error.hint, {}) from None

    def _address(self, spec: ArgSpec, shape: tuple[int | str, ...], arg: Any, written: bool) -> int:
        """The address of an array argument that fits. Raises ArgumentError without the argument's name."""
        return _pointer(spec, shape, arg, written=written)

    def _misfit(self, index: int, message: str, hint: str | None, more: Mapping[str, Any]) -> ArgumentError:
        spec = self._entry.args[index]
        detail = {"function": self._entry.name, "index": index, "name": spec.name, **more}
        return ArgumentError(f"{self._entry.name}: argument {index} ({spec.name}) {message}", hint=hint, detail=detail)

    def _wrong_count(self, given: int) -> ArgumentError:
        wanted = ", ".join(f"{a.name}: {_describe(a)}" for a in self._entry.args)
        return ArgumentError(
            f"{self._entry.name} takes {self._count} argument{'s' * (self._count != 1)}, {given} given",
            hint=f"its arguments: {wanted or 'none'}",
        )


class ShapedPacker(ArgumentPacker):
    """Computes implicit arguments from shapes, for an entry point with extents that the call tells.

    The shapes of accepted calls are remembered. A call with known shapes therefore costs only one look-up more than one
    with constant shapes.
    """

    def __init__(self, entry: EntryPoint) -> None:
        super().__init__(entry)
        codes = [*map(_slot_code, entry.args), *("q" for _ in entry.implicit)]
        self.layout = "=" + "".join(codes)
        self._pack = struct.Struct(self.layout).pack
        used = set().union(*(parse_extent(text).names for text in entry.extents))
        # what decides whether the shapes fit: arrays, and the scalars that shapes are made of
        self._decides = tuple(spec.shape is not None or spec.name in used for spec in entry.args)
        self._seen: dict[tuple[object, ...], tuple[int, ...]] = {}

    def pack(self, args: tuple[Any, ...]) -> bytes:
        if len(args) != self._count:
            raise self._wrong_count(len(args))
        slots: list[int | float] = []
        key: list[object] = []
        for arg, decides in zip(args, self._decides):
            if arg.__class__ is NDArray:
                slots.append(arg._pointer)
                key.append(arg._signature)
            else:
                slots.append(self._look_closer(len(slots), arg))
                if decides:
                    key.append(slots[-1] if not isinstance(arg, NDArray) else arg._signature)
        look_up = tuple(key)
        implicit = self._seen.get(look_up)
        if implicit is None:
            implicit = self._implicit(args, slots)
            if len(self._seen) >= _MOST_SHAPES:
                self._seen.clear()
            self._seen[look_up] = implicit
        return self._pack(*slots, *implicit)

    def _implicit(self, args: tuple[Any, ...], slots: list[int | float]) -> tuple[int, ...]:
        """Check every array against the shapes, and compute the implicit arguments."""
        known: dict[str, int] = {}
        source: dict[str, str] = {}
        specs = list(enumerate(self._entry.args))
        for index, spec in specs:
            slots[index] = self._look_closer(index, args[index])
            if spec.shape is None:
                known[spec.name] = int(slots[index])
                source[spec.name] = f"argument {index}"
        for index, spec in specs:
            for dim, extent in enumerate(spec.shape or ()):
                if isinstance(extent, str) and extent not in known and parse_extent(extent).is_name:
                    known[extent] = args[index].shape[dim]
                    source[extent] = f"dimension {dim} of argument {index} ({spec.name})"
        for index, spec in specs:
            for dim, extent in enumerate(spec.shape or ()):
                if isinstance(extent, str):
                    self._check_extent(index, dim, extent, args[index].shape, known, source)
        return tuple(self._implicit_value(arg, known, source) for arg in self._entry.implicit)

    def _check_extent(
        self, index: int, dim: int, text: str, shape: tuple[int, ...], known: Mapping[str, int],
        source: Mapping[str, str],
    ) -> None:  # fmt: skip
        extent = parse_extent(text)
        try:
            wanted: int | None = extent.value(known)
        except ZeroDivisionError:
            wanted = None
        if shape[dim] == wanted:
            return
        because = ", ".join(f"{name} = {known[name]} from {source[name]}" for name in sorted(extent.names))
        must = "is not defined" if wanted is None else f"is {wanted}"
        raise self._misfit(
            index,
            f"has shape {shape}: its dimension {dim} is {shape[dim]}, but {text} {must} ({because})",
            f"the function was built for {_describe(self._entry.args[index])}",
            {"dimension": dim, "extent": text, "expected": wanted, "actual": shape[dim]},
        )

    def _implicit_value(self, arg: ImplicitArg, known: Mapping[str, int], source: Mapping[str, str]) -> int:
        value = parse_extent(arg.value).value(known)
        if arg.dtype == "int32" and not -(1 << 31) <= value < 1 << 31:
            raise ArgumentError(
                f"{self._entry.name}: {arg.name} = {value} does not fit into int32"
                + (f" (from {source[arg.name]})" if arg.name in source else ""),
                hint=f'declare it as int64: te.size_var("{arg.name}", "int64")',
            )
        return value


def packer_for(entry: EntryPoint) -> ArgumentPacker:
    return ShapedPacker(entry) if entry.extents or entry.implicit else ArgumentPacker(entry)


def _signature(spec: ArgSpec) -> object:
    """Return the `NDArray._signature` of arrays that fit without a closer look."""
    return _CLOSER_LOOK if spec.fixed_shape is None or spec.strides else (spec.fixed_shape, spec.dtype, "cpu")


def _slot_code(spec: ArgSpec) -> str:
    if spec.shape is not None:
        return "Q"
    dtype = parse_dtype(spec.dtype)
    return "d" if dtype.is_float else "q" if dtype.is_signed else "Q"


def _describe(spec: ArgSpec) -> str:
    if spec.shape is None:
        return f"{spec.dtype} number"
    return f"{spec.dtype}[{', '.join(map(str, spec.shape))}]"


def _pointer(spec: ArgSpec, shape: tuple[int | str, ...], arg: Any, *, written: bool) -> int:
    """The address of an array argument that fits, as far as its extents are known before the call."""
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
    if len(arg.shape) != len(shape) or any(type(w) is int and w != g for w, g in zip(shape, arg.shape)):
        raise ArgumentError(f"has shape {arg.shape}; the function was built for {_describe(spec)}")
    if spec.strides:
        raise ArgumentError(
            f"is compact, as every NDArray is; the function was built for strides {spec.strides}",
            hint="C programs call it with such memory (export_library); from Python, build it without these strides",
        )
    if not arg.is_aligned:
        raise ArgumentError(
            f"starts at {arg.data_ptr:#x}, which is not a multiple of {ALIGNMENT} bytes",
            hint="`nd.array(x)` makes an aligned copy",
        )
    if written and not arg.is_writable:
        raise ArgumentError("is read-only, and the function writes it", hint="`nd.array(x)` makes a copy that is not")
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
