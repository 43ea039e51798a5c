"""Read models and their tensors, from a file or a proto, within limits.

A model may come from anybody, so sizes, paths and nesting are checked before they are used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from compiler.frontend.onnx.element_types import SMALL_FLOATS, SMALL_INTS, AnyArray, dtype_of, elem_name, stored
from compiler.frontend.onnx.errors import OnnxFileError
from compiler.runtime.core.dtypes import storage_dtype

MAX_FILE = 2 << 30
"""Bytes of a model file; larger ones keep their weights beside them."""
MAX_NODES = 1_000_000
MAX_ELEMENTS = 1 << 33
MAX_NESTING = 32


def read_model(model: ModelProto | str | os.PathLike[str] | bytes) -> tuple[ModelProto, TensorSource]:
    """The model and what reads its tensors. A path is a file; bytes are its content. Raises OnnxFileError."""
    if isinstance(model, ModelProto):
        found, folder = model, None
    elif isinstance(model, bytes):
        found, folder = _parsed(model, "the bytes"), None
    elif isinstance(model, str | os.PathLike):
        path = Path(model)
        try:
            if not path.is_file():
                raise OnnxFileError(f"there is no file {path}")
            size = path.stat().st_size
            if size > MAX_FILE:
                raise OnnxFileError(f"{path} has {size} bytes", hint=f"a model file has at most {MAX_FILE}")
            content = path.read_bytes()
        except OSError as error:
            raise OnnxFileError(f"cannot read {path}: {error.strerror}") from error
        found, folder = _parsed(content, str(path)), path.resolve().parent
    else:
        raise OnnxFileError(f"a model is a ModelProto or a path, not a {type(model).__name__}")
    if not found.graph.output:
        raise OnnxFileError("the model has no outputs", hint="is it an ONNX model?")
    check_size(found)
    return found, TensorSource(folder)


def _parsed(content: bytes, name: str) -> ModelProto:
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except (DecodeError, RecursionError) as error:
        raise OnnxFileError(f"{name}: this is no ONNX model: {error}") from None
    return model


def check_size(model: ModelProto) -> None:
    """Raise OnnxFileError for a model with too many nodes, or with graphs too deep inside of each other."""
    waiting: list[tuple[Iterable[NodeProto], int]] = [(model.graph.node, 0)]
    waiting += [(function.node, 0) for function in model.functions]
    count = 0
    while waiting:
        nodes, depth = waiting.pop()
        if depth > MAX_NESTING:
            raise OnnxFileError(f"graphs lie more than {MAX_NESTING} deep inside of each other")
        for node in nodes:
            count += 1
            if not all(isinstance(text, str) for text in (node.op_type, node.domain, *node.input, *node.output)):
                raise OnnxFileError("the name of a value or of an operator is no UTF-8 text")
            waiting += [(graph.node, depth + 1) for graph in graphs_in(node)]
        if count > MAX_NODES:
            raise OnnxFileError(f"the model has more than {MAX_NODES} nodes")


def graphs_in(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs among a node's attributes."""
    for item in node.attribute:
        if item.type == AttributeProto.GRAPH:
            yield item.g
        elif item.type == AttributeProto.GRAPHS:
            yield from item.graphs


class TensorSource:
    """Reads tensors. `folder` is where a model's external data lies; None where it has none."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def array(self, tensor: TensorProto) -> AnyArray:
        """A tensor's elements as the graph holds them. Raises OnnxFileError for one that is broken."""
        name = tensor.name or "a tensor"
        dtype = dtype_of(tensor.data_type, name)
        shape = tuple(tensor.dims)
        if any(size < 0 for size in shape) or prod(shape) > MAX_ELEMENTS:
            raise OnnxFileError(f"{name} has the shape {shape}")
        if tensor.data_location == TensorProto.EXTERNAL:
            return self._external(tensor, name, shape)
        held = _held(tensor)
        if held is not None and held < prod(shape):
            raise OnnxFileError(f"{name} has the shape {shape}, but holds {held} elements")
        try:
            found: Any = numpy_helper.to_array(tensor)
        except (ValueError, TypeError, RuntimeError, OverflowError) as error:
            raise OnnxFileError(f"{name} ({elem_name(tensor.data_type)}{list(shape)}) is broken: {error}") from None
        array = stored(np.asarray(found), tensor.data_type)
        assert array.dtype == storage_dtype(dtype)
        return array

    def _external(self, tensor: TensorProto, name: str, shape: tuple[int, ...]) -> AnyArray:
        entries = {item.key: item.value for item in tensor.external_data}
        path = self._path(entries.get("location", ""), name)
        if tensor.data_type in SMALL_FLOATS or tensor.data_type in SMALL_INTS:
            bits = SMALL_FLOATS[tensor.data_type].bits if tensor.data_type in SMALL_FLOATS else (
                4 if "4" in elem_name(tensor.data_type) else 2
            )  # fmt: skip
            bytes_wanted = (prod(shape) * bits + 7) // 8
        else:
            bytes_wanted = prod(shape) * storage_dtype(dtype_of(tensor.data_type)).itemsize
        try:
            offset, length = int(entries.get("offset") or 0), int(entries.get("length") or bytes_wanted)
        except ValueError:
            raise OnnxFileError(f"{name}: its place in {path.name} is no number") from None
        if offset < 0 or length < bytes_wanted:
            raise OnnxFileError(f"{name} needs {bytes_wanted} bytes; {length} from byte {offset} on are named")
        try:
            with path.open("rb") as file:
                file.seek(offset)
                content = file.read(bytes_wanted)
        except OSError as error:
            raise OnnxFileError(f"{name}: cannot read {path.name}: {error.strerror}") from None
        if len(content) != bytes_wanted:
            raise OnnxFileError(f"{name} needs {bytes_wanted} bytes from byte {offset} of {path.name} on")
        plain = TensorProto(data_type=tensor.data_type, dims=shape, raw_data=content, name=tensor.name)
        return stored(np.asarray(numpy_helper.to_array(plain)), tensor.data_type)

    def _path(self, location: str, name: str) -> Path:
        """The file of external data: a regular one in the model's folder, and not by way of a link."""
        if self._folder is None:
            raise OnnxFileError(
                f"{name} lies in the file {location!r} beside the model",
                hint="give from_onnx the model's path, or onnx.load(path) with the data",
            )
        asked = self._folder / location
        found = asked.resolve()
        if not location or Path(location).is_absolute() or not found.is_relative_to(self._folder):
            raise OnnxFileError(f"{name}: its data would lie at {location!r}, outside of the model's folder")
        if not found.is_file():
            raise OnnxFileError(f"{name}: there is no file {location!r} beside the model")
        return found


def _held(tensor: TensorProto) -> int | None:
    """Return the most elements that a tensor holds; None if numpy is to decide."""
    if tensor.HasField("raw_data"):
        if tensor.data_type in SMALL_FLOATS or tensor.data_type in SMALL_INTS:
            return 4 * len(tensor.raw_data)
        return len(tensor.raw_data) // storage_dtype(dtype_of(tensor.data_type)).itemsize
    return None
