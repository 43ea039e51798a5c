"""An executable in a file: instructions, kernels, constants, imported modules.

Constants are mapped, not copied.

A header and a manifest (see `framed_manifest`); zeros up to a multiple of 4096; then the blobs, each at a multiple of
64 bytes. Equal programs give equal bytes. Equal constants are stored once.

Reading trusts nothing: sizes and offsets are checked before use, and the hashes of instructions and kernels are
compared. The constants' hashes are compared by `verify`, as that takes time with their size.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from compiler.artifact import MAX_NDIM, Artifact
from compiler.errors import ArgumentError, ArtifactError
from compiler.framed_manifest import Framing
from compiler.runtime.core.device import cpu
from compiler.runtime.core.dtypes import dtype_name, storage_dtype
from compiler.runtime.core.host import ALIGNMENT, HostBuffer
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.values import DataType, ShapeTuple
from compiler.runtime.vm.bytecode import VMFunction
from compiler.runtime.vm.executable import Constant, Program

MAGIC = b"TUNEFMDL"
FORMAT_VERSION = 1
MAX_MANIFEST_BYTES = 256 << 20
MAX_CONSTANTS = 1 << 22
_PAGE = 4096
_FRAMING = Framing("model", "a", MAGIC, FORMAT_VERSION, MAX_MANIFEST_BYTES)


class _Blob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes of the file: `offset` counts from the first multiple of 4096 after the manifest."""

    offset: int
    size: int
    sha256: str


class _Array(msgspec.Struct, frozen=True, tag="array", forbid_unknown_fields=True):
    dtype: str
    shape: tuple[int, ...]
    blob: int


class _Shape(msgspec.Struct, frozen=True, tag="shape", forbid_unknown_fields=True):
    extents: tuple[int, ...]


class _DataType(msgspec.Struct, frozen=True, tag="dtype", forbid_unknown_fields=True):
    name: str


class _Text(msgspec.Struct, frozen=True, tag="str", forbid_unknown_fields=True):
    text: str


class _Integer(msgspec.Struct, frozen=True, tag="int", forbid_unknown_fields=True):
    value: int


class _Real(msgspec.Struct, frozen=True, tag="float", forbid_unknown_fields=True):
    value: str  # as float.hex writes it: exact, and for infinities and NaN too


_ConstantRecord = _Array | _Shape | _DataType | _Text | _Integer | _Real


class _Kernels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    device: str
    blob: int


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    target: str
    code: int
    kernels: tuple[_Kernels, ...]
    constants: tuple[_ConstantRecord, ...]
    blobs: tuple[_Blob, ...]
    meta: dict[str, str]
    interpreted: tuple[str, ...] = ()
    modules: tuple[int, ...] = ()


_manifest_decoder = msgspec.json.Decoder(_Manifest)
_code_decoder = msgspec.msgpack.Decoder(tuple[VMFunction, ...])
_code_encoder = msgspec.msgpack.Encoder()


def is_model(head: bytes) -> bool:
    """Whether a file that begins with `head` is an executable's."""
    return head[: len(MAGIC)] == MAGIC


