"""Operators that are defined by other operators: the model's own functions, and ONNX's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from google.protobuf.message import DecodeError
from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, defs

from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.values import OptionalValue, SequenceValue, TensorValue, Value
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """The nodes that stand for one node, in the names of the function that they are from."""

    nodes: Sequence[NodeProto]
    inputs: Sequence[str]
    outputs: Sequence[str]
    attributes: Mapping[str, AttributeProto]
    opsets: Mapping[str, int]


@lru_cache(maxsize=2048)
def schema_of(domain: str, name: str, opset: int) -> Any:
    """Return ONNX's schema of an operator in an opset; None if ONNX does not know it."""
    try:
        return defs.get_schema(name, opset, domain)
    except defs.SchemaError:
        return None


def is_defined(domain: str, name: str, opset: int) -> bool:
    """Whether ONNX defines the operator by others."""
    schema = schema_of(domain, name, opset)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def of_model(function: FunctionProto, node: Node) -> Expansion:
    """The body of a function of the model for a node that calls it."""
    given = {item.name: item for item in node.proto.attribute}
    defaults = {item.name: item for item in function.attribute_proto}
    opsets = {item.domain if item.domain != "ai.onnx" else "": item.version for item in function.opset_import}
    return Expansion(function.node, function.input, function.output, {**defaults, **given}, opsets)


def of_onnx(node: Node) -> Expansion | None:
    """The body that ONNX gives for a node; None where it has none for it."""
    schema = schema_of(node.domain, node.op, node.opset)
    if schema is None:
        return None
    body = _body(schema, node)
    if body is None:
        return None
    defaults = {
        name: attribute.default_value
        for name, attribute in schema.attributes.items()
        if attribute.default_value.type != AttributeProto.UNDEFINED
    }
    given = {item.name: item for item in node.proto.attribute}
    opsets = {item.domain if item.domain != "ai.onnx" else "": item.version for item in body.opset_import}
    opsets.setdefault(node.domain, node.opset)
    return Expansion(body.node, body.input, body.output, {**defaults, **given}, opsets)


def _body(schema: Any, node: Node) -> FunctionProto | None:
    """The newest body that is not newer than the node's opset."""
    context = [v for v in schema.context_dependent_function_opset_versions if v <= node.opset]
    plain = [v for v in schema.function_opset_versions if v <= node.opset]
    found: bytes = b""
    if context:
        types = [_type(value) for value in node.inputs]
        found = schema.get_context_dependent_function_with_opset_version(
            max(context), node.proto.SerializeToString(), types
        )
    elif plain:
        found = schema.get_function_with_opset_version(max(plain))
    if not found:
        return None
    body = FunctionProto()
    try:
        body.ParseFromString(found)
    except DecodeError:
        return None
    return body


def _type(value: Value | None) -> bytes:
    """A type proto of a value, as far as it is known."""
    made = TypeProto()
    match value:
        case TensorValue():
            made.tensor_type.elem_type = value.elem
            dims: Any = getattr(getattr(value.expr, "struct_info_", None), "dims", None)
            if value.array is not None:
                dims = value.array.shape
            elif value.expr is None and value.deferred is not None:
                dims = value.deferred.dims
            if dims is not None:
                for size in dims:
                    known = ops.as_int(size) if isinstance(size, PrimExpr) else int(size)
                    entry = made.tensor_type.shape.dim.add()
                    if known is not None:
                        entry.dim_value = known
        case SequenceValue():
            made.sequence_type.elem_type.ParseFromString(_type(value.items[0]) if value.items else b"")
        case OptionalValue():
            made.optional_type.elem_type.ParseFromString(_type(value.item))
    found: bytes = made.SerializeToString()
    return found
