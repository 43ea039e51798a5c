"""Describe matrices whose tiles kernels copy by themselves (CUtensorMap).

A call in libcuda does it, which PyCUDA does not have.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, c_int, c_uint32, c_uint64, c_void_p
from typing import Any

from compiler.errors import DeviceError
from compiler.launches import TensorMap

SIZE, _ALIGN = 128, 64  # bytes
_DTYPES = {"float16": (6, 2), "bfloat16": (9, 2)}  # CUtensorMapDataType, bytes of an element
_SWIZZLE_128, _PROMOTE_256, _PLAIN, _ZEROS = 3, 3, 0, 0  # rows as 128 swizzled bytes; L2 reads 256; zeros outside
_SIGNATURE = (
    c_void_p, c_int, c_uint32, c_void_p, POINTER(c_uint64), POINTER(c_uint64), POINTER(c_uint32), POINTER(c_uint32),
    c_int, c_int, c_int, c_int,
)  # fmt: skip

Encoder = Callable[[TensorMap, int], bytes]  # (the matrix and its tiles, its address) → what a kernel is passed


def find_encoder(open_library: Callable[[str], Any] = ctypes.CDLL) -> Encoder | None:
    """The call, where libcuda has it (CUDA 12.0 and later)."""
    try:
        function = open_library("libcuda.so.1").cuTensorMapEncodeTiled
    except (OSError, AttributeError):
        return None
    function.argtypes, function.restype = _SIGNATURE, c_int

    def encode(tensor_map: TensorMap, address: int) -> bytes:
        """Raise DeviceError where the driver does not take it."""
        kind, size = _DTYPES[tensor_map.dtype]
        rows, columns = tensor_map.shape
        room = ctypes.create_string_buffer(SIZE + _ALIGN)
        start = -ctypes.addressof(room) % _ALIGN
        code = function(
            ctypes.addressof(room) + start, kind, 2, address,
            (c_uint64 * 2)(columns, rows), (c_uint64 * 1)(columns * size), (c_uint32 * 2)(*reversed(tensor_map.box)),
            (c_uint32 * 2)(1, 1), _PLAIN, _SWIZZLE_128, _PROMOTE_256, _ZEROS,
        )  # fmt: skip
        if code:
            raise DeviceError(
                f"cuTensorMapEncodeTiled failed with error {code} for {rows} x {columns} {tensor_map.dtype} at "
                f"{address:#x}",
                hint="its address and the bytes of its rows are to be multiples of 16",
            )
        return room.raw[start : start + SIZE]

    return encode
