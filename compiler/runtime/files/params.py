"""Parameters as bytes: named arrays, in the layout that Apache TVM reads and writes, and checked.

Layout, little-endian: a magic number and a reserved word; how many names, each with its length; how many arrays. Each
array has a magic number and a reserved word, its device, rank and type, its extents, the length of its elements, and
these in C order. What is written here ends with a mark and the CRC-32 of all before it, which TVM ignores. The older
layout of tunefarm before 1.0 (`TFPARAMS`) is still read. Reading trusts nothing: no memory is reserved before the bytes
for it are there.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from compiler.dtype import parse_dtype
from compiler.errors import ArgumentError, TunefarmError
from compiler.runtime.core.dtypes import dtype_name, storage_dtype
from compiler.runtime.core.ndarray import NDArray, array, empty

_MAGIC = 0xF7E58D4F05049CB7
_ARRAY_MAGIC = 0xDD5E40F096B4A13F
_ARRAY = struct.Struct("<QQiiiBBH")  # magic, reserved, device's type and number, rank, code of the type, bits, lanes
_CPU = 1
_SEAL = struct.Struct("<8sI")  # mark, CRC-32
_SEAL_MARK = b"TFCRC-32"
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_NAMES = {code: name for name, code in _CODES.items()}

_OLD_MAGIC = b"TFPARAMS"
_OLD_VERSION = 1
_OLD_HEADER = struct.Struct("<8sIIQI")
_MAX_NDIM = 32


class ParamsError(TunefarmError, ValueError, kind="params"):
    """Bytes that are no saved parameters."""


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Named arrays (NDArrays or numpy's) as bytes that `load_param_dict` reads.

    Equal parameters give equal bytes. Raises ArgumentError naming a parameter that is no array, or whose name is no
    string.
    """
    names: list[bytes] = []
    arrays: list[bytes] = []
    for name, value in params.items():
        if not isinstance(name, str):
            raise ArgumentError(f"a parameter's name is a string, not {name!r}")
        try:
            held = value if isinstance(value, NDArray) else array(value)
        except ArgumentError as error:
            raise ArgumentError(f"parameter {name!r}: {error.message}", hint=error.hint) from None
        key = name.encode("utf-8")
        names.append(struct.pack("<Q", len(key)) + key)
        data = held.numpy().tobytes()
        head = _ARRAY.pack(_ARRAY_MAGIC, 0, _CPU, 0, held.ndim, *_coded(held.dtype), 1)
        arrays += [head, struct.pack(f"<{held.ndim}qq", *held.shape, len(data)), data]
    count = struct.pack("<Q", len(names))
    written = b"".join([struct.pack("<QQ", _MAGIC, 0), count, *names, count, *arrays])
    return written + _SEAL.pack(_SEAL_MARK, zlib.crc32(written))


def load_param_dict(param_bytes: bytes | bytearray | memoryview) -> dict[str, NDArray]:
    """Read what `save_param_dict` wrote, here or in Apache TVM, onto the CPU.

    Raises ParamsError for anything else, whatever the bytes are.
    """
    if not isinstance(param_bytes, (bytes, bytearray, memoryview)):
        raise ArgumentError(f"parameters are read from bytes, not from {type(param_bytes).__name__}")
    view = memoryview(param_bytes)
    view = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
    if bytes(view[: len(_OLD_MAGIC)]) == _OLD_MAGIC:
        named = _read_old(view)
    elif bytes(view[:8]) == struct.pack("<Q", _MAGIC):
        named = _read(view)
    else:
        raise ParamsError("these bytes are no saved parameters", hint=f"the first 8 bytes must be {_MAGIC:#x}")
    params: dict[str, NDArray] = {}
    for name, value in named:
        if name in params:
            raise ParamsError(f"parameter {name!r} is there twice")
        params[name] = value
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


def _coded(dtype: str) -> tuple[int, int]:
    """The code and the bits of a dtype in files."""
    parsed = parse_dtype(dtype)
    return (_CODES["uint"], 1) if parsed.code == "bool" else (_CODES[parsed.code], parsed.bits)


