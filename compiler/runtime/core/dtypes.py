"""Between kernels' dtypes and numpy's."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.dtype import parse_dtype
from compiler.errors import ArgumentError, IRError

AnyArray = npt.NDArray[Any]


@lru_cache(maxsize=1)
def _bfloat16() -> np.dtype[Any] | None:
    """numpy's bfloat16 if ml_dtypes is installed; without it the bits are carried as uint16."""
    try:
        dtype: np.dtype[Any] = np.dtype(import_module("ml_dtypes").bfloat16)
        return dtype
    except ImportError:
        return None


def dtype_name(dtype: npt.DTypeLike) -> str:
    """The canonical name of an array dtype (a name or numpy's).
    Raises ArgumentError for an impossible one."""
    if isinstance(dtype, str):
        return _checked_name(dtype)
    try:
        name = np.dtype(dtype).name
    except TypeError:
        raise ArgumentError(f"{dtype!r} is no dtype", hint='for instance "float32"') from None
    return _checked_name(name)


@lru_cache(maxsize=256)
def _checked_name(dtype: str) -> str:
    try:
        parsed = parse_dtype(dtype)
    except IRError as error:
        raise ArgumentError(f"arrays cannot have dtype {dtype!r}", hint=error.hint) from None
    if parsed.lanes != 1 or parsed.code == "handle" or parsed.bits < 8:
        raise ArgumentError(f"arrays cannot have dtype {dtype!r}", hint="one element takes whole bytes and one lane")
    return str(parsed)


@lru_cache(maxsize=256)
def storage_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy dtype that holds an array dtype."""
    name = dtype_name(dtype)
    if name == "bfloat16":
        return _bfloat16() or np.dtype(np.uint16)
    return np.dtype(name)


def cast_to(values: AnyArray, dtype: str) -> AnyArray:
    """`values` as `dtype` is stored. Raises ArgumentError if that changes the kind of number."""
    wanted = storage_dtype(dtype)
    if values.dtype == wanted:
        return values
    if dtype == "bfloat16" and wanted == np.uint16 and values.dtype.kind == "f":
        return _round_to_bfloat16(values)
    if not (np.can_cast(values.dtype, wanted, "same_kind") or _custom_float(values.dtype, wanted)):
        raise ArgumentError(
            f"cannot copy {values.dtype} into {dtype} without changing what the numbers are",
            hint=f'convert first: `x.astype("{wanted}")`',
        )
    return values.astype(wanted)


def _custom_float(source: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Cast to bfloat16, for which numpy knows no casting rule.
    Between floats it is a rounding like any other."""
    bfloat16 = _bfloat16()
    return bfloat16 is not None and all(d == bfloat16 or d.kind == "f" for d in (source, wanted))


def _round_to_bfloat16(values: AnyArray) -> AnyArray:
    """The bits of the nearest bfloat16, ties to even; a NaN stays one."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).reshape(values.shape)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)
