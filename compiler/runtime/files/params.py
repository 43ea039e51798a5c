"""Parameters as bytes: named arrays, versioned and checked.

Layout, little-endian: magic, version, how many, length of the rest and its CRC-32. Then follow for each array the
length of its name and the name (UTF-8), and the length of its dtype and the dtype (ASCII). Then follow its rank, its
extents, and its elements in C order. Reading trusts nothing: no size is believed, and no memory reserved, before the
bytes for it are there.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from compiler.errors import ArgumentError, TunefarmError
from compiler.runtime.core.dtypes import dtype_name, storage_dtype
from compiler.runtime.core.ndarray import NDArray, array, empty

_MAGIC = b"TFPARAMS"
_VERSION = 1
_MAX_NDIM = 32
_HEADER = struct.Struct("<8sIIQI")


class ParamsError(TunefarmError, ValueError):
    """Bytes that are no saved parameters."""

    kind = "params"


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Named arrays (NDArrays or numpy's) as bytes that `load_param_dict` reads. Equal parameters give equal bytes.

    Raises ArgumentError naming a parameter that is no array, or whose name is no string.
    """
    parts: list[bytes] = []
    for name, value in params.items():
        if not isinstance(name, str):
            raise ArgumentError(f"a parameter's name is a string, not {name!r}")
        try:
            held = value if isinstance(value, NDArray) else array(value)
        except ArgumentError as error:
            raise ArgumentError(f"parameter {name!r}: {error.message}", hint=error.hint) from None
        key, dtype = name.encode("utf-8"), held.dtype.encode("ascii")
        parts.append(struct.pack("<I", len(key)) + key + struct.pack("<B", len(dtype)) + dtype)
        parts.append(struct.pack(f"<B{held.ndim}Q", held.ndim, *held.shape))
        parts.append(held.numpy().tobytes())
    body = b"".join(parts)
    return _HEADER.pack(_MAGIC, _VERSION, len(params), len(body), zlib.crc32(body)) + body


def load_param_dict(param_bytes: bytes | bytearray | memoryview) -> dict[str, NDArray]:
    """Read what `save_param_dict` wrote, onto the CPU. Raises ParamsError for anything else, whatever the bytes are."""
    if not isinstance(param_bytes, (bytes, bytearray, memoryview)):
        raise ArgumentError(f"parameters are read from bytes, not from {type(param_bytes).__name__}")
    view = memoryview(param_bytes)
    view = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
    if len(view) < _HEADER.size:
        raise ParamsError(f"{len(view)} bytes are too few for saved parameters")
    magic, version, count, length, checksum = _HEADER.unpack_from(view)
    if magic != _MAGIC:
        raise ParamsError("these bytes are no saved parameters", hint="the first 8 bytes must be TFPARAMS")
    if version != _VERSION:
        raise ParamsError(f"the parameters have format version {version}; this tunefarm reads version {_VERSION}")
    body = view[_HEADER.size :]
    if len(body) != length:
        raise ParamsError(f"the parameters take {length} bytes, {len(body)} are there")
    if zlib.crc32(body) != checksum:
        raise ParamsError("the parameters are damaged: their checksum does not match")
    reader = _Reader(body)
    params: dict[str, NDArray] = {}
    for _ in range(count):
        name, value = _read_array(reader)
        if name in params:
            raise ParamsError(f"parameter {name!r} is there twice")
        params[name] = value
    if reader.left:
        raise ParamsError(f"the parameters have {reader.left} bytes too many")
    return params


def save_param_dict_to_file(params: Mapping[str, Any], path: str) -> None:
    """Write parameters to a file."""
    Path(path).write_bytes(save_param_dict(params))


def load_param_dict_from_file(path: str) -> dict[str, NDArray]:
    """Read parameters from a file. Raises ParamsError when it cannot be read or holds something else."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ParamsError(f"cannot read the parameters {str(path)!r}: {error.strerror}") from None
    return load_param_dict(data)


class _Reader:
    """Bytes taken from the front, never more than there are."""

    def __init__(self, view: memoryview) -> None:
        self._view = view

    @property
    def left(self) -> int:
        return len(self._view)

    def take(self, size: int) -> memoryview:
        if size > len(self._view):
            raise ParamsError(f"the parameters are cut short: {size} bytes wanted, {len(self._view)} left")
        taken, self._view = self._view[:size], self._view[size:]
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")


def _read_array(reader: _Reader) -> tuple[str, NDArray]:
    try:
        name = bytes(reader.take(reader.number(4))).decode("utf-8")
        dtype = dtype_name(bytes(reader.take(reader.number(1))).decode("ascii"))
    except UnicodeDecodeError:
        raise ParamsError("a parameter's name or dtype is no text") from None
    except ArgumentError as error:
        raise ParamsError(f"parameter {name!r}: {error.message}") from None
    rank = reader.number(1)
    if rank > _MAX_NDIM:
        raise ParamsError(f"parameter {name!r} has {rank} dimensions, more than {_MAX_NDIM}")
    shape = tuple(reader.number(8) for _ in range(rank))
    if any(extent >= 1 << 48 for extent in shape):
        raise ParamsError(f"parameter {name!r}: the shape {shape} is not possible")
    data = reader.take(prod(shape) * storage_dtype(dtype).itemsize)
    result = empty(shape, dtype)
    if data.nbytes:
        result.as_bytes()[:] = np.frombuffer(data, np.uint8).data
    return name, result