def _read(view: memoryview) -> list[tuple[str, NDArray]]:
    """Read the names and arrays, and check the checksum, if there is one."""
    body = view
    if len(view) > _SEAL.size:
        mark, checksum = _SEAL.unpack(view[-_SEAL.size :])
        if mark == _SEAL_MARK:
            body = view[: -_SEAL.size]
            if zlib.crc32(body) != checksum:
                raise ParamsError("the parameters are damaged: their checksum does not match")
    reader = _Reader(body)
    reader.take(16)
    count = reader.number(8)
    names: list[str] = []
    while len(names) < count:
        names.append(_text(reader.take(reader.number(8))))
    if reader.number(8) != count:
        raise ParamsError("the parameters have another number of names than of arrays")
    named = [(name, _read_array(reader, name)) for name in names]
    if reader.left:
        raise ParamsError(f"the parameters have {reader.left} bytes too many")
    return named


def _read_array(reader: _Reader, name: str) -> NDArray:
    magic, _, _, _, rank, code, bits, lanes = _ARRAY.unpack(reader.take(_ARRAY.size))
    if magic != _ARRAY_MAGIC:
        raise ParamsError(f"parameter {name!r} is no array")
    is_bool = code == _CODES["bool"] or (code == _CODES["uint"] and bits == 1)
    spelled = "bool" if is_bool else f"{_NAMES.get(code, f'type {code} of ')}{bits}"
    shape = _shape(reader, name, rank)
    size = reader.number(8)
    return _filled(reader, name, spelled if lanes == 1 else f"{spelled}x{lanes}", shape, size)


def _shape(reader: _Reader, name: str, rank: int) -> tuple[int, ...]:
    if not 0 <= rank <= _MAX_NDIM:
        raise ParamsError(f"parameter {name!r} has {rank} dimensions, more than {_MAX_NDIM}")
    shape = tuple(reader.number(8) for _ in range(rank))
    if any(extent >= 1 << 48 for extent in shape):
        raise ParamsError(f"parameter {name!r}: the shape {shape} is not possible")
    return shape


def _filled(reader: _Reader, name: str, dtype: str, shape: tuple[int, ...], size: int | None) -> NDArray:
    """Make an array of the next bytes. `size` is their number as the file states it."""
    try:
        dtype = dtype_name(dtype)
    except ArgumentError as error:
        raise ParamsError(f"parameter {name!r}: {error.message}") from None
    needed = prod(shape) * storage_dtype(dtype).itemsize
    if size not in (None, needed):
        raise ParamsError(f"parameter {name!r} takes {needed} bytes, not {size}")
    data = reader.take(needed)
    result = empty(shape, dtype)
    if data.nbytes:
        result.as_bytes()[:] = np.frombuffer(data, np.uint8).data
    return result


def _text(data: memoryview) -> str:
    try:
        return bytes(data).decode("utf-8")
    except UnicodeDecodeError:
        raise ParamsError("a parameter's name or dtype is no text") from None


# --- files of tunefarm before 1.0 ------------------------------------------------------------------------------


def _read_old(view: memoryview) -> list[tuple[str, NDArray]]:
    """Read magic, version, how many, length of the rest and its CRC-32.
    Then each array's name, dtype and elements."""
    if len(view) < _OLD_HEADER.size:
        raise ParamsError(f"{len(view)} bytes are too few for saved parameters")
    _, version, count, length, checksum = _OLD_HEADER.unpack_from(view)
    if version != _OLD_VERSION:
        raise ParamsError(f"the parameters have format version {version}; this tunefarm reads version {_OLD_VERSION}")
    body = view[_OLD_HEADER.size :]
    if len(body) != length:
        raise ParamsError(f"the parameters take {length} bytes, {len(body)} are there")
    if zlib.crc32(body) != checksum:
        raise ParamsError("the parameters are damaged: their checksum does not match")
    reader = _Reader(body)
    named: list[tuple[str, NDArray]] = []
    while len(named) < count:
        name = _text(reader.take(reader.number(4)))
        dtype = _text(reader.take(reader.number(1)))
        shape = _shape(reader, name, reader.number(1))
        named.append((name, _filled(reader, name, dtype, shape, None)))
    if reader.left:
        raise ParamsError(f"the parameters have {reader.left} bytes too many")
    return named