# -- writing ---------------------------------------------------------------------------------------
class _Blobs:
    """Blobs on their way into a file, equal ones once."""

    def __init__(self) -> None:
        self.records: list[_Blob] = []
        self.data: list[Any] = []
        self._known: dict[str, int] = {}
        self._end = 0

    def add(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        digest = hashlib.sha256(view).hexdigest()
        index = self._known.get(digest)
        if index is None:
            index = self._known[digest] = len(self.records)
            offset = _aligned(self._end, ALIGNMENT)
            self.records.append(_Blob(offset, view.nbytes, digest))
            self.data.append(view)
            self._end = offset + view.nbytes
        return index


@dataclass(frozen=True)
class FileLayout:
    """A file before it is written: `chunks` are its bytes, piece by piece.
    `arrays` says where arrays lie in it, by their numbers in the executable; `size` is that of the whole."""

    chunks: tuple[bytes | memoryview, ...]
    arrays: Mapping[int, int]
    size: int


def layout(program: Program) -> FileLayout:
    """Lay a program out as a file. Raises ArtifactError for an array that is not in host memory."""
    blobs = _Blobs()
    code = blobs.add(_code_encoder.encode(program.functions))
    kernels = tuple(_Kernels(device, blobs.add(made.to_bytes())) for device, made in sorted(program.kernels.items()))
    constants = tuple(_record(constant, blobs) for constant in program.constants)
    modules = tuple(blobs.add(module.to_bytes()) for module in program.modules)
    described = _Manifest(
        FORMAT_VERSION, program.target, code, kernels, constants, tuple(blobs.records), dict(program.meta),
        program.interpreted, modules,
    )  # fmt: skip
    manifest = msgspec.to_builtins(described)
    if not modules:  # versions that know of none read such files
        del manifest["modules"]
    head = _FRAMING.begin(manifest)
    parts: list[bytes | memoryview] = [head]
    at = len(head)
    start = _aligned(at, _PAGE)
    for record, data in zip(blobs.records, blobs.data):
        parts += [bytes(start + record.offset - at), data]
        at = start + record.offset + record.size
    places = [(i, made.blob) for i, made in enumerate(constants) if isinstance(made, _Array)]
    return FileLayout(tuple(parts), {i: start + blobs.records[blob].offset for i, blob in places}, at)


def _record(constant: Constant, blobs: _Blobs) -> _ConstantRecord:
    match constant:
        case NDArray():
            if not constant.is_host:
                raise ArtifactError(f"a constant is on {constant.device}; only host arrays are written to a file")
            return _Array(constant.dtype, constant.shape, blobs.add(constant.as_bytes()))
        case ShapeTuple():
            return _Shape(tuple(constant))
        case DataType():
            return _DataType(str(constant))
        case str():
            return _Text(str(constant))
        case float():
            return _Real(constant.hex())
        case int():
            return _Integer(constant)


def to_bytes(program: Program) -> bytes:
    """The file's bytes."""
    return b"".join(layout(program).chunks)


def write(program: Program, path: Path) -> None:
    """Write a program to a file, whole or not at all."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.writelines(layout(program).chunks)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


# -- reading ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Contents:
    manifest: _Manifest
    data: memoryview
    start: int

    def blob(self, index: int) -> memoryview:
        if not 0 <= index < len(self.manifest.blobs):
            raise ArtifactError(f"the model names blob {index}; it has {len(self.manifest.blobs)}")
        record = self.manifest.blobs[index]
        first = self.start + record.offset
        if record.size < 0 or record.offset < 0 or record.offset % ALIGNMENT or first + record.size > len(self.data):
            raise ArtifactError(f"the model is cut short or damaged: blob {index} lies outside of it")
        return self.data[first : first + record.size]

    def checked(self, index: int) -> memoryview:
        blob = self.blob(index)
        if hashlib.sha256(blob).hexdigest() != self.manifest.blobs[index].sha256:
            raise ArtifactError(f"the model is damaged: blob {index} does not match its sha256")
        return blob


def read_file(path: Path) -> Program:
    """Read a model's file. Its arrays are the file's own pages, read when first used.

    Raises ArtifactError on anything but such a file, and OSError where it cannot be opened.
    """
    with path.open("rb") as file:
        try:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError:  # an empty file cannot be mapped
            data = memoryview(b"")
    return read(data)


def read(data: bytes | memoryview) -> Program:
    """Read what `to_bytes` wrote. Arrays share its memory where that is aligned. Raises ArtifactError."""
    contents = _contents(memoryview(data).cast("B"))
    manifest = contents.manifest
    try:
        functions = _code_decoder.decode(contents.checked(manifest.code))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ArtifactError(f"the model's instructions are not valid: {error}") from None
    kernels = {item.device: Artifact.from_bytes(contents.checked(item.blob)) for item in manifest.kernels}
    constants = tuple(_constant(record, contents) for record in manifest.constants)
    modules = tuple(Artifact.from_bytes(contents.checked(index)) for index in manifest.modules)
    return Program(functions, constants, kernels, manifest.target, manifest.meta, manifest.interpreted, modules)


def verify(data: bytes | memoryview) -> None:
    """Compare the hashes of all that a model's file holds. Raises ArtifactError where one differs."""
    contents = _contents(memoryview(data).cast("B"))
    for index in range(len(contents.manifest.blobs)):
        contents.checked(index)


def _contents(view: memoryview) -> _Contents:
    manifest, end = _FRAMING.read(view, _manifest_decoder)
    if len(manifest.constants) > MAX_CONSTANTS:
        raise ArtifactError(f"the model's manifest lists {len(manifest.constants):,} constants")
    return _Contents(manifest, view, _aligned(end, _PAGE))


def _constant(record: _ConstantRecord, contents: _Contents) -> Constant:
    try:
        match record:
            case _Array(dtype, shape, index):
                return _array(dtype_name(dtype), shape, contents.blob(index))
            case _Shape(extents):
                return ShapeTuple(extents)
            case _DataType(name):
                return DataType(name)
            case _Text(text):
                return text
            case _Integer(value):
                return value
            case _Real(value):
                return float.fromhex(value)
    except (ArgumentError, ValueError, OverflowError) as error:
        raise ArtifactError(f"a constant of the model is not valid: {error}") from None


def _array(dtype: str, shape: tuple[int, ...], blob: memoryview) -> NDArray:
    if len(shape) > MAX_NDIM or any(not 0 <= extent < 1 << 48 for extent in shape):
        raise ArtifactError(f"a constant of the model has an impossible shape: {shape}")
    if prod(shape) * storage_dtype(dtype).itemsize != blob.nbytes:
        raise ArtifactError(f"a constant of the model, {dtype}{list(shape)}, has {blob.nbytes} bytes")
    if not blob.nbytes:
        return NDArray(shape, dtype, cpu(), HostBuffer(np.empty(0, np.uint8)))
    data = np.frombuffer(blob, np.uint8)
    if data.ctypes.data % ALIGNMENT:
        aligned = np.empty(blob.nbytes + ALIGNMENT, np.uint8)
        first = -aligned.ctypes.data % ALIGNMENT
        aligned[first : first + blob.nbytes] = data
        data = aligned[first : first + blob.nbytes]
    return NDArray(shape, dtype, cpu(), HostBuffer(data), owner=data)


def _aligned(offset: int, to: int) -> int:
    return -(-offset // to) * to
