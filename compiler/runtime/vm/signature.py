"""Signatures of a virtual machine's functions, as data.

The runtime's counterpart of a graph's StructInfo.

Every executable has them. Callers are told which argument does not fit, and tools can make inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from compiler.errors import ArgumentError, ArtifactError
from compiler.extents import parse_extent
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.values import ShapeTuple

MAX_NDIM = 32


class ObjectInfo(msgspec.Struct, frozen=True, tag="object"):
    """Any value."""

    def __str__(self) -> str:
        return "object"


class PrimInfo(msgspec.Struct, frozen=True, tag="prim"):
    """A number. `value` is the number or expression it is known to be."""

    dtype: str
    value: str | None = None

    def __str__(self) -> str:
        return self.dtype if self.value is None else f"{self.dtype} = {self.value}"


class ShapeInfo(msgspec.Struct, frozen=True, tag="shape"):
    """A shape.
    `values` are its extents, numbers or expressions, if they are known. `ndim` is -1 if it is not."""

    values: tuple[int | str, ...] | None = None
    ndim: int = -1

    def __str__(self) -> str:
        return "shape" if self.values is None else f"shape({', '.join(map(str, self.values))})"


class SignatureTensor(msgspec.Struct, frozen=True, tag="tensor"):
    """An array.
    `dtype` is "" and `shape` None where they are not known; then `ndim` may be known, or is -1.

    `device` is "" for the machine's first device, else such as "cuda:1".
    """

    dtype: str = ""
    shape: tuple[int | str, ...] | None = None
    ndim: int = -1
    device: str = ""

    def __str__(self) -> str:
        dims = "…" if self.shape is None else ", ".join(map(str, self.shape))
        return f"{self.dtype or 'array'}[{dims}]" + (f" on {self.device}" if self.device else "")


class TupleInfo(msgspec.Struct, frozen=True, tag="tuple"):
    """A tuple of values."""

    fields: tuple[Info, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.fields))})"


class FuncInfo(msgspec.Struct, frozen=True, tag="func"):
    """A function. `params` is None for one that takes anything."""

    params: tuple[Info, ...] | None = None
    result: Info = ObjectInfo()

    def __str__(self) -> str:
        return f"({'…' if self.params is None else ', '.join(map(str, self.params))}) -> {self.result}"


class SignatureParameter(msgspec.Struct, frozen=True):
    """A function's parameter: its name, and the known facts of an array.
    `dtype` is "" and `shape` None otherwise."""

    name: str
    dtype: str = ""
    shape: tuple[int | str, ...] | None = None

    @property
    def fixed_shape(self) -> tuple[int, ...] | None:
        """The shape, where all of it is known."""
        known = () if self.shape is None else tuple(size for size in self.shape if isinstance(size, int))
        return known if self.shape is not None and len(known) == len(self.shape) else None


class Interface(msgspec.Struct, frozen=True):
    """The parameters of a function, and the number of its results."""

    params: tuple[SignatureParameter, ...] = ()
    results: int = 1


def interface(names: tuple[str, ...], info: FuncInfo | None) -> Interface:
    """The interface of a function with these parameters."""
    if info is None:
        return Interface(tuple(map(SignatureParameter, names)))
    infos = info.params or (ObjectInfo(),) * len(names)
    params = (
        SignatureParameter(name, given.dtype, given.shape)
        if isinstance(given, SignatureTensor)
        else SignatureParameter(name)
        for name, given in zip(names, infos)
    )
    return Interface(tuple(params), len(info.result.fields) if isinstance(info.result, TupleInfo) else 1)


Info = ObjectInfo | PrimInfo | ShapeInfo | SignatureTensor | TupleInfo | FuncInfo


def check_info(info: Info, depth: int = 0) -> None:
    """Raise ArtifactError unless the parts of `info`, which was read from a file, are valid."""
    if depth > 64:
        raise ArtifactError("a function's signature is nested more than 64 deep")
    match info:
        case SignatureTensor(shape=dims) | ShapeInfo(values=dims) if dims is not None:
            if len(dims) > MAX_NDIM:
                raise ArtifactError(f"a signature names an array of {len(dims)} dimensions")
            for dim in dims:
                if isinstance(dim, str):
                    parse_extent(dim)
        case TupleInfo(fields):
            for field in fields:
                check_info(field, depth + 1)
        case FuncInfo(params, result):
            for param in params or ():
                check_info(param, depth + 1)
            check_info(result, depth + 1)
        case _:
            pass


def check_value(value: Any, info: Info, what: str, known: dict[str, int]) -> None:
    """Raise ArgumentError, naming `what`, unless a value is what `info` says.

    `known` has the extents with names; extents that `info` is the first to name are added.
    """
    match info:
        case SignatureTensor():
            if not isinstance(value, NDArray):
                raise _misfit(what, info, f"is {_kind(value)}")
            if info.dtype and value.dtype != info.dtype:
                raise _misfit(what, info, f"has dtype {value.dtype}")
            if info.shape is not None:
                _check_shape(value.shape, info.shape, info, what, known)
            elif info.ndim >= 0 and value.ndim != info.ndim:
                raise _misfit(what, info, f"has {value.ndim} dimensions, not {info.ndim}")
        case ShapeInfo():
            if not isinstance(value, tuple) or not all(isinstance(extent, int) for extent in value):
                raise _misfit(what, info, f"is {_kind(value)}")
            if info.values is not None:
                _check_shape(value, info.values, info, what, known)
            elif info.ndim >= 0 and len(value) != info.ndim:
                raise _misfit(what, info, f"has {len(value)} extents, not {info.ndim}")
        case PrimInfo():
            if not isinstance(value, int | float):
                raise _misfit(what, info, f"is {_kind(value)}")
            if info.value is not None and isinstance(value, int):
                _check_shape((value,), (info.value,), info, what, known)
        case TupleInfo(fields):
            if not isinstance(value, tuple) or isinstance(value, ShapeTuple) or len(value) != len(fields):
                raise _misfit(what, info, f"is {_kind(value)}")
            for index, (item, field) in enumerate(zip(value, fields)):
                check_value(item, field, f"{what}[{index}]", known)
        case FuncInfo():
            if not callable(value):
                raise _misfit(what, info, f"is {_kind(value)}")
        case ObjectInfo():
            pass


def _check_shape(
    shape: tuple[int, ...], dims: tuple[int | str, ...], info: Info, what: str, known: dict[str, int]
) -> None:
    if len(shape) != len(dims):
        raise _misfit(what, info, f"has shape {tuple(shape)}")
    for index, (extent, dim) in enumerate(zip(shape, dims)):
        if isinstance(dim, str):
            parsed = parse_extent(dim)
            if parsed.is_name:
                wanted = known.setdefault(dim, extent)
            elif parsed.names <= known.keys():
                wanted = parsed.value(known)
            else:
                continue  # nothing says yet what its names are
        else:
            wanted = dim
        if extent != wanted:
            said = f" ({dim} = {wanted})" if isinstance(dim, str) else ""
            raise _misfit(what, info, f"has shape {tuple(shape)}: dimension {index} is {extent}, not {wanted}{said}")


def _misfit(what: str, info: Info, found: str) -> ArgumentError:
    return ArgumentError(f"{what} {found}; it must be {info}")


def _kind(value: Any) -> str:
    if isinstance(value, NDArray):
        return f"an array {value.dtype}{list(value.shape)}"
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, tuple) else "")


def describe(params: Mapping[str, Info]) -> str:
    """Named parameters with what each must be, in one line."""
    return ", ".join(f"{name}: {info}" for name, info in params.items()) or "none"
