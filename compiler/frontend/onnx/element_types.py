"""Element types of ONNX, and how the graph holds them.

The compiler has no 8-bit floats and no integers below 8 bits. Their tensors hold, in uint8 or int8, the bits of a
float or the value of an integer; casts and quantisation know which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from compiler.frontend.onnx.errors import OnnxImportError
from compiler.runtime.core.dtypes import storage_dtype

AnyArray = npt.NDArray[Any]
_T = TensorProto


@dataclass(frozen=True, slots=True)
class SmallFloat:
    """A float of few bits.
    A `finite` one has no infinity. An `unsigned_zero` one has no -0; those bits are its NaN."""

    bits: int
    exponent: int
    mantissa: int
    bias: int
    infinity: bool
    unsigned_zero: bool
    largest: float
    numpy: str


SMALL_FLOATS: dict[int, SmallFloat] = {
    _T.FLOAT8E4M3FN: SmallFloat(8, 4, 3, 7, False, False, 448.0, "float8_e4m3fn"),
    _T.FLOAT8E4M3FNUZ: SmallFloat(8, 4, 3, 8, False, True, 240.0, "float8_e4m3fnuz"),
    _T.FLOAT8E5M2: SmallFloat(8, 5, 2, 15, True, False, 57344.0, "float8_e5m2"),
    _T.FLOAT8E5M2FNUZ: SmallFloat(8, 5, 2, 16, False, True, 57344.0, "float8_e5m2fnuz"),
    _T.FLOAT4E2M1: SmallFloat(4, 2, 1, 1, False, False, 6.0, "float4_e2m1fn"),
    _T.FLOAT8E8M0: SmallFloat(8, 8, 0, 127, False, False, 2.0**127, "float8_e8m0fnu"),
}
SMALL_INTS: dict[int, tuple[int, int, str]] = {
    _T.INT4: (-8, 7, "int4"),
    _T.UINT4: (0, 15, "uint4"),
    _T.INT2: (-2, 1, "int2"),
    _T.UINT2: (0, 3, "uint2"),
}
"""The least and greatest value, and numpy's name."""

_PLAIN: dict[int, str] = {
    _T.FLOAT: "float32", _T.UINT8: "uint8", _T.INT8: "int8", _T.UINT16: "uint16", _T.INT16: "int16",
    _T.INT32: "int32", _T.INT64: "int64", _T.BOOL: "bool", _T.FLOAT16: "float16", _T.DOUBLE: "float64",
    _T.UINT32: "uint32", _T.UINT64: "uint64", _T.BFLOAT16: "bfloat16",
}  # fmt: skip
_OF_DTYPE: dict[str, int] = {dtype: elem for elem, dtype in _PLAIN.items()}


def dtype_of(elem: int, what: str = "a tensor") -> str:
    """The dtype in which the graph holds elements of an ONNX type.
    Raises OnnxImportError where it has none."""
    if elem in _PLAIN:
        return _PLAIN[elem]
    if elem in SMALL_FLOATS:
        return "uint8"
    if elem in SMALL_INTS:
        return "int8" if SMALL_INTS[elem][0] < 0 else "uint8"
    raise OnnxImportError(f"{what} has elements of type {elem_name(elem)}, which tensor programs do not have")


def elem_of(dtype: str) -> int:
    """The ONNX type of elements of a dtype."""
    return _OF_DTYPE[dtype]


def elem_name(elem: int) -> str:
    """The name of an ONNX element type."""
    known: bool = elem in _T.DataType.values()
    return str(_T.DataType.Name(elem)) if known else f"{elem} (unknown)"


def stored(array: AnyArray, elem: int) -> AnyArray:
    """A numpy array of an ONNX type as the graph holds it."""
    if elem in SMALL_FLOATS:
        return array.view(np.uint8) if array.dtype.itemsize == 1 else array.astype(np.uint8)
    wanted = storage_dtype(dtype_of(elem))
    if array.dtype == wanted:
        return array
    if elem in _PLAIN and array.dtype.itemsize == wanted.itemsize and array.dtype.kind == "V":
        return array.view(wanted)
    return array.astype(wanted)


def unstored(array: AnyArray, elem: int) -> AnyArray:
    """Return what the graph holds, as numpy (with ml_dtypes) has an ONNX type."""
    if elem in _PLAIN:
        return array
    if elem in SMALL_FLOATS:
        return array.view(np.dtype(getattr(ml_dtypes, SMALL_FLOATS[elem].numpy)))
    return array.astype(np.dtype(getattr(ml_dtypes, SMALL_INTS[elem][2])))
